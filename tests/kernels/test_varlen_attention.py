import pytest
import torch
import torch.nn.functional as F

from kernels.plain import attend_varlen as plain_attend_varlen
from regard.kernels import varlen_attention
from regard.kernels.varlen_attention import PackedRows, TilePlan, Tiles, attend_varlen

H, K = 2, 32
FACTOR = K**-0.5
TARGETS, SOURCES = [4, 1, 18], [20, 2, 5]  # one longer than a tile
SMALL = TilePlan(Tiles(16, 16), Tiles(16, 16, stride=8))
KINDS = {"causal": (True, False), "full": (False, False), "cross": (False, True)}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setitem(varlen_attention.TILE_PLANS, 32, SMALL)


def rows(lengths, device):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # (B, S)
    offsets = F.pad(mask.sum(1).cumsum(0), (1, 0)).to(torch.int32)
    return PackedRows(
        offsets.to(device), mask.flatten().nonzero().squeeze(1).to(device), max(lengths)
    )


def given(kind, device, *, width=K, dtype=torch.float32, targets=TARGETS, sources=SOURCES):
    """Parts, the two sides' rows, and whether it is causal."""
    causal, cross = KINDS[kind]
    queries, keys = rows(targets, device), rows(sources if cross else targets, device)
    generator = torch.Generator().manual_seed(1)
    shapes = [(sum(targets), 1), (sum(sources), 2)] if cross else [(sum(targets), 3)]
    parts = [torch.randn(*shape, H, width, generator=generator) for shape in shapes]
    return [x.to(device, dtype).requires_grad_() for x in parts], queries, keys, causal


def grads(found, parts):
    generator = torch.Generator().manual_seed(2)
    ways = torch.randn(found.shape, generator=generator).to(found)
    return torch.autograd.grad(found, parts, ways)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_equals_the_formula(kind, dropout, device, seed):
    parts, queries, keys, causal = given(kind, device)
    how = {"causal": causal, "scale": FACTOR, "dropout": dropout}
    found = attend_varlen(parts, queries, keys, **how)
    wanted = plain_attend_varlen(parts, queries, keys, **how, seed=seed)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(grads(found, parts), grads(wanted, parts), atol=2e-5, rtol=1e-4)


def test_head_widths_need_not_be_powers_of_two_and_parts_may_be_slices(device):
    (whole,), queries, keys, _ = given("full", device, width=24)
    parts = [part.detach().requires_grad_() for part in whole.split(1, dim=1)]
    assert not parts[1].is_contiguous()
    found = attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    wanted = plain_attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(grads(found, parts), grads(wanted, parts), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_close_to_the_formula(dtype, device):
    if dtype == torch.bfloat16 and device.type == "cpu":
        pytest.skip("Triton's interpreter cannot multiply matrices of bfloat16")
    parts, queries, keys, causal = given("causal", device, dtype=dtype)
    found = attend_varlen(parts, queries, keys, causal=causal, scale=FACTOR)
    precise = [part.detach().double().requires_grad_() for part in parts]
    wanted = plain_attend_varlen(precise, queries, keys, causal=causal, scale=FACTOR)
    for one, other in [
        (found, wanted),
        *zip(grads(found, parts), grads(wanted, precise), strict=True),
    ]:
        assert one.dtype == dtype
        assert (one.double() - other).norm() < 0.01 * other.norm()


def test_queries_without_keys_yield_zeros(device):
    sides = {"targets": [3, 5, 2], "sources": [4, 0, 6]}
    parts, queries, keys, _ = given("cross", device, **sides)
    found = attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    assert (found[3:8] == 0).all()
    to_queries, to_keys = grads(found, parts)
    assert (to_queries[3:8] == 0).all()
    wanted = plain_attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close((to_queries, to_keys), grads(wanted, parts), atol=2e-5, rtol=1e-4)


def test_keys_without_queries_have_zero_gradients(device):
    parts, queries, keys, _ = given("cross", device, targets=[3, 0, 2, 0], sources=[4, 5, 6, 2])
    found = attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    _, to_keys = grads(found, parts)
    assert (to_keys[4:9] == 0).all()
    assert (to_keys[15:] == 0).all()
    wanted = plain_attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    torch.testing.assert_close(to_keys, grads(wanted, parts)[1], atol=2e-5, rtol=1e-4)


def test_without_queries_all_gradients_are_zero(device):
    parts, queries, keys, _ = given("cross", device, targets=[0, 0], sources=[4, 1])
    found = attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    assert found.shape == (0, H, K)
    to_queries, to_keys = grads(found, parts)
    assert to_queries.shape == (0, 1, H, K)
    assert (to_keys == 0).all()


def test_each_call_draws_another_dropout_mask(device):
    parts, queries, keys, causal = given("causal", device)
    how = {"causal": causal, "scale": FACTOR, "dropout": 0.5}
    one, other = (attend_varlen(parts, queries, keys, **how) for _ in range(2))
    assert not torch.equal(one, other)


def test_the_numbers_of_a_head_must_be_contiguous(device):
    parts, queries, keys, causal = given("causal", device)
    turned = parts[0].detach().mT.contiguous().mT
    with pytest.raises(ValueError, match="side by side"):
        attend_varlen([turned], queries, keys, causal=causal, scale=FACTOR)
