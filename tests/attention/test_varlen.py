import pytest
import torch

from regard.attention.attend import KeyValues, attend, causal_mask, padding_mask
from regard.attention.score_functions import ScaledDotScore
from regard.attention.varlen import (
    PackedLayout,
    PaddedIndex,
    VarlenArgs,
    attend_packed,
    cpu_bmm_attention,
    padded_attention,
)
from regard.types import Site

H, K = 3, 8
SCALE = K**-0.5
TARGETS, SOURCES = [4, 1, 3], [2, 6, 5]
FEW = [1, 4]
HERE = Site("cross", 0)


def layout(lengths):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # (B, S)
    return PackedLayout.of(mask, mask.flatten().nonzero().squeeze(1))


def some(lengths, seed, dtype=torch.float64):
    """A padded batch of vectors, with noise as padding."""
    generator = torch.Generator().manual_seed(seed)
    shape = len(lengths), max(lengths), H, K
    return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()


def test_a_layout_has_offsets_and_positions():
    found = layout(TARGETS)
    assert found.cu_seqlens.tolist() == [0, 4, 5, 8]
    assert found.cu_seqlens.dtype == torch.int32
    assert found.max_seqlen == 4
    assert found.positions().tolist() == [0, 1, 2, 3, 0, 0, 1, 2]
    assert not found.has_no_padding
    assert layout([3, 3]).has_no_padding


@pytest.mark.parametrize("lengths", [TARGETS, [3, 3]], ids=["padding", "none"])
def test_packing_drops_padding_and_unpacking_restores_it_as_zeros(lengths):
    at, x = layout(lengths), some(lengths, 0)
    packed = at.pack(x)
    torch.testing.assert_close(packed, x[at.mask])
    back = at.unpack(packed)
    torch.testing.assert_close(back, torch.where(at.mask[..., None, None], x, 0.0))
    back.square().sum().backward()
    torch.testing.assert_close(x.grad, 2 * back.detach())


def both_ways(queries, keys, values, targets, sources, *, causal):
    """What `attend` returns for padded batches, packed, and what `attend_packed` returns."""
    to, of = layout(targets), layout(sources)
    heads = queries.transpose(1, 2)
    kv = KeyValues(keys.transpose(1, 2), values.transpose(1, 2))
    mask = causal_mask(max(targets), max(targets)) if causal else padding_mask(of.mask)
    wanted = attend(ScaledDotScore(), heads, kv, mask, site=HERE).transpose(1, 2)
    packed = to.pack(queries), of.pack(keys), of.pack(values)
    return to.pack(wanted), attend_packed(
        [y[:, None] for y in packed], VarlenArgs(to, of, causal=causal, scale=SCALE)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", [TARGETS, [3, 3]], ids=["padding", "none"])
def test_packed_self_attention_equals_padded(lengths, causal, dtype):
    rectangles = [some(lengths, seed, dtype) for seed in range(3)]
    wanted, found = both_ways(*rectangles, lengths, lengths, causal=causal)
    torch.testing.assert_close(found, wanted)
    grads = torch.autograd.grad(wanted.square().sum(), rectangles, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), rectangles), grads)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_packed_cross_attention_equals_padded(dtype):
    rectangles = some(TARGETS, 0, dtype), some(SOURCES, 1, dtype), some(SOURCES, 2, dtype)
    wanted, found = both_ways(*rectangles, TARGETS, SOURCES, causal=False)
    torch.testing.assert_close(found, wanted)
    grads = torch.autograd.grad(wanted.square().sum(), rectangles, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), rectangles), grads)


def test_sentences_do_not_attend_to_each_other():
    at = layout(TARGETS)
    x = at.pack(some(TARGETS, 0)).detach()
    before = attend_packed([x[:, None]] * 3, VarlenArgs(at, at, causal=False, scale=SCALE))
    noisy = torch.cat([x[:4], x[4:5] + 9.0, x[5:]])  # the second sentence is another one
    after = attend_packed([noisy[:, None]] * 3, VarlenArgs(at, at, causal=False, scale=SCALE))
    others = [0, 1, 2, 3, 5, 6, 7]
    assert torch.equal(before[others], after[others])
    assert not torch.equal(before[4], after[4])


