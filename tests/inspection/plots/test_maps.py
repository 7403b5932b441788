import re

import numpy as np
import pytest
import torch

from drawing import made_up, pixels_of, words_of
from regard.errors import SettingsError
from regard.inspection.plots.maps import plot_attention, plot_grid, plot_map, save_figure
from regard.inspection.plots.theme import get_theme

ROWS, COLUMNS = ["Jane", "visits", "Africa"], ["Jane", "visite", "l'", "Afrique"]


def test_png_is_a_picture_of_the_weights(tmp_path):
    save_figure(plot_map(torch.eye(3, 4), ROWS, COLUMNS), tmp_path / "map.png")
    render_figure = pixels_of(tmp_path / "map.png")
    darkest = (255 * np.array(get_theme("light").sequential(1.0)[:3])).round().astype(int)
    share = (np.abs(render_figure - darkest).sum(-1) < 10).mean()
    assert 0.02 < share < 0.5  # three cells of twelve, and the labels around them
    assert (render_figure[:5] == 255).all()  # a white edge: nothing is cut off
    assert (render_figure[:, -5:] == 255).all()


def test_svg_keeps_words_as_text_and_formulas_as_words(tmp_path):
    columns = ["$x^2$", "<&>", "l'", "猫👍"]
    save_figure(plot_map(torch.eye(3, 4), ROWS, columns, title="a $b$ c_d"), tmp_path / "map.svg")
    words = words_of(tmp_path / "map.svg")
    assert set(words) >= {*ROWS, *columns, "a $b$ c_d"}
    fonts = re.findall(r"font-family: ([^;\"]*)", (tmp_path / "map.svg").read_text())
    assert len(fonts) >= 8
    assert all(re.fullmatch(r"'DejaVu Sans'(, '[^']+')*, sans-serif", one) for one in fonts), fonts


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_figure_is_the_same_file(tmp_path, ending):
    paths = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    for path in paths:
        save_figure(plot_map(torch.eye(3, 4), ROWS, COLUMNS, title="t"), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_source_is_on_top_and_the_first_row_too():
    axes = plot_map(torch.eye(3, 4), ROWS, COLUMNS).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == COLUMNS
    assert [label.get_text() for label in axes.get_yticklabels()] == ROWS
    assert axes.xaxis.get_ticks_position() == "top"
    assert axes.yaxis_inverted()


def test_cells_are_square_and_the_figure_grows_with_the_sentence():
    small = plot_map(torch.rand(3, 4), ROWS, COLUMNS).get_size_inches()
    large = plot_map(torch.rand(6, 8), ROWS * 2, COLUMNS * 2).get_size_inches()
    assert small[0] / 4 == pytest.approx(small[1] / 3)
    assert large == pytest.approx(2 * small)
    words = ["w"] * 400
    assert plot_map(torch.rand(400, 400), words, words).get_size_inches() == pytest.approx([40, 40])


def test_one_layer_and_head_or_the_average():
    looked = made_up(3, 4)
    axes = plot_attention(looked, layer=1, head=2).axes[0]
    drawn = axes.collections[0].get_array().reshape(3, 4)
    np.testing.assert_allclose(drawn, looked.layers[1, 2])
    axes = plot_attention(looked).axes[0]
    drawn = axes.collections[0].get_array().reshape(3, 4)
    np.testing.assert_allclose(drawn, looked.layers.mean((0, 1)), rtol=1e-5)
    with pytest.raises(SettingsError, match="layer: cross attention has 2"):
        plot_attention(looked, layer=2)


def test_grid_shows_every_head_of_every_layer_on_one_scale(tmp_path):
    looked = made_up(3, 4)
    figure = plot_grid(looked, title="all of them")
    assert len(figure.axes) == 2 * 3 + 1
    drawn = [axes.collections[0] for axes in figure.axes[:6]]
    np.testing.assert_allclose(drawn[5].get_array().reshape(3, 4), looked.layers[1, 2])
    assert {cells.get_clim() for cells in drawn} == {(0, float(looked.layers.max()))}
    save_figure(figure, tmp_path / "grid.svg")
    words = words_of(tmp_path / "grid.svg")
    assert {"head 0", "head 1", "head 2", "layer 0", "layer 1", "all of them"} <= set(words)
    assert words.count("w3") == 3  # named above each head of the first layer
    assert words.count("w1") == 3 + 2  # and beside each layer


def test_grid_of_long_sentences_leaves_the_names_out_and_the_file_small(tmp_path):
    save_figure(plot_grid(made_up(50, 60)), tmp_path / "grid.svg")
    words = words_of(tmp_path / "grid.svg")
    assert "w1" not in words
    assert any(word.startswith("no words: 50 by 60 are too many to name") for word in words)
    assert (tmp_path / "grid.svg").stat().st_size < 500_000


def test_maps_of_very_long_sentences_are_cut_and_say_so(tmp_path):
    save_figure(plot_attention(made_up(5, 130)), tmp_path / "map.svg")
    words = words_of(tmp_path / "map.svg")
    assert "w119" in words
    assert "w120" not in words
    assert "only the first 120 of 130 words are drawn" in words


def test_what_is_parked_is_grey_and_said_to_be(tmp_path):
    looked = made_up(["Jane", "visits", "</s>"], ["Jane", "visite", "</s>"], layers=1, heads=1)
    looked.layers[0, 0] = torch.tensor([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    for figure in (plot_attention(looked), plot_grid(looked)):
        coloured, grey = figure.axes[0].collections
        assert grey.get_cmap() is get_theme("light").grey
        assert (~grey.get_array().mask).nonzero()[0].tolist() == [0]
        assert grey.get_clim() == coloured.get_clim()
    plain = plot_map(looked.layers[0, 0], looked.rows.pieces, looked.columns.pieces)
    assert len(plain.axes[0].collections) == 1
    save_figure(plot_attention(looked), tmp_path / "map.svg")
    words = words_of(tmp_path / "map.svg")
    assert "grey: parked on </s>, and says nothing about words" in words


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_paper_and_ink_are_those_of_the_theme(tmp_path, theme):
    colours, looked = get_theme(theme), made_up(3, 4)
    for figure in (plot_attention(looked, theme=theme), plot_grid(looked, theme=theme)):
        axes = figure.axes[0]
        assert {label.get_color() for label in axes.get_xticklabels()} == {colours.foreground}
        assert axes.collections[0].get_cmap() is colours.sequential
        save_figure(figure, tmp_path / "map.png")
        corner = pixels_of(tmp_path / "map.png")[0, 0]
        assert "#{:02x}{:02x}{:02x}".format(*corner) == colours.background


def test_half_precision_and_zeros_can_be_drawn(tmp_path):
    save_figure(plot_map(torch.zeros(1, 1).bfloat16(), ["a"], ["b" * 60]), tmp_path / "map.png")
    render_figure = pixels_of(tmp_path / "map.png")
    assert len(np.unique(render_figure.reshape(-1, 3), axis=0)) > 5


def test_endings_that_cannot_be_drawn_are_named(tmp_path):
    with pytest.raises(
        SettingsError, match=r"map\.bmp: cannot draw '\.bmp'; .* \.png, \.svg, \.pdf"
    ):
        save_figure(plot_map(torch.eye(3, 4), ROWS, COLUMNS), tmp_path / "map.bmp")


def test_weights_must_fit_their_words():
    with pytest.raises(ValueError, match=r"rows by columns, \(4, 3\), got \(3, 4\)"):
        plot_map(torch.eye(3, 4), COLUMNS, ROWS)
    with pytest.raises(ValueError, match=r"got \(0, 4\)"):
        plot_map(torch.zeros(0, 4), [], COLUMNS)
