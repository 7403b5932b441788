import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from drawing import made_up, pixels_in, pixels_of, words_in, words_of
from regard.errors import SettingsError
from regard.inspection.plots.arcs import plot_arcs
from regard.inspection.plots.figure import get_theme, save_figure
from regard.inspection.plots.fonts import ignore_missing_glyphs
from regard.inspection.plots.maps import (
    MAX_DRAWN_WORDS,
    describe_sinks,
    find_sink_weights,
    plot_focus,
    plot_grid,
    plot_map,
    top_words,
    view_map,
)

ROWS, COLUMNS = ["Jane", "visits", "Africa"], ["Jane", "visite", "l'", "Afrique"]


def plot_weights(weights, rows, columns):
    maps = made_up(rows, columns, layers=1, heads=1)
    return plot_map(view_map(replace(maps, weights=weights[None, None])))


def test_png_is_a_picture_of_the_weights(tmp_path):
    save_figure(plot_weights(torch.eye(3, 4), ROWS, COLUMNS), tmp_path / "map.png")
    pixels = pixels_of(tmp_path / "map.png")
    darkest = (255 * np.array(get_theme("light").sequential(1.0)[:3])).round().astype(int)
    share = (np.abs(pixels - darkest).sum(-1) < 10).mean()
    assert 0.02 < share < 0.5  # three cells of twelve, and the labels around them
    assert (pixels[:5] == 255).all()  # a white edge: nothing is cut off
    assert (pixels[:, -5:] == 255).all()


