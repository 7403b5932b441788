import math

import pytest
import torch

from regard.attention.block_local import SlidingWindow
from regard.attention.kv_cache import Ancestry, KVCache
from regard.attention.masks import causal_mask, padding_mask
from regard.attention.relative import RelativeKeys
from regard.attention.rotary import apply_rotary
from regard.attention.self_attention import SelfAttention
from regard.types import Site

B, T, D, H = 2, 14, 24, 3
K = D // H
HERE = Site("encoder", 0)
REAL = torch.arange(T) < torch.tensor([[T], [9]])


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
    wanted = ours.out(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(look(ours, x, padding_mask(REAL)), wanted)


def test_rotary_turns_queries_and_keys_but_not_values():
    x = torch.randn(B, T, D, dtype=torch.float64)
    still, rotated = attention(), attention(rotary=True)
    queries, kv = rotated.project_all(x)
    wanted, unturned = still.project_all(x)
    torch.testing.assert_close(queries, apply_rotary(wanted, torch.arange(T)))
    torch.testing.assert_close(kv.keys, apply_rotary(unturned.keys, torch.arange(T)))
    assert torch.equal(kv.values, unturned.values)
    queries, _ = rotated.project_all(x, at=5)
    torch.testing.assert_close(queries, apply_rotary(wanted, torch.tensor([5])))


@pytest.mark.parametrize("ahead", [3, 0])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_windows_in_blocks_equal_windows_by_a_mask(biased, rotary, ahead):
    ours = attention(
        torch.float32,
        rotary=rotary,
        relative=relative() if biased else None,
        span=SlidingWindow(3, ahead),
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
    ours = attention(torch.float32, span=SlidingWindow(2, 0))
    look(ours, torch.randn(B, T, D), torch.ones(1, 1, 1, T, dtype=torch.bool))
    assert shapes == [(2, 4, (2, 4))]


def test_a_window_longer_than_the_sentence_hides_nothing():
    x, mask = torch.randn(B, T, D), padding_mask(REAL)
    blocks_allowed = attention(torch.float32)
    torch.testing.assert_close(
        look(attention(torch.float32, span=SlidingWindow(T, T)), x, mask),
        look(blocks_allowed, x, mask),
    )
    causal, every = causal_mask(T, T), torch.ones(1, 1, 1, T, dtype=torch.bool)
    torch.testing.assert_close(
        look(attention(torch.float32, span=SlidingWindow(T, 0)), x, every),
        look(blocks_allowed, x, causal),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "given",
    [{}, {"rotary": True}, {"relative": relative(0)}],
    ids=["no positions", "rotary", "relative"],
)
def test_each_step_finds_what_its_row_finds(given, dtype):
    ours = attention(dtype, span=SlidingWindow(4, 0), **given)
    x = torch.randn(B, T, D, dtype=dtype)
    wanted = look(ours, x, torch.ones(1, 1, 1, T, dtype=torch.bool))
    ancestry, cache = Ancestry.empty(B, like=x), None
    for t in range(T):
        queries, new = ours.project_all(x[:, t : t + 1], at=t)
        cache = KVCache(new) if cache is None else cache.append(new)
        ancestry = ancestry.extend().windowed(4)
        found = ours.self_cached(queries, cache, ancestry, site=Site("decoder", 0, t))
        torch.testing.assert_close(found, wanted[:, t : t + 1])
