import pytest
import torch

from regard.attention.attend import KeyValues, attend, causal_mask, padding_mask
from regard.attention.scores import ScaledDotScore
from regard.attention.varlen import PackedLayout, VarlenArgs, attend_packed
from regard.types import Site

H, K = 3, 8
SCALE = K**-0.5
TARGETS, SOURCES = [4, 1, 3], [2, 6, 5]
HERE = Site("cross", 0)


def layout(lengths):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # (B, S)
    return PackedLayout.of(mask, mask.flatten().nonzero().squeeze(1))


def some(lengths, seed, dtype=torch.float64):
    """A rectangle of vectors, noise in its padding."""
    generator = torch.Generator().manual_seed(seed)
    shape = len(lengths), max(lengths), H, K
    return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()


def test_a_layout_says_where_each_sentence_lies():
    found = layout(TARGETS)
    assert found.cu_seqlens.tolist() == [0, 4, 5, 8]
    assert found.cu_seqlens.dtype == torch.int32
    assert found.max_seqlen == 4
    assert found.positions().tolist() == [0, 1, 2, 3, 0, 0, 1, 2]
    assert not found.has_no_padding
    assert layout([3, 3]).has_no_padding


@pytest.mark.parametrize("lengths", [TARGETS, [3, 3]], ids=["padding", "none"])
def test_packing_keeps_what_is_real_and_unpacking_brings_it_back(lengths):
    at, x = layout(lengths), some(lengths, 0)
    packed = at.pack(x)
    torch.testing.assert_close(packed, x[at.mask])
    back = at.unpack(packed)
    torch.testing.assert_close(back, torch.where(at.mask[..., None, None], x, 0.0))
    back.square().sum().backward()
    torch.testing.assert_close(x.grad, 2 * back.detach())


def both_ways(queries, keys, values, targets, sources, *, causal):
    """What `attend` finds in the rectangles, packed afterwards, and what `attend_packed` does."""
    to, of = layout(targets), layout(sources)
    heads = queries.transpose(1, 2)
    kv = KeyValues(keys.transpose(1, 2), values.transpose(1, 2))
    mask = causal_mask(max(targets), max(targets)) if causal else padding_mask(of.mask)
    wanted = attend(ScaledDotScore(), heads, kv, mask, site=HERE).transpose(1, 2)
    packed = to.pack(queries), of.pack(keys), of.pack(values)
    return to.pack(wanted), attend_packed(*packed, VarlenArgs(to, of, causal=causal, scale=SCALE))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", [TARGETS, [3, 3]], ids=["padding", "none"])
def test_a_sentence_looks_at_itself_as_if_it_was_padded(lengths, causal, dtype):
    rectangles = [some(lengths, seed, dtype) for seed in range(3)]
    wanted, found = both_ways(*rectangles, lengths, lengths, causal=causal)
    torch.testing.assert_close(found, wanted)
    grads = torch.autograd.grad(wanted.square().sum(), rectangles, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), rectangles), grads)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sentence_looks_at_another_as_if_both_were_padded(dtype):
    rectangles = some(TARGETS, 0, dtype), some(SOURCES, 1, dtype), some(SOURCES, 2, dtype)
    wanted, found = both_ways(*rectangles, TARGETS, SOURCES, causal=False)
    torch.testing.assert_close(found, wanted)
    grads = torch.autograd.grad(wanted.square().sum(), rectangles, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), rectangles), grads)


def test_no_sentence_sees_another():
    at = layout(TARGETS)
    x = at.pack(some(TARGETS, 0)).detach()
    before = attend_packed(x, x, x, VarlenArgs(at, at, causal=False, scale=SCALE))
    noisy = torch.cat([x[:4], x[4:5] + 9.0, x[5:]])  # the second sentence is another one
    after = attend_packed(noisy, noisy, noisy, VarlenArgs(at, at, causal=False, scale=SCALE))
    others = [0, 1, 2, 3, 5, 6, 7]
    assert torch.equal(before[others], after[others])
    assert not torch.equal(before[4], after[4])


def test_weights_are_dropped():
    at = layout([4, 4])
    x = at.pack(some([4, 4], 0)).detach()
    torch.manual_seed(0)
    one, other = (
        attend_packed(x, x, x, VarlenArgs(at, at, causal=False, scale=SCALE, dropout=0.5))
        for _ in range(2)
    )
    assert not torch.equal(one, other)
