import math

import pytest
import torch
from torch import nn

from regard.attention.attend import KeyValues, causal_mask, padding_mask
from regard.attention.block_local import SlidingWindow
from regard.attention.kv_cache import Ancestry, KVCache
from regard.attention.multihead import CachedAttention, MultiHeadAttention, SelfAttention
from regard.attention.positions import RelativeKeys, apply_rotary
from regard.types import Site

B, T, S, D, H = 2, 14, 5, 24, 3
K = D // H
HERE = Site("cross", 0)
REAL = torch.arange(T) < torch.tensor([[T], [9]])


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def pair(request):
    """Ours and torch's with the same weights, in float64."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(D, H, bias=request.param).double().eval()
    theirs = nn.MultiheadAttention(D, H, bias=request.param, batch_first=True).double().eval()
    with torch.no_grad():
        for bias in (ours.project.bias, ours.out.bias):
            if bias is not None:
                bias.normal_()
    theirs.in_proj_weight, theirs.in_proj_bias = ours.project.weight, ours.project.bias
    theirs.out_proj = ours.out
    return ours, theirs


def test_self_attention_equals_torch(pair):
    ours, theirs = pair
    x = torch.randn(B, T, D, dtype=torch.float64)
    seen = []
    queries, kv = ours.project_all(x)
    causal = causal_mask(T, T)
    found = ours.out(ours(queries, kv, causal, site=HERE, hook=lambda _, w: seen.append(w) or w))
    wanted, weights = theirs(x, x, x, attn_mask=~causal[0, 0], average_attn_weights=False)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(seen[0], weights)


def test_attention_to_a_memory_equals_torch(pair):
    ours, theirs = pair
    x, memory = (torch.randn(B, n, D, dtype=torch.float64) for n in (T, S))
    real = torch.tensor([[True] * S, [True, True, False, False, False]])
    queries, kv = ours.project_queries(x), ours.project_memory(memory)
    found = ours.out(ours(queries, kv, padding_mask(real), site=HERE))
    wanted, _ = theirs(x, memory, memory, key_padding_mask=~real)
    torch.testing.assert_close(found, wanted)


def test_the_three_projections_are_slices_of_one():
    attention = MultiHeadAttention(D, H).double()
    x = torch.randn(B, T, D, dtype=torch.float64)
    queries, kv = attention.project_all(x)
    torch.testing.assert_close(attention.project_queries(x), queries)
    torch.testing.assert_close(attention.project_memory(x).keys, kv.keys)
    torch.testing.assert_close(attention.project_memory(x).values, kv.values)


def test_each_projection_is_drawn_as_if_alone():
    torch.manual_seed(0)
    attention = MultiHeadAttention(256, 4)
    bound = (6 / 512) ** 0.5  # Xavier for 256 -> 256, not for 256 -> 768
    for matrix in attention.project.weight.chunk(3):
        assert 0.98 * bound < matrix.abs().max() <= bound
    assert (attention.project.bias == 0).all()


def test_dropout_works_in_training_alone():
    torch.manual_seed(0)
    attention = MultiHeadAttention(D, H, dropout=0.5)
    queries, kv = attention.project_all(torch.randn(B, T, D))
    mask = causal_mask(T, T)
    first, second = (attention(queries, kv, mask, site=HERE) for _ in range(2))
    assert not torch.equal(first, second)
    attention.eval()
    first, second = (attention(queries, kv, mask, site=HERE) for _ in range(2))
    assert torch.equal(first, second)


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="width=10 and heads=4"):
        MultiHeadAttention(10, 4)


def attention(dtype=torch.float64, **given):
    torch.manual_seed(0)
    return SelfAttention(D, H, **given).to(dtype).eval()


def relative(ahead=2):
    torch.manual_seed(1)
    return RelativeKeys(K, back=3, ahead=ahead)


def look(attention, x, mask, hook=None):
    queries, kv = attention.project_all(x)
    return attention(queries, kv, mask, site=HERE, hook=hook)


def test_relative_vectors_are_added_to_the_keys():
    ours = attention(relative=relative())
    x = torch.randn(B, T, D, dtype=torch.float64)
    queries, kv = ours.project_all(x)
    heads = torch.empty(B, H, T, K, dtype=torch.float64)
    for i in range(T):
        vectors = torch.stack(
            [ours.relative.vectors[max(-3, min(2, j - i)) + 3] for j in range(T)]
        )  # (T, K)
        keys = kv.keys + vectors
        scores = (queries[:, :, i, None] * keys).sum(-1) / math.sqrt(K)  # (B, H, T)
        weights = scores.masked_fill(~REAL[:, None], float("-inf")).softmax(-1)
        heads[:, :, i] = (weights[..., None] * kv.values).sum(2)
    wanted = heads.transpose(1, 2).flatten(2)
    torch.testing.assert_close(look(ours, x, padding_mask(REAL)), wanted)


def test_rotary_turns_queries_and_keys_but_not_values():
    x = torch.randn(B, T, D, dtype=torch.float64)
    still, rotated = attention(), attention(rotary=True)
    queries, kv = rotated.project_all(x)
    wanted, unturned = still.project_all(x)
    torch.testing.assert_close(queries, apply_rotary(wanted, torch.arange(T)))
    torch.testing.assert_close(kv.keys, apply_rotary(unturned.keys, torch.arange(T)))
    assert torch.equal(kv.values, unturned.values)
    queries, _ = rotated.project_all(x, 5)
    torch.testing.assert_close(queries, apply_rotary(wanted, torch.tensor([5])))


@pytest.mark.parametrize("ahead", [3, 0])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_windows_in_blocks_equal_windows_by_a_mask(biased, rotary, ahead):
    ours = attention(
        torch.float32,
        rotary=rotary,
        relative=relative() if biased else None,
        window=SlidingWindow(3, ahead),
    )
    x, mask = torch.randn(B, T, D), padding_mask(REAL)
    seen = []
    wanted = look(ours, x, mask, hook=lambda _, w: seen.append(w) or w)
    torch.testing.assert_close(look(ours, x, mask), wanted)
    assert seen[0].shape == (B, H, T, T)
    rows, columns = seen[0][0].amax(0).nonzero(as_tuple=True)
    assert (columns - rows).min() == -3
    assert (columns - rows).max() == ahead


def test_no_square_is_made_of_a_long_sequence(monkeypatch):
    shapes = []
    real = torch.nn.functional.scaled_dot_product_attention

    def spy(queries, keys, *args, **given):
        shapes.append((queries.shape[2], keys.shape[2], given["attn_mask"].shape[2:]))
        return real(queries, keys, *args, **given)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    ours = attention(torch.float32, window=SlidingWindow(2, 0))
    look(ours, torch.randn(B, T, D), torch.ones(1, 1, 1, T, dtype=torch.bool))
    assert shapes == [(2, 4, (2, 4))]


def test_a_window_longer_than_the_sentence_hides_nothing():
    x, mask = torch.randn(B, T, D), padding_mask(REAL)
    without_window = attention(torch.float32)
    torch.testing.assert_close(
        look(attention(torch.float32, window=SlidingWindow(T, T)), x, mask),
        look(without_window, x, mask),
    )
    causal, every = causal_mask(T, T), torch.ones(1, 1, 1, T, dtype=torch.bool)
    torch.testing.assert_close(
        look(attention(torch.float32, window=SlidingWindow(T, 0)), x, every),
        look(without_window, x, causal),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "given",
    [{}, {"rotary": True}, {"relative": relative(0)}],
    ids=["no positions", "rotary", "relative"],
)
def test_each_step_finds_what_its_row_finds(given, dtype):
    ours = attention(dtype, window=SlidingWindow(4, 0), **given)
    x = torch.randn(B, T, D, dtype=dtype)
    wanted = look(ours, x, torch.ones(1, 1, 1, T, dtype=torch.bool))
    ancestry, caches = (
        Ancestry.empty(B, like=x),
        [KVCache(KeyValues(*[torch.zeros(B, H, 0, K, dtype=dtype)] * 2))],
    )
    for t in range(T):
        ancestry = ancestry.extend().windowed(4)
        step = CachedAttention(t, caches, ancestry, [], None, None)
        found = step.self_attend(ours, x[:, t : t + 1], 0)
        torch.testing.assert_close(found, wanted[:, t : t + 1])
