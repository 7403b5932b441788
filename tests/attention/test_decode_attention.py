import torch

from regard.attention.attend import KeyValues, plain_attention
from regard.attention.decode_attention import (
    SourceMask,
    attend_step,
    use_attend_step,
)
from regard.attention.scores import ScaledDotScore
from regard.types import Site

B, H, T, S, D = 3, 2, 4, 5, 8
HERE = Site("cross", 0, 0)


def inputs():
    torch.manual_seed(0)
    queries = torch.randn(B, H, T, D)
    kv = KeyValues(torch.randn(B, H, S, D), torch.randn(B, H, S, D))
    mask = torch.arange(S) < torch.tensor([5, 2, 0])[:, None, None, None]  # (B, 1, 1, S)
    return queries, kv, mask


def test_a_step_equals_the_formula_and_fully_masked_rows_yield_zeros():
    queries, kv, mask = inputs()
    source_mask = SourceMask.of(mask, queries.dtype)
    found = attend_step(
        queries, source_mask.zero_masked(kv), source_mask.bias, scale=ScaledDotScore().scale(D)
    )
    torch.testing.assert_close(
        found, plain_attention(ScaledDotScore(), queries, kv, mask, site=HERE)
    )
    assert not found[2].any()


def test_masked_keys_and_values_change_nothing():
    queries, kv, mask = inputs()
    source_mask = SourceMask.of(mask, queries.dtype)
    noisy = KeyValues(*(x.masked_fill(~mask.mT, 1e3) for x in kv))
    first, second = (
        attend_step(queries, source_mask.zero_masked(one), source_mask.bias, scale=0.3)
        for one in (kv, noisy)
    )
    assert torch.equal(first, second)


def test_a_source_mask_selects_sentences():
    _, _, mask = inputs()
    source_mask, rows = SourceMask.of(mask, torch.float32), torch.tensor([2, 0])
    some = source_mask.select_sentences(rows)
    assert torch.equal(some.mask, mask[rows])
    assert torch.equal(some.bias, source_mask.bias[rows])


def test_float64_is_left_to_the_formula():
    assert use_attend_step(torch.zeros(1))
    assert not use_attend_step(torch.zeros(1, dtype=torch.float64))
    assert not use_attend_step(torch.zeros(1, device="meta"))
