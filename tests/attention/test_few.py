import pytest
import torch

from regard.attention.attend import KeyValues, plain
from regard.attention.few import MANY, Sight, few, fits_few
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
    sight = Sight.of(mask, queries.dtype)
    found = few(queries, sight.clear(kv), sight.hidden, factor=ScaledDotScore().factor(D))
    torch.testing.assert_close(found, plain(ScaledDotScore(), queries, kv, mask, site=HERE))
    assert not found[2].any()


@pytest.mark.parametrize("learns", [False, True])
def test_short_rows_of_many_scores_are_filled_up(learns):
    torch.manual_seed(0)
    rows = MANY // (H * T * S) + 1
    queries = torch.randn(rows, H, T, D, requires_grad=learns)
    kv = KeyValues(torch.randn(rows, H, S, D), torch.randn(rows, H, S, D))
    mask = torch.arange(S) < torch.randint(1, S + 1, (rows, 1, 1, 1))  # (B, 1, 1, S)
    sight = Sight.of(mask, queries.dtype)
    found = few(queries, sight.clear(kv), sight.hidden, factor=ScaledDotScore().factor(D))
    torch.testing.assert_close(found, plain(ScaledDotScore(), queries, kv, mask, site=HERE))
    assert found.requires_grad == learns


def test_what_is_hidden_may_be_anything():
    queries, kv, mask = looked()
    sight = Sight.of(mask, queries.dtype)
    noisy = KeyValues(*(x.masked_fill(~mask.mT, 1e3) for x in kv))
    first, second = (
        few(queries, sight.clear(one), sight.hidden, factor=0.3) for one in (kv, noisy)
    )
    assert torch.equal(first, second)


def test_sight_of_some_sentences():
    _, _, mask = looked()
    sight, rows = Sight.of(mask, torch.float32), torch.tensor([2, 0])
    some = sight.rows(rows)
    assert torch.equal(some.mask, mask[rows])
    assert torch.equal(some.hidden, sight.hidden[rows])


def test_float64_is_left_to_the_formula():
    assert fits_few(torch.zeros(1))
    assert not fits_few(torch.zeros(1, dtype=torch.float64))
    assert not fits_few(torch.zeros(1, device="meta"))