def test_svg_keeps_words_as_text_and_formulas_as_words(tmp_path):
    columns = ["$x^2$", "<&>", "l'", "猫👍"]
    save_figure(plot_weights(torch.eye(3, 4), ROWS, columns), tmp_path / "map.svg")
    words = words_of(tmp_path / "map.svg")
    assert set(words) >= {*ROWS, *columns}
    fonts = re.findall(r"font-family: ([^;\"]*)", (tmp_path / "map.svg").read_text())
    assert len(fonts) >= 8
    assert all(re.fullmatch(r"'DejaVu Sans'(, '[^']+')*, sans-serif", one) for one in fonts), fonts


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_figure_is_the_same_file(tmp_path, ending):
    paths = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    for path in paths:
        save_figure(plot_weights(torch.eye(3, 4), ROWS, COLUMNS), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_source_is_on_top_and_the_first_row_too():
    axes = plot_weights(torch.eye(3, 4), ROWS, COLUMNS).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == COLUMNS
    assert [label.get_text() for label in axes.get_yticklabels()] == ROWS
    assert axes.xaxis.get_ticks_position() == "top"
    assert axes.yaxis_inverted()


def test_cells_are_square_and_the_figure_grows_with_the_sentence():
    small = plot_weights(torch.rand(3, 4), ROWS, COLUMNS).get_size_inches()
    large = plot_weights(torch.rand(6, 8), ROWS * 2, COLUMNS * 2).get_size_inches()
    assert small[0] / 4 == pytest.approx(small[1] / 3)
    assert large == pytest.approx(2 * small)
    words = ["w"] * 120
    assert plot_weights(torch.rand(120, 120), words, words).get_size_inches() == pytest.approx(
        [40, 40]
    )


def test_one_layer_and_head_or_the_average():
    looked = made_up(3, 4)
    axes = plot_map(view_map(looked, 1, 2)).axes[0]
    drawn = axes.collections[0].get_array().reshape(3, 4)
    np.testing.assert_allclose(drawn, looked.weights[1, 2])
    axes = plot_map(view_map(looked)).axes[0]
    drawn = axes.collections[0].get_array().reshape(3, 4)
    np.testing.assert_allclose(drawn, looked.weights.mean((0, 1)), rtol=1e-5)
    with pytest.raises(SettingsError, match="layer: cross attention has 2"):
        view_map(looked, layer=2)


def test_grid_shows_every_head_of_every_layer_on_one_scale(tmp_path):
    looked = made_up(3, 4)
    figure = plot_grid(looked)
    assert len(figure.axes) == 2 * 3 + 1
    drawn = [axes.collections[0] for axes in figure.axes[:6]]
    np.testing.assert_allclose(drawn[5].get_array().reshape(3, 4), looked.weights[1, 2])
    assert {cells.get_clim() for cells in drawn} == {(0, float(looked.weights.max()))}
    save_figure(figure, tmp_path / "grid.svg")
    words = words_of(tmp_path / "grid.svg")
    assert {
        "head 0",
        "head 1",
        "head 2",
        "layer 0",
        "layer 1",
        "cross attention, every layer and head",
    } <= set(words)
    assert words.count("w3") == 3  # named above each head of the first layer
    assert words.count("w1") == 3 + 2  # and beside each layer


def test_grid_of_long_sentences_leaves_the_names_out_and_the_file_small(tmp_path):
    save_figure(plot_grid(made_up(50, 60)), tmp_path / "grid.svg")
    words = words_of(tmp_path / "grid.svg")
    assert "w1" not in words
    assert any(word.startswith("no words: 50 by 60 are too many to name") for word in words)
    assert (tmp_path / "grid.svg").stat().st_size < 500_000


def test_maps_of_very_long_sentences_are_cut_and_say_so(tmp_path):
    save_figure(plot_map(view_map(made_up(5, 130))), tmp_path / "map.svg")
    words = words_of(tmp_path / "map.svg")
    assert "w119" in words
    assert "w120" not in words
    assert "only the first 120 of 130 words are drawn" in words


def test_weights_on_sinks_are_grey_and_the_note_names_them(tmp_path):
    looked = made_up(["Jane", "visits", "</s>"], ["Jane", "visite", "</s>"], layers=1, heads=1)
    looked.weights[0, 0] = torch.tensor([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    for figure in (plot_map(view_map(looked)), plot_grid(looked)):
        coloured, grey = figure.axes[0].collections
        assert grey.get_cmap() is get_theme("light").grey
        assert (~grey.get_array().mask).nonzero()[0].tolist() == [0]
        assert grey.get_clim() == coloured.get_clim()
    save_figure(plot_map(view_map(looked)), tmp_path / "map.svg")
    words = words_of(tmp_path / "map.svg")
    assert "grey: attention sinks (</s>)" in words


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_background_and_foreground_are_those_of_the_theme(tmp_path, theme):
    colours, looked = get_theme(theme), made_up(3, 4)
    for figure in (plot_map(view_map(looked), theme=theme), plot_grid(looked, theme=theme)):
        axes = figure.axes[0]
        assert {label.get_color() for label in axes.get_xticklabels()} == {colours.foreground}
        assert axes.collections[0].get_cmap() is colours.sequential
        save_figure(figure, tmp_path / "map.png")
        corner = pixels_of(tmp_path / "map.png")[0, 0]
        assert "#{:02x}{:02x}{:02x}".format(*corner) == colours.background


def test_half_precision_and_zeros_can_be_drawn(tmp_path):
    save_figure(plot_weights(torch.zeros(1, 1).bfloat16(), ["a"], ["b" * 60]), tmp_path / "map.png")
    pixels = pixels_of(tmp_path / "map.png")
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 5


def test_endings_that_cannot_be_drawn_are_named(tmp_path):
    with pytest.raises(
        SettingsError, match=r"map\.bmp: cannot draw '\.bmp'; .* \.png, \.svg, \.pdf"
    ):
        save_figure(plot_weights(torch.eye(3, 4), ROWS, COLUMNS), tmp_path / "map.bmp")


def test_sentences_are_cut_where_a_figure_would_burst_and_it_says_so():
    whole = view_map(made_up(5, MAX_DRAWN_WORDS), 0, 1)
    assert (whole.notes, whole.weights.shape) == ((), (5, MAX_DRAWN_WORDS))
    cut = view_map(made_up(5, MAX_DRAWN_WORDS + 30), 0, 1)
    assert cut.notes == (f"only the first 120 of {MAX_DRAWN_WORDS + 30} words are drawn",)
    assert cut.weights.shape == (5, MAX_DRAWN_WORDS)
    assert cut.columns[-1] == f"w{MAX_DRAWN_WORDS - 1}"


def test_a_view_has_the_weights_of_its_layer_and_head():
    looked = made_up(3, 4)
    torch.testing.assert_close(view_map(looked, 1, 2).weights, looked.weights[1, 2])
    torch.testing.assert_close(view_map(looked, None, None).weights, looked.weights.mean((0, 1)))


def test_weights_from_words_to_eos_count_as_sinks():
    looked = made_up(["a", "b", "</s>"], ["x", "<unk>", "</s>"])
    looked.weights[:] = torch.tensor([[0.4, 0.3, 0.3], [0.6, 0.38, 0.02], [0.2, 0.3, 0.5]])
    expected = [[False, False, True], [False, False, False], [False, False, False]]
    assert find_sink_weights(looked)[1, 2].tolist() == expected
    view = view_map(looked, 0, None)
    assert view.is_sink.tolist() == expected
    assert view.notes == ("grey: attention sinks (</s>)",)


def test_a_column_with_weight_from_most_rows_is_a_sink():
    looked = made_up(8, ["x", "y", "."], layers=1, heads=2)
    looked.weights[0, 0] = torch.tensor([0.3, 0.1, 0.6])
    looked.weights[0, 1] = torch.tensor([0.98, 0.01, 0.01])
    looked.weights[0, 0, 7] = torch.tensor([0.0, 0.0, 1.0])  # it looks there as the others do
    is_sink = find_sink_weights(looked)
    assert is_sink[0, 0, :, 2].all()
    assert not is_sink[0, 1, :, 2].any()
    assert view_map(looked, 0, 0).notes == ("grey: attention sinks (x, .)",)


def test_only_some_of_many_are_named():
    is_sink = torch.ones(2, 6, dtype=torch.bool)
    assert describe_sinks(is_sink, list("abcdef")) == ("grey: attention sinks (a, b, c, d, …)")
    assert describe_sinks(~is_sink, list("abcdef")) == ""


def test_empty_weights_cannot_be_drawn():
    with pytest.raises(ValueError, match=r"nothing to draw in weights of shape \(0, 4\)"):
        view_map(made_up(0, 4), None, None)


@pytest.mark.parametrize(
    ("size", "place", "name"),
    [
        ((2, 3), (1, 2), "cross attention, layer 1, head 2"),
        ((2, 3), (1, None), "cross attention, layer 1, mean of 3 heads"),
        ((2, 3), (None, 2), "cross attention, head 2, mean of 2 layers"),
        ((2, 3), (None, None), "cross attention, mean of 2 layers and 3 heads"),
        ((1, 1), (None, None), "cross attention"),
    ],
)
def test_every_figure_of_a_map_names_its_layer_and_head(tmp_path, size, place, name):
    view = view_map(made_up(2, 3, layers=size[0], heads=size[1]), *place)
    for draw in (plot_map, plot_arcs, plot_focus):
        assert name in words_in(draw(view), tmp_path)


ARABIC = ["ذهبت", "جين", "إلى", "أفريقيا"]


def shares(weights):
    return [(column, round(share, 2)) for column, share in top_words(torch.tensor(weights))]


def test_top_words_are_the_few_with_the_largest_shares():
    assert shares([0.1, 0.9]) == [(1, 0.9)]
    assert shares([0.5, 0.1, 0.25, 0.15]) == [(0, 0.5), (2, 0.25), (3, 0.15)]
    assert shares([0.3, 0.3, 0.2, 0.2]) == [(0, 0.3), (1, 0.3), (2, 0.2)]  # no more than three
    assert shares([0.5, 0.3, 0.2]) == [(0, 0.5), (1, 0.3)]  # together enough
    assert shares([0.0, 0.1, 0.3]) == [(2, 0.75), (1, 0.25)]  # of what the row has to give
    assert shares([0.76, 0.04, 0.2]) == [(0, 0.76), (2, 0.2)]
    assert shares([0.0, 0.0]) == []


def test_each_row_names_the_words_with_the_largest_weights():
    looked = replace(
        made_up(["cat", "sleeps"], ["le", "chat", "dort"], layers=1, heads=1),
        weights=torch.tensor([[[[0.25, 0.75, 0.0], [0.0, 0.05, 0.95]]]]),
    )
    figure = plot_focus(view_map(looked))
    axes = figure.axes[0]
    lines = {}
    for text in axes.texts:
        lines.setdefault(int(text.get_position()[1]), []).append(text.get_text())
    assert lines == {0: ["chat", "75%", "le", "25%"], 1: ["dort", "95%"]}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cat", "sleeps"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["le", "chat", "dort"]


def test_texts_of_a_row_do_not_overlap():
    figure = plot_focus(
        view_map(made_up(4, ["some", "rather-long-words", "日本語", "e\u0301te\u0301"]))
    )
    renderer = FigureCanvasAgg(figure).get_renderer()
    rows = {}
    with ignore_missing_glyphs():  # as no machine has all fonts
        for text in figure.axes[0].texts:
            box = text.get_window_extent(renderer)
            rows.setdefault(int(text.get_position()[1]), []).append(box)
    assert len(rows) == 4
    for boxes in rows.values():
        assert all(one.x1 <= other.x0 for one, other in pairwise(boxes))


def test_sixty_words_fit_on_a_page(tmp_path):
    figure = plot_focus(view_map(made_up(55, 60)))
    width, height = figure.get_size_inches()
    assert 6 < width < 9
    assert 10 < height < 12
    words = words_in(figure, tmp_path)
    assert {f"w{number}" for number in range(60)} <= set(words)


def test_longer_sentences_are_cut_and_say_so(tmp_path):
    words = words_in(plot_focus(view_map(made_up(10, 200))), tmp_path)
    assert "only the first 120 of 200 words are drawn" in words
    assert "w120" not in words


def test_columns_run_as_their_script_does():
    looked = made_up(3, ARABIC)
    axes = plot_focus(view_map(looked, 0, 0)).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ARABIC[::-1]
    drawn = axes.collections[0].get_array().reshape(3, 4)
    np.testing.assert_allclose(drawn, looked.weights[0, 0].flip(-1))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_follow_the_theme(tmp_path, theme):
    colours = get_theme(theme)
    figure = plot_focus(view_map(made_up(3, 4)), theme=theme)
    corner = pixels_in(figure, tmp_path)[0, 0]
    assert "#{:02x}{:02x}{:02x}".format(*corner) == colours.background
    assert {text.get_color() for text in figure.axes[0].texts} == {
        colours.foreground,
        colours.muted,
    }
