import numpy as np
import pytest

from drawing import made_up, pixels_in, words_in
from regard.inspection.attention_distance import MAX_DISTANCE, measure_distances
from regard.inspection.plots.head_distances import plot_distances
from regard.inspection.plots.maps import save_figure
from regard.inspection.plots.theme import get_theme


@pytest.fixture
def looked():
    return [made_up(6, 6, part="encoder"), made_up(9, 9, part="encoder")]


def test_every_head_has_a_row(looked, tmp_path):
    figure = plot_distances(looked, title="who looks how far")
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
    assert {"0.0", "0.2", "1.2", "−10", "+5", "who looks how far"} <= set(words)
    assert "encoder attention by distance from the word that looks" in words
    assert any("2 sentences" in word for word in words)


def test_one_sentence_that_says_nothing_can_be_drawn(tmp_path):
    alone = made_up(1, 1, part="decoder")
    alone.layers.zero_()
    assert any("1 sentence;" in word for word in words_in(plot_distances([alone]), tmp_path))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_follow_the_theme(looked, tmp_path, theme):
    figure = plot_distances(looked, theme=theme)
    assert figure.axes[2].lines[0].get_color() == get_theme(theme).accent
    corner = pixels_in(figure, tmp_path)[0, 0]
    assert "#{:02x}{:02x}{:02x}".format(*corner) == get_theme(theme).background


def test_the_same_figure_is_the_same_file(looked, tmp_path):
    paths = tmp_path / "one.svg", tmp_path / "two.svg"
    for path in paths:
        save_figure(plot_distances(looked), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
