import pytest
import torch
import torch.nn.functional as F

from regard.kernels import varlen_attention
from regard.kernels.varlen_attention import (
    PackedRows,
    TilePlan,
    Tiles,
    attend_varlen,
    plain_attend_varlen,
)

H, K = 2, 32
FACTOR = K**-0.5
TARGETS, SOURCES = [4, 1, 18], [20, 2, 5]  # one longer than a tile
WHOLE = TilePlan(Tiles(16, 16, 4), whole=Tiles(16, 16, 4, stride=8))
APART = TilePlan(Tiles(16, 32, 4), Tiles(16, 32, 4), Tiles(32, 16, 4), whole=None)
KINDS = {"causal": (True, False), "full": (False, False), "cross": (False, True)}


def rows(lengths, where):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # (B, S)
    offsets = F.pad(mask.sum(1).cumsum(0), (1, 0)).to(torch.int32)
    return PackedRows(
        offsets.to(where), mask.flatten().nonzero().squeeze(1).to(where), max(lengths)
    )


def given(kind, where, *, width=K, dtype=torch.float32, targets=TARGETS, sources=SOURCES):
    """Parts, the two sides' rows, and whether it is causal."""
    causal, cross = KINDS[kind]
    queries, keys = rows(targets, where), rows(sources if cross else targets, where)
    generator = torch.Generator().manual_seed(1)
    shapes = [(sum(targets), 1), (sum(sources), 2)] if cross else [(sum(targets), 3)]
    parts = [torch.randn(*shape, H, width, generator=generator) for shape in shapes]
    return [x.to(where, dtype).requires_grad_() for x in parts], queries, keys, causal


def grads(found, parts):
    generator = torch.Generator().manual_seed(2)
    ways = torch.randn(found.shape, generator=generator).to(found)
    return torch.autograd.grad(found, parts, ways)


@pytest.mark.parametrize(
    ("plan", "dropout"), [(WHOLE, 0.0), (WHOLE, 0.3), (APART, 0.3)], ids=["plain", "whole", "apart"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_is_the_formula(kind, plan, dropout, where, seed, monkeypatch):
    monkeypatch.setitem(varlen_attention.TILE_PLANS, 32, plan)
    parts, queries, keys, causal = given(kind, where)
    how = {"causal": causal, "scale": FACTOR, "dropout": dropout}
    found = attend_varlen(parts, queries, keys, **how)
    wanted = plain_attend_varlen(parts, queries, keys, **how, seed=seed)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(grads(found, parts), grads(wanted, parts), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("plan", [WHOLE, APART], ids=["whole", "apart"])
def test_heads_that_are_no_power_of_two_and_parts_that_are_slices(plan, where, monkeypatch):
    monkeypatch.setitem(varlen_attention.TILE_PLANS, 32, plan)
    (whole,), queries, keys, _ = given("full", where, width=24)
    parts = [part.detach().requires_grad_() for part in whole.split(1, dim=1)]
    assert not parts[1].is_contiguous()
    found = attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    wanted = plain_attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(grads(found, parts), grads(wanted, parts), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_near_the_formula(dtype, where, monkeypatch):
    if dtype == torch.bfloat16 and where.type == "cpu":
        pytest.skip("Triton's interpreter cannot multiply matrices of bfloat16")
    monkeypatch.setitem(varlen_attention.TILE_PLANS, 32, WHOLE)
    parts, queries, keys, causal = given("causal", where, dtype=dtype)
    found = attend_varlen(parts, queries, keys, causal=causal, scale=FACTOR)
    precise = [part.detach().double().requires_grad_() for part in parts]
    wanted = plain_attend_varlen(precise, queries, keys, causal=causal, scale=FACTOR)
    for one, other in [
        (found, wanted),
        *zip(grads(found, parts), grads(wanted, precise), strict=True),
    ]:
        assert one.dtype == dtype
        assert (one.double() - other).norm() < 0.01 * other.norm()


@pytest.mark.parametrize("plan", [WHOLE, APART], ids=["whole", "apart"])
def test_who_has_nothing_to_see_finds_zeros(plan, where, monkeypatch):
    monkeypatch.setitem(varlen_attention.TILE_PLANS, 32, plan)
    sides = {"targets": [3, 5, 2], "sources": [4, 0, 6]}
    parts, queries, keys, _ = given("cross", where, **sides)
    found = attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    assert (found[3:8] == 0).all()
    to_queries, to_keys = grads(found, parts)
    assert (to_queries[3:8] == 0).all()
    wanted = plain_attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close((to_queries, to_keys), grads(wanted, parts), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("plan", [WHOLE, APART], ids=["whole", "apart"])
def test_who_is_seen_by_nobody_has_no_slope(plan, where, monkeypatch):
    monkeypatch.setitem(varlen_attention.TILE_PLANS, 32, plan)
    parts, queries, keys, _ = given("cross", where, targets=[3, 0, 2, 0], sources=[4, 5, 6, 2])
    found = attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    _, to_keys = grads(found, parts)
    assert (to_keys[4:9] == 0).all()
    assert (to_keys[15:] == 0).all()
    wanted = plain_attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    torch.testing.assert_close(to_keys, grads(wanted, parts)[1], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("plan", [WHOLE, APART], ids=["whole", "apart"])
def test_where_nobody_asks_nobody_has_a_slope(plan, where, monkeypatch):
    monkeypatch.setitem(varlen_attention.TILE_PLANS, 32, plan)
    parts, queries, keys, _ = given("cross", where, targets=[0, 0], sources=[4, 1])
    found = attend_varlen(parts, queries, keys, causal=False, scale=FACTOR)
    assert found.shape == (0, H, K)
    to_queries, to_keys = grads(found, parts)
    assert to_queries.shape == (0, 1, H, K)
    assert (to_keys == 0).all()


def test_each_call_drops_others(where):
    parts, queries, keys, causal = given("causal", where)
    how = {"causal": causal, "scale": FACTOR, "dropout": 0.5}
    one, other = (attend_varlen(parts, queries, keys, **how) for _ in range(2))
    assert not torch.equal(one, other)


@pytest.mark.parametrize("kind", ["causal", "cross"])
def test_torch_knows_the_operator(kind, where, seed, monkeypatch):
    monkeypatch.setitem(varlen_attention.TILE_PLANS, 32, WHOLE)
    small = {"targets": [2, 3], "sources": [4, 1]}
    parts, queries, keys, causal = given(kind, where, **small)
    inputs = parts, *queries, *keys, seed, causal, FACTOR, 0.1
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(varlen_attention._forward, inputs, test_utils=checks)


def test_a_compiler_sees_one_graph(where, monkeypatch):
    monkeypatch.setitem(varlen_attention.TILE_PLANS, 32, WHOLE)
    parts, queries, keys, causal = given("causal", where)

    def found(part):
        return attend_varlen([part * 2], queries, keys, causal=causal, scale=FACTOR)

    compiled = torch.compile(found, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(parts[0]), found(parts[0]))
    torch.testing.assert_close(grads(compiled(parts[0]), parts), grads(found(parts[0]), parts))


def test_numbers_of_a_head_must_lie_side_by_side(where):
    parts, queries, keys, causal = given("causal", where)
    turned = parts[0].detach().mT.contiguous().mT
    with pytest.raises(ValueError, match="side by side"):
        attend_varlen([turned], queries, keys, causal=causal, scale=FACTOR)
