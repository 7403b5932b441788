import pytest
import torch

from regard.attention.attend import KeyValues, plain_attention
from regard.attention.decode_attention import (
    PAD_MIN_SCORES,
    SourceMask,
    attend_step,
    use_attend_step,
)
from regard.attention.scores import ScaledDotScore
from regard.types import Site

B, H, T, S, D = 3, 2, 4, 5, 8
HERE = Site("cross", 0, 0)


def looked():
    torch.manual_seed(0)
    queries = torch.randn(B, H, T, D)
    kv = KeyValues(torch.randn(B, H, S, D), torch.randn(B, H, S, D))
    mask = torch.arange(S) < torch.tensor([5, 2, 0])[:, None, None, None]  # (B, 1, 1, S)
    return queries, kv, mask


def test_few_find_what_the_formula_finds_and_who_sees_nothing_finds_zeros():
    queries, kv, mask = looked()
    source_mask = SourceMask.of(mask, queries.dtype)
    found = attend_step(
        queries, source_mask.clear(kv), source_mask.bias, scale=ScaledDotScore().scale(D)
    )
    torch.testing.assert_close(
        found, plain_attention(ScaledDotScore(), queries, kv, mask, site=HERE)
    )
    assert not found[2].any()


@pytest.mark.parametrize("learns", [False, True])
def test_short_rows_of_many_scores_are_filled_up(learns):
    torch.manual_seed(0)
    rows = PAD_MIN_SCORES // (H * T * S) + 1
    queries = torch.randn(rows, H, T, D, requires_grad=learns)
    kv = KeyValues(torch.randn(rows, H, S, D), torch.randn(rows, H, S, D))
    mask = torch.arange(S) < torch.randint(1, S + 1, (rows, 1, 1, 1))  # (B, 1, 1, S)
    source_mask = SourceMask.of(mask, queries.dtype)
    found = attend_step(
        queries, source_mask.clear(kv), source_mask.bias, scale=ScaledDotScore().scale(D)
    )
    torch.testing.assert_close(
        found, plain_attention(ScaledDotScore(), queries, kv, mask, site=HERE)
    )
    assert found.requires_grad == learns


def test_what_is_hidden_may_be_anything():
    queries, kv, mask = looked()
    source_mask = SourceMask.of(mask, queries.dtype)
    noisy = KeyValues(*(x.masked_fill(~mask.mT, 1e3) for x in kv))
    first, second = (
        attend_step(queries, source_mask.clear(one), source_mask.bias, scale=0.3)
        for one in (kv, noisy)
    )
    assert torch.equal(first, second)


def test_sight_of_some_sentences():
    _, _, mask = looked()
    source_mask, rows = SourceMask.of(mask, torch.float32), torch.tensor([2, 0])
    some = source_mask.select_sentences(rows)
    assert torch.equal(some.mask, mask[rows])
    assert torch.equal(some.bias, source_mask.bias[rows])


def test_float64_is_left_to_the_formula():
    assert use_attend_step(torch.zeros(1))
    assert not use_attend_step(torch.zeros(1, dtype=torch.float64))
    assert not use_attend_step(torch.zeros(1, device="meta"))
