from dataclasses import replace

import pytest
import torch

from drawing import made_up
from regard.inspection.attention_distance import MAX_DISTANCE, measure_distances, offsets


def attention(weights, part="encoder", **sides):
    weights = torch.tensor(weights)
    rows, columns = weights.shape
    sides = {"rows": rows, "columns": columns} | sides
    return replace(made_up(**sides, part=part, layers=1, heads=1), layers=weights[None, None])


def only(found):
    """Mean, spread and shares of the only head."""
    return found.mean.item(), found.spread.item(), found.shares[0, 0]


def test_a_head_that_looks_one_back():
    looked = attention([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    mean, spread, shares = only(measure_distances([looked]))
    assert (mean, spread) == (1, 1)  # the first word sees nothing, and does not count
    assert shares[MAX_DISTANCE - 1] == 1
    assert shares.sum() == 1


def test_spread_is_the_number_of_words_that_share_evenly():
    mean, spread, shares = only(measure_distances([attention([[0.25] * 4] * 4)]))
    assert spread == pytest.approx(4)
    assert mean == pytest.approx(
        (0 + 1 + 2 + 3 + 1 + 0 + 1 + 2 + 2 + 1 + 0 + 1 + 3 + 2 + 1 + 0) / 16
    )
    assert shares[MAX_DISTANCE] == pytest.approx(0.25)


def test_what_goes_to_no_column_does_not_count():
    half = attention([[0.0, 0.5], [0.1, 0.1]])
    whole = attention([[0.0, 1.0], [0.5, 0.5]])
    assert only(measure_distances([half]))[:2] == pytest.approx(
        only(measure_distances([whole]))[:2]
    )


def test_cross_attention_is_counted_from_the_diagonal():
    distance = offsets(made_up(2, 4))
    torch.testing.assert_close(
        distance, torch.tensor([[-0.5, 0.5, 1.5, 2.5], [-2.5, -1.5, -0.5, 0.5]])
    )
    mean, _, _ = only(measure_distances([attention(torch.eye(5).tolist(), part="cross")]))
    assert mean == 0


def test_a_decoder_is_counted_from_the_word_to_come():
    given, answered = ["<s>", "a", "b"], ["a", "b", "</s>"]
    by_pieces = attention(torch.eye(3).tolist(), "decoder", rows=answered, columns=given)
    assert (
        only(measure_distances([by_pieces]))[2][MAX_DISTANCE - 1] == 1
    )  # at what it was given last
    by_words = attention([[0.0, 0.0], [1.0, 0.0]], "decoder", rows=["a", "b"], columns=["a", "b"])
    assert only(measure_distances([by_words]))[2][MAX_DISTANCE - 1] == 1


def test_far_away_is_counted_with_the_farthest():
    weights = torch.zeros(30, 30)
    weights[:, 0] = 1
    mean, _, shares = only(measure_distances([attention(weights.tolist())]))
    assert mean == pytest.approx(14.5)
    assert shares[0] == pytest.approx(20 / 30)


def test_all_words_of_all_sentences_count_alike():
    one, two = attention(torch.eye(2).tolist()), attention(torch.eye(6).roll(1, 1).tolist())
    both = measure_distances([one, two])
    assert both.mean.item() == pytest.approx((2 * 0 + 5 * 1 + 1 * 5) / 8)
    assert both.shares[0, 0, MAX_DISTANCE] == pytest.approx(2 / 8)


def test_each_layer_and_head_is_measured():
    looked = made_up(5, 5, part="encoder")
    found = measure_distances([looked])
    assert found.mean.shape == found.spread.shape == (2, 3)
    alone = measure_distances([replace(looked, layers=looked.layers[1:, 2:])])
    torch.testing.assert_close(found.shares[1, 2], alone.shares[0, 0])
    torch.testing.assert_close(found.mean[1, 2], alone.mean[0, 0])


def test_a_head_that_never_looks_has_zeros():
    mean, spread, shares = only(measure_distances([attention([[0.0]])]))
    assert (mean, spread, shares.sum().item()) == (0, 0, 0)


def test_attention_must_be_alike():
    with pytest.raises(ValueError, match="as many layers and heads: cross 1 3; cross 2 3"):
        measure_distances([made_up(3, 4), made_up(3, 4, layers=1)])
    with pytest.raises(ValueError, match="with as many layers and heads: none"):
        measure_distances([])