def test_dropout_is_applied_to_the_weights():
    at = layout([4, 4])
    x = at.pack(some([4, 4], 0)).detach()
    torch.manual_seed(0)
    one, other = (
        attend_packed([x[:, None]] * 3, VarlenArgs(at, at, causal=False, scale=SCALE, dropout=0.5))
        for _ in range(2)
    )
    assert not torch.equal(one, other)


def packed(lengths, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(sum(lengths), H, K, generator=generator, dtype=torch.float64)
    return x.to(dtype).requires_grad_()


CASES = [(TARGETS, TARGETS, True), (SOURCES, SOURCES, False), (TARGETS, SOURCES, False)]


@pytest.mark.parametrize(("targets", "sources", "causal"), CASES, ids=["own", "both", "cross"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_batched_products_equal_the_padded_form(targets, sources, causal, dtype):
    given = packed(targets, 0, dtype), packed(sources, 1, dtype), packed(sources, 2, dtype)
    layouts = layout(targets), layout(sources)
    found = cpu_bmm_attention(*given, VarlenArgs(*layouts, causal=causal, scale=SCALE))
    exact = [x.detach().double().requires_grad_() for x in given]
    wanted = padded_attention(*exact, VarlenArgs(*layouts, causal=causal, scale=SCALE))
    rough = {"rtol": 0.02, "atol": 0.06} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(found, wanted.to(dtype), **rough)
    grads = torch.autograd.grad(wanted.sin().sum(), exact)
    torch.testing.assert_close(
        torch.autograd.grad(found.sin().sum(), given), tuple(x.to(dtype) for x in grads), **rough
    )


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_of_batched_products_are_right_with_dropout(causal):
    given, at = [packed(FEW, seed, torch.float64) for seed in range(3)], layout(FEW)

    def attend(*inputs):
        torch.manual_seed(4)
        return cpu_bmm_attention(
            *inputs, VarlenArgs(at, at, causal=causal, scale=SCALE, dropout=0.4)
        )

    assert (
        attend(*given) != cpu_bmm_attention(*given, VarlenArgs(at, at, causal=causal, scale=SCALE))
    ).any()
    assert torch.autograd.gradcheck(attend, given)


def test_short_sentences_on_a_cpu_take_batched_products(monkeypatch):
    given, at = [packed(SOURCES, seed, torch.bfloat16) for seed in range(3)], layout(SOURCES)
    wanted = cpu_bmm_attention(*given, VarlenArgs(at, at, causal=False, scale=SCALE))
    assert torch.equal(
        attend_packed([y[:, None] for y in given], VarlenArgs(at, at, causal=False, scale=SCALE)),
        wanted,
    )
    monkeypatch.setattr("regard.attention.varlen.CPU_BMM_MAX_LENGTH", 5)
    padded = padded_attention(*given, VarlenArgs(at, at, causal=False, scale=SCALE))
    assert torch.equal(
        attend_packed([y[:, None] for y in given], VarlenArgs(at, at, causal=False, scale=SCALE)),
        padded,
    )


def test_an_empty_sentence_yields_finite_values_and_gradients():
    mask = torch.tensor([[True, True], [False, False]])
    at = PackedLayout.of(mask, torch.arange(2))
    x = packed([2], 0, torch.float32)
    mixed = cpu_bmm_attention(x, x, x, VarlenArgs(at, at, causal=False, scale=SCALE))
    mixed.sum().backward()
    assert mixed.isfinite().all()
    assert x.grad.isfinite().all()


def test_padding_and_packing_are_inverse():
    at = layout(TARGETS)
    grid, x = (
        PaddedIndex.of(at, 6),
        packed(TARGETS, 0, torch.float64).detach(),
    )
    to_padded = grid.to_padded(x, zeros=True)  # (B * H, 6, K)
    assert to_padded.shape == (3 * H, 6, K)
    torch.testing.assert_close(to_padded.view(3, H, 6, K)[0, :, :4].transpose(0, 1), x[:4])
    assert (to_padded.view(3, H, 6, K)[1, :, 1:] == 0).all()
    torch.testing.assert_close(grid.to_packed(to_padded), x)
    torch.testing.assert_close(grid.to_packed(grid.to_padded(x)), x)
