from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import Circle, PathPatch

from drawing import made_up, pixels_in, words_in
from regard.inspection.plots.arcs import (
    LINE_SPACING,
    MAX_CURVE_WIDTH,
    MAX_LINE_INCHES,
    layout_word_lines,
    plot_arcs,
)
from regard.inspection.plots.figure import get_theme, save_figure
from regard.inspection.plots.maps import view_map

FRENCH, ENGLISH = ["Jane", "visite", "l'", "Afrique"], ["Jane", "visits", "Africa"]


def attention(weights, rows, columns, part="cross"):
    maps = made_up(rows, columns, part=part, layers=1, heads=1)
    return view_map(replace(maps, weights=torch.tensor([[weights]])))


def strokes(figure):
    return [patch for patch in figure.axes[0].patches if isinstance(patch, PathPatch)]


def dots(figure):
    return [patch for patch in figure.axes[0].patches if isinstance(patch, Circle)]


def ends(stroke):
    """Where a line begins and ends, in inches from the left and the top."""
    return stroke.get_path().vertices[[0, -1]]


@pytest.fixture
def crossed():
    return attention([[1.0, 0, 0, 0], [0, 0.6, 0, 0.4], [0, 0.02, 0.08, 0.9]], ENGLISH, FRENCH)


def test_both_lines_of_words_are_written(crossed, tmp_path):
    words = words_in(plot_arcs(crossed), tmp_path)
    assert set(words) >= {*FRENCH, *ENGLISH, "no line: 3% or less"}
    assert words.count("Jane") == 2


def test_a_line_goes_from_word_to_word_and_is_as_wide_as_its_weight(crossed):
    figure = plot_arcs(crossed)
    axes = figure.axes[0]
    where = {(text.get_text(), text.get_position()[1] < 0.5): text for text in axes.texts}
    drawn = strokes(figure)
    assert len(drawn) == 5  # 0.02 is too little for one
    widths = [stroke.get_linewidth() for stroke in drawn]
    assert widths == sorted(widths)  # the strongest on top
    assert widths[-1] == MAX_CURVE_WIDTH
    (x, top), (y, bottom) = ends(drawn[-2])  # 0.9, from Africa to Afrique
    assert x == where["Afrique", True].get_position()[0]
    assert y == where["Africa", False].get_position()[0]
    assert top < bottom


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_follow_the_theme(crossed, tmp_path, theme):
    colours = get_theme(theme)
    figure = plot_arcs(crossed, theme=theme)
    assert to_hex(strokes(figure)[-1].get_edgecolor()) == to_hex(colours.sequential(1.0))
    corner = pixels_in(figure, tmp_path)[0, 0]
    assert "#{:02x}{:02x}{:02x}".format(*corner) == colours.background
    assert {text.get_color() for text in figure.axes[0].texts} == {
        colours.foreground,
        colours.muted,
    }


def test_weights_on_sinks_are_grey_and_dashed(tmp_path):
    looked = attention([[0.3, 0.7]], ["Jane"], ["Jane", "</s>"])
    figure = plot_arcs(looked)
    grey, blue = strokes(figure)  # the blue one on top
    assert to_hex(grey.get_edgecolor()) == to_hex(get_theme("light").grey(0.7))
    assert grey.get_linestyle() != blue.get_linestyle() == "solid"
    assert grey.get_linewidth() < blue.get_linewidth()
    drawn = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert drawn["</s>"] == get_theme("light").muted != drawn["Jane"]
    assert any("grey: attention sinks (</s>)" in word for word in words_in(figure, tmp_path))


def test_self_attention_arcs_are_above_backward_and_below_forward(tmp_path):
    weights = [[0.5, 0.5, 0], [0, 1.0, 0], [0.9, 0, 0.1]]
    figure = plot_arcs(attention(weights, ENGLISH, ENGLISH, "encoder"))
    assert [len(strokes(figure)), len(dots(figure))] == [2, 3]
    axes = figure.axes[0]
    line = {text.get_text(): text.get_position() for text in axes.texts}
    ahead, back = strokes(figure)
    assert (ahead.get_path().vertices[:, 1] > line["Jane"][1]).all()  # Jane -> visits
    assert (back.get_path().vertices[:, 1] < line["Jane"][1]).all()  # Africa -> Jane
    np.testing.assert_allclose(ends(back)[:, 0], [line["Africa"][0], line["Jane"][0]])
    radii = sorted(dot.radius for dot in dots(figure))
    assert radii[2] ** 2 / radii[1] ** 2 == pytest.approx(2)  # their areas are the weights
    words = words_in(figure, tmp_path)
    assert [words.count(word) for word in ENGLISH] == [1, 1, 1]


