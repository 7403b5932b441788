import numpy as np
import pytest
import torch

from drawing import pixels_in, words_in
from regard.attention.positions import sinusoid
from regard.inspection.plots.maps import save_figure
from regard.inspection.plots.positions import describe_encoding, plot_positions
from regard.inspection.plots.theme import get_theme
from regard.inspection.position_encodings import PositionEncoding

WAVES = PositionEncoding(
    "sinusoid", ("source", "target"), torch.arange(12), sinusoid(torch.arange(12), 10)
)
STEPS = PositionEncoding("relative", ("encoder.0",), torch.arange(-3, 4), torch.randn(7, 5))


def test_the_vectors_their_likeness_and_how_it_falls_are_drawn(tmp_path):
    figure = plot_positions([WAVES, STEPS], title="all of them")
    vectors, pairs, line = figure.axes[:3]
    np.testing.assert_allclose(vectors.collections[0].get_array().reshape(12, 10), WAVES.vectors)
    low, high = vectors.collections[0].get_clim()
    assert low == -high  # nothing is paper
    drawn = pairs.collections[0].get_array().reshape(12, 12)
    np.testing.assert_allclose(drawn, WAVES.similarity())
    assert pairs.collections[0].get_clim() == (-1, 1)
    assert line.lines[0].get_ydata()[0] == pytest.approx(1)
    assert len(figure.axes) == 6
    words = words_in(figure, tmp_path)
    assert {"all of them", describe_encoding(WAVES), describe_encoding(STEPS), "position"} <= set(
        words
    )
    assert {"distance to the key", "−3", "3"} <= set(words)


def test_encodings_are_described():
    assert describe_encoding(WAVES) == "sinusoid: source, target (12 positions, 10 wide)"
    assert describe_encoding(STEPS) == "relative: encoder.0 (7 distances, 5 wide)"
    many = WAVES._replace(kind="rotary", where=("a", "b", "c", "d"))
    assert describe_encoding(many) == "rotary: a and 3 more (12 positions, 10 wide)"


def test_texts_above_panels_do_not_overlap():
    vectors = plot_positions([WAVES], title="t").axes[0]
    heights = [text.get_position()[1] for text in vectors.texts]
    assert len(set(heights)) == len(heights) == 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_follow_the_theme(tmp_path, theme):
    figure = plot_positions([WAVES], theme=theme)
    assert figure.axes[2].lines[0].get_color() == get_theme(theme).accent
    corner = pixels_in(figure, tmp_path)[0, 0]
    assert "#{:02x}{:02x}{:02x}".format(*corner) == get_theme(theme).background


def test_many_positions_keep_the_file_small(tmp_path):
    places = torch.arange(512)
    path = tmp_path / "long.svg"
    save_figure(
        plot_positions([PositionEncoding("sinusoid", ("s",), places, sinusoid(places, 64))]), path
    )
    assert path.stat().st_size < 1_000_000
    assert "500" in words_in(
        plot_positions([PositionEncoding("sinusoid", ("s",), places, sinusoid(places, 64))]),
        tmp_path,
    )


def test_the_same_figure_is_the_same_file(tmp_path):
    paths = tmp_path / "one.svg", tmp_path / "two.svg"
    for path in paths:
        save_figure(plot_positions([STEPS]), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_no_encodings_cannot_be_drawn():
    with pytest.raises(ValueError, match="no encodings to draw"):
        plot_positions([])
