import pytest
import torch

from regard.attention.attend import KeyValues, attend
from regard.attention.kv_cache import (
    BUFFER_STEPS,
    Ancestry,
    KVCache,
    SourceMask,
    attend_cached,
    attend_step,
    use_attend_step,
)
from regard.attention.score_functions import AdditiveScore, ScaledDotScore
from regard.types import Site

B, H, D, DV = 2, 3, 8, 4
WIDTHS = [1, 4, 2, 5, 3]
HERE = Site("decoder", 0, len(WIDTHS) - 1)


def searched(dtype, *, seed=0):
    """Cache and ancestry after steps of several widths, and the hypotheses' own keys and values."""
    torch.manual_seed(seed)
    ancestry = Ancestry.empty(B, like=torch.empty(0, dtype=dtype))
    cache = KeyValues(torch.empty(B, H, 0, D, dtype=dtype), torch.empty(B, H, 0, DV, dtype=dtype))
    own = [[KeyValues(cache.keys[b], cache.values[b])] for b in range(B)]  # (H, t, D) of each
    cache = KVCache(cache)
    for width in WIDTHS:
        parents = torch.randint(ancestry.ancestor_bias.shape[2], (B, width))
        ancestry = ancestry.reorder(parents).extend()
        keys = torch.randn(B, H, width, D, dtype=dtype)
        values = torch.randn(B, H, width, DV, dtype=dtype)
        cache = cache.append(KeyValues(keys, values))
        for b in range(B):
            own[b] = [
                KeyValues(
                    torch.cat([own[b][parent].keys, keys[b, :, k, None]], 1),
                    torch.cat([own[b][parent].values, values[b, :, k, None]], 1),
                )
                for k, parent in enumerate(parents[b])
            ]
    return cache, ancestry, own


