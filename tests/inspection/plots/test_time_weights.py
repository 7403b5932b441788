import numpy as np
import torch

from drawing import made_up, pixels_in, words_in
from regard.inspection.plots.figure import get_theme
from regard.inspection.plots.maps import plot_map, view_map
from regard.inspection.plots.time_weights import TimeWeights, plot_time_weights
from regard.inspection.recording.attention_map import AttentionMaps

NUMBERS = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0)
SIGNED = torch.tensor([-0.7, -0.7, -0.2, 0.1, 0.7, 0.8])


def shown(weights, *, normalized):
    values = torch.tensor(NUMBERS)[:, None] / 8
    labels = tuple(f"{number:g}" for number in NUMBERS)
    return TimeWeights(values, torch.tensor([13 / 8]), weights, labels, "13", normalized)


def has_colour(picture, colour):
    wanted = (255 * np.array(colour[:3])).round()
    return (np.abs(picture - wanted).sum(-1) < 12).sum() > 50


def test_weights_over_time_name_their_numbers_and_have_two_colours(tmp_path):
    figure = plot_time_weights(shown(SIGNED, normalized=False))
    words = words_in(figure, tmp_path)
    assert [word for word in words if word in "1 2 3 5 8"] == ["1", "1", "2", "3", "5", "8"]
    assert "→ 13" in words
    assert "attention over 6 time steps (no distribution: their signs count)" in words
    assert "orange: above 0, blue: below 0" in words
    colours, picture = get_theme("light").diverging, pixels_in(figure, tmp_path)
    assert has_colour(picture, colours(0.25))
    assert has_colour(picture, colours(0.75))


def test_numbers_stand_upright_where_they_fit():
    rotations = {
        count: {
            label.get_rotation()
            for label in plot_time_weights(long_shown(count)).axes[1].get_xticklabels()
        }
        for count in (1, 12)
    }
    assert rotations == {1: {0.0}, 12: {90.0}}


def long_shown(digits):
    labels = tuple("7" * digits for _ in NUMBERS)
    values = torch.ones(len(NUMBERS), 1)
    return TimeWeights(values, torch.ones(1), SIGNED, labels, "13.0616", normalized=False)


def test_a_distribution_has_one_colour(tmp_path):
    figure = plot_time_weights(shown(SIGNED.softmax(0), normalized=True))
    words = words_in(figure, tmp_path)
    assert "attention over 6 time steps (a distribution)" in words
    assert not any("orange" in word for word in words)
    picture = pixels_in(figure, tmp_path)
    assert has_colour(picture, get_theme("light").sequential(0.75))
    assert not has_colour(picture, get_theme("light").diverging(0.75))


def test_maps_that_are_no_distribution_have_a_signed_scale_and_no_sinks(tmp_path):
    maps = made_up(1, 6, layers=1, heads=1)
    signed = AttentionMaps("cross", SIGNED[None, None, None], maps.rows, maps.columns, False)
    view = view_map(signed)
    assert not view.is_sink.any()
    picture = pixels_in(plot_map(view), tmp_path)
    colours = get_theme("light").diverging
    assert has_colour(picture, colours(1.0))
    assert has_colour(picture, colours((1 - 0.7 / 0.8) / 2))
