from dataclasses import replace

import numpy as np
import pytest
import torch

from drawing import made_up, pixels_in, words_in
from regard.inspection.plots.figure import get_theme
from regard.inspection.plots.heads import (
    MAX_DISTANCE,
    measure_distances,
    offsets,
    plot_distances,
    plot_head_costs,
)


@pytest.fixture
def looked():
    return [made_up(6, 6, part="encoder"), made_up(9, 9, part="encoder")]


def test_every_head_has_a_row(looked, tmp_path):
    figure = plot_distances(looked)
    found = measure_distances(looked)
    maps, points = figure.axes[:2], figure.axes[2:4]
    for layer, axes in enumerate(maps):
        drawn = axes.collections[0].get_array().reshape(3, 2 * MAX_DISTANCE + 1)
        np.testing.assert_allclose(drawn, found.shares[layer])
    for axes, numbers in zip(points, (found.mean, found.spread), strict=True):
        np.testing.assert_allclose(axes.lines[0].get_xdata(), numbers.flatten())
        assert axes.yaxis_inverted()
        assert list(axes.lines[0].get_ydata()) == sorted(axes.lines[0].get_ydata())
    words = words_in(figure, tmp_path)
    assert {"0.0", "0.2", "1.2", "−10", "+5"} <= set(words)
    assert "encoder attention by distance from the word that looks" in words
    assert any("2 sentences" in word for word in words)


def test_a_sentence_without_weights_can_be_drawn(tmp_path):
    alone = made_up(1, 1, part="decoder")
    alone.weights.zero_()
    assert any("1 sentence;" in word for word in words_in(plot_distances([alone]), tmp_path))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_follow_the_theme(looked, tmp_path, theme):
    figure = plot_distances(looked, theme=theme)
    assert figure.axes[2].lines[0].get_color() == get_theme(theme).accent
    corner = pixels_in(figure, tmp_path)[0, 0]
    assert "#{:02x}{:02x}{:02x}".format(*corner) == get_theme(theme).background


def attention(weights, part="encoder", **sides):
    weights = torch.tensor(weights)
    rows, columns = weights.shape
    sides = {"rows": rows, "columns": columns} | sides
    return replace(made_up(**sides, part=part, layers=1, heads=1), weights=weights[None, None])


def only(found):
    """Mean, spread and shares of the only head."""
    return found.mean.item(), found.spread.item(), found.shares[0, 0]


def test_a_head_that_attends_to_the_previous_word_has_distance_one():
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


def test_rows_are_normalized_before_distances_are_measured():
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


def test_distances_of_a_decoder_count_from_the_predicted_word():
    given, answered = ["<s>", "a", "b"], ["a", "b", "</s>"]
    by_pieces = attention(torch.eye(3).tolist(), "decoder", rows=answered, columns=given)
    assert (
        only(measure_distances([by_pieces]))[2][MAX_DISTANCE - 1] == 1
    )  # at what it was given last
    by_words = attention([[0.0, 0.0], [1.0, 0.0]], "decoder", rows=["a", "b"], columns=["a", "b"])
    assert only(measure_distances([by_words]))[2][MAX_DISTANCE - 1] == 1


def test_larger_distances_are_counted_as_the_largest():
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
    alone = measure_distances([replace(looked, weights=looked.weights[1:, 2:])])
    torch.testing.assert_close(found.shares[1, 2], alone.shares[0, 0])
    torch.testing.assert_close(found.mean[1, 2], alone.mean[0, 0])


def test_a_head_without_weights_has_zero_statistics():
    mean, spread, shares = only(measure_distances([attention([[0.0]])]))
    assert (mean, spread, shares.sum().item()) == (0, 0, 0)


def test_attention_must_be_alike():
    with pytest.raises(ValueError, match="equal layers and heads: cross 1 3; cross 2 3"):
        measure_distances([made_up(3, 4), made_up(3, 4, layers=1)])
    with pytest.raises(ValueError, match="with equal layers and heads: none"):
        measure_distances([])


COSTS = {
    "encoder": torch.tensor([[0.04, -0.3, 2.0]]),
    "cross": torch.tensor([[1.0, 8.0], [0.0, 4.1]]),
}


def numbers(axes):
    return [text.get_text() for text in axes.texts]


def names(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_a_panel_for_each_part_with_its_numbers():
    encoder, cross, _ = plot_head_costs(COSTS).axes
    assert numbers(encoder) == ["0", "-0.3", "2.0"]
    assert numbers(cross) == ["1.0", "8.0", "0", "4.1"]
    assert names(encoder) == ["encoder 0"]
    assert names(cross) == ["cross 0", "cross 1"]
    assert [label.get_text() for label in encoder.get_xticklabels()] == [
        "head 0",
        "head 1",
        "head 2",
    ]


def test_whole_layers_stand_in_a_last_column():
    whole = {"encoder": torch.tensor([9.0]), "cross": torch.tensor([30.0, 40.0])}
    encoder, cross, _ = plot_head_costs(COSTS, whole).axes
    assert numbers(encoder)[-1] == "9.0"
    assert numbers(cross)[2::3] == ["30.0", "40.0"]
    assert encoder.get_xticklabels()[-1].get_text() == "whole layer"


def test_all_parts_share_one_scale_from_zero():
    encoder, cross, _ = plot_head_costs(COSTS).axes
    for axes in (encoder, cross):
        assert axes.collections[0].norm.vmin == 0
        assert axes.collections[0].norm.vmax == 8
    assert encoder.collections[0].get_array().min() == 0


def test_numbers_contrast_with_their_cells():
    _, cross, _ = plot_head_costs(COSTS).axes
    pale, dark = (cross.texts[place].get_color() for place in (0, 1))
    assert pale != dark


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_head_costs_are_drawn_in_each_theme(theme):
    assert plot_head_costs(COSTS, theme=theme).axes
    assert plot_head_costs({"cross": torch.zeros(1, 1)}, theme=theme).axes