def test_an_ancestry_lists_the_slots_of_each_hypothesis():
    ancestry = Ancestry.empty(1, like=torch.empty(0)).reorder(torch.tensor([[0, 0]])).extend()
    assert ancestry.slots.tolist() == [[[0], [1]]]
    ancestry = ancestry.reorder(torch.tensor([[1, 0, 1]])).extend()
    assert ancestry.slots.tolist() == [[[1, 2], [0, 3], [1, 4]]]
    assert ancestry.mask.int().tolist() == [[[[0, 1, 1, 0, 0], [1, 0, 0, 1, 0], [0, 1, 0, 0, 1]]]]
    assert ancestry.positions.tolist() == [0, 0, 1, 1, 1]
    assert ancestry.length == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_bias_is_per_slot_and_a_window_masks_old_ones(dtype):
    cache, ancestry, own = searched(dtype)
    queries = torch.randn(B, H, WIDTHS[-1], D, dtype=dtype)
    bias = torch.randn(B, H, WIDTHS[-1], sum(WIDTHS), dtype=dtype)
    windowed = ancestry.windowed(2)
    assert torch.equal(windowed.slots, ancestry.slots)
    found = attend_cached(ScaledDotScore(), queries, cache, windowed, site=HERE, bias=bias)
    for b in range(B):
        for k in range(WIDTHS[-1]):
            wanted = attend(
                ScaledDotScore(),
                queries[b, :, k : k + 1],
                own[b][k],
                torch.tensor([False, False, True, True, True]),
                site=HERE,
                bias=bias[b, :, k : k + 1, ancestry.slots[b, k]],
            )
            torch.testing.assert_close(found[b, :, k : k + 1], wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("score", [ScaledDotScore(), AdditiveScore(D, D, D)], ids=["dot", "add"])
def test_each_hypothesis_sees_its_own_past(score, hooked, dtype):
    score = score.to(dtype)
    cache, ancestry, own = searched(dtype)
    queries = torch.randn(B, H, WIDTHS[-1], D, dtype=dtype)
    hook = (lambda _, weights: weights) if hooked else None
    found = attend_cached(score, queries, cache, ancestry, site=HERE, hook=hook)
    for b in range(B):
        for k in range(WIDTHS[-1]):
            wanted = attend(
                score, queries[b, :, k : k + 1], own[b][k], torch.ones(1).bool(), site=HERE
            )
            torch.testing.assert_close(found[b, :, k : k + 1], wanted)


def test_a_hook_gets_positions_not_slots_and_may_change_the_weights():
    cache, ancestry, own = searched(torch.float32)
    queries = torch.randn(B, H, WIDTHS[-1], D)

    def look_at_the_first(site, weights):
        assert site == HERE
        assert weights.shape == (B, H, WIDTHS[-1], len(WIDTHS))
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        return torch.eye(len(WIDTHS))[0].expand_as(weights)

    found = attend_cached(
        ScaledDotScore(), queries, cache, ancestry, site=HERE, hook=look_at_the_first
    )
    wanted = torch.stack([torch.stack([kv.values[:, 0] for kv in row], 1) for row in own])
    torch.testing.assert_close(found, wanted)


def test_sentences_are_selected():
    cache, ancestry, _ = searched(torch.float64)
    queries, rows = torch.randn(B, H, WIDTHS[-1], D, dtype=torch.float64), torch.tensor([1])
    found = attend_cached(
        ScaledDotScore(),
        queries[rows],
        cache.select_sentences(rows),
        ancestry.select_sentences(rows),
        site=HERE,
    )
    wanted = attend_cached(ScaledDotScore(), queries, cache, ancestry, site=HERE)[rows]
    assert torch.equal(found, wanted)


def test_a_hypothesis_has_one_slot_per_position():
    _, ancestry, _ = searched(torch.float32)
    assert (ancestry.mask.sum(-1) == len(WIDTHS)).all()
    spread = torch.zeros(B, WIDTHS[-1], sum(WIDTHS), dtype=torch.bool).scatter(
        2, ancestry.slots, True
    )
    assert torch.equal(ancestry.mask[:, 0], spread)


def new_columns(count, seed):
    torch.manual_seed(seed)
    return KeyValues(torch.randn(B, H, count, D), torch.randn(B, H, count, DV))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_a_cache_is_a_value_that_can_be_appended_to_twice(mode):
    with mode():
        cache, all_laid = KVCache(new_columns(0, 0)), new_columns(0, 0)
        for step in range(3 * BUFFER_STEPS):
            before, count = cache, cache.kv.keys.shape[2]
            other = before.append(new_columns(1, 1000 + step))
            cache, all_laid = (
                before.append(new_columns(2, step)),
                all_laid.append(new_columns(2, step)),
            )
            assert torch.equal(other.kv.keys[:, :, :count], before.kv.keys)
            assert torch.equal(other.kv.values[:, :, count:], new_columns(1, 1000 + step).values)
            assert before.kv.keys.shape[2] == count
            for mine, wanted in zip(cache.kv, all_laid, strict=True):
                assert torch.equal(mine, wanted)
        rows = torch.tensor([1])
        assert torch.equal(
            cache.select_sentences(rows)
            .append(new_columns(1, 0).select_sentences(rows))
            .kv.keys[:, :, :-1],
            all_laid.keys[rows],
        )


def test_a_buffer_is_shared_until_a_cache_is_appended_to_twice():
    with torch.inference_mode():
        cache = KVCache(new_columns(0, 0)).append(new_columns(2, 0))
        added = cache.append(new_columns(2, 1))
        assert added.kv.keys.data_ptr() == cache.kv.keys.data_ptr()
        assert cache.append(new_columns(2, 2)).kv.keys.data_ptr() != cache.kv.keys.data_ptr()
    with torch.no_grad():  # where what was made in inference mode may not be written to
        assert torch.equal(added.append(new_columns(2, 3)).kv.keys[:, :, :4], added.kv.keys)


def test_selected_sentences_keep_their_slots_and_capacity():
    with torch.inference_mode():
        cache = KVCache(new_columns(0, 0)).append(new_columns(1, 0)).append(new_columns(2, 1))
        kept = cache.select_sentences(torch.tensor([1]))
        added = kept.append(new_columns(2, 2).select_sentences(torch.tensor([1])))
        assert torch.equal(kept.kv.keys, cache.kv.keys[1:])
        assert added.kv.keys.data_ptr() == kept.kv.keys.data_ptr()
        assert torch.equal(added.kv.values[:, :, :3], cache.kv.values[1:])


def step_inputs():
    torch.manual_seed(0)
    queries = torch.randn(3, H, 4, D)
    kv = KeyValues(torch.randn(3, H, 5, D), torch.randn(3, H, 5, D))
    mask = torch.arange(5) < torch.tensor([5, 2, 0])[:, None, None, None]  # (3, 1, 1, 5)
    return queries, kv, mask


def test_a_step_equals_the_formula_and_fully_masked_rows_yield_zeros():
    queries, kv, mask = step_inputs()
    source_mask = SourceMask.of(mask, queries.dtype)
    found = attend_step(
        queries, source_mask.zero_masked(kv), source_mask.bias, scale=ScaledDotScore().scale(D)
    )
    wanted = attend(ScaledDotScore(), queries, kv, mask, site=HERE, hook=lambda _, w: w)
    torch.testing.assert_close(found, wanted)
    assert not found[2].any()


def test_masked_keys_and_values_change_nothing():
    queries, kv, mask = step_inputs()
    source_mask = SourceMask.of(mask, queries.dtype)
    noisy = KeyValues(*(x.masked_fill(~mask.mT, 1e3) for x in kv))
    first, second = (
        attend_step(queries, source_mask.zero_masked(one), source_mask.bias, scale=0.3)
        for one in (kv, noisy)
    )
    assert torch.equal(first, second)


def test_a_source_mask_selects_sentences():
    _, _, mask = step_inputs()
    source_mask, rows = SourceMask.of(mask, torch.float32), torch.tensor([2, 0])
    some = source_mask.select_sentences(rows)
    assert torch.equal(some.mask, mask[rows])
    assert torch.equal(some.bias, source_mask.bias[rows])


def test_float64_is_left_to_the_formula():
    assert use_attend_step(torch.zeros(1))
    assert not use_attend_step(torch.zeros(1, dtype=torch.float64))
    assert not use_attend_step(torch.zeros(1, device="meta"))