def test_decoder_arcs_go_from_predicted_words_to_inputs():
    given, answered = ["<s>", "Jane", "visits"], ["Jane", "visits", "</s>"]
    weights = [[1.0, 0, 0], [0.2, 0.8, 0], [0, 0, 1.0]]
    figure = plot_arcs(attention(weights, answered, given, "decoder"))
    axes = figure.axes[0]
    line = {text.get_text(): text.get_position()[0] for text in axes.texts}
    assert list(line)[:4] == ["<s>", "Jane", "visits", "</s>"]
    assert not dots(figure)
    second = next(
        stroke for stroke in strokes(figure) if 4 < stroke.get_linewidth() < MAX_CURVE_WIDTH
    )
    np.testing.assert_allclose(ends(second)[:, 0], [line["visits"], line["Jane"]])
    assert not any("ahead" in text for text in line)


def test_long_sentences_stay_narrow_and_say_what_is_cut(tmp_path):
    figure = plot_arcs(view_map(made_up(130, 100)))
    width, height = figure.get_size_inches()
    assert width < 5
    assert 20 < height < 40
    words = words_in(figure, tmp_path)
    assert "w119" in words
    assert "w120" not in words
    assert any("only the first 120 of 130 words are drawn" in text for text in words)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_same_figure_is_the_same_file(crossed, tmp_path, ending):
    paths = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    for path in paths:
        save_figure(plot_arcs(crossed), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_of_long_sentences_only_the_strongest_lines_are_drawn(tmp_path):
    figure = plot_arcs(view_map(made_up(55, 60)))
    begun = [round(float(ends(stroke)[1][1]), 3) for stroke in strokes(figure)]
    assert max(map(begun.count, begun)) == 3
    assert "lines: the 3 strongest of each word" in words_in(figure, tmp_path)
    short = plot_arcs(view_map(made_up(20, 20)))
    assert len(strokes(short)) > 3 * 20
    assert "lines: the 3 strongest of each word" not in words_in(short, tmp_path)


ENGLISH_LINES = ["Jane", "went", "to", "Africa", "in", "September"]
ARABIC = ["ذهبت", "جين", "إلى", "أفريقيا", "في", "سبتمبر"]


def test_lines_of_both_sides_are_spread_over_the_same_length():
    lines = layout_word_lines(ENGLISH_LINES, ["Jane", "partit"])
    assert not lines.down
    assert lines.length < MAX_LINE_INCHES
    long, short = lines.places
    assert list(long) == sorted(long)
    assert short[0] == pytest.approx(long[0], abs=0.05)  # the same word, at the same beginning
    assert long[-1] < lines.length
    assert short[-1] < lines.length


def test_words_do_not_overlap():
    words = ["a", "incomprehensible", "b"]
    [places] = layout_word_lines(words).places
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], rel=0.01)
    assert places[1] - places[0] > 0.6


def test_lines_from_right_to_left_begin_at_the_right():
    lines = layout_word_lines(ARABIC, ARABIC[:3])
    assert not lines.down
    for places in lines.places:
        assert list(places) == sorted(places, reverse=True)


def test_lines_of_opposite_directions_run_down_the_page():
    lines = layout_word_lines(ARABIC, ENGLISH_LINES)
    assert lines.down
    for places in lines.places:
        assert list(places) == sorted(places)
    assert lines.point(1.0, 2.0) == (2.0, 1.0)
    assert lines.length == pytest.approx(6 * LINE_SPACING)


def test_long_lines_run_down_the_page():
    lines = layout_word_lines(ENGLISH_LINES * 10)
    assert lines.down
    assert lines.length == pytest.approx(60 * LINE_SPACING)
    assert lines.depths[0] < 1.0  # the longest word


def test_a_single_word_is_centred():
    lines = layout_word_lines(ENGLISH_LINES, ["."])
    assert lines.places[1] == pytest.approx((lines.length / 2,))
