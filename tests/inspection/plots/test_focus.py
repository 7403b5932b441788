from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from drawing import made_up, pixels_in, words_in
from regard.inspection.plots.focus import plot_focus, top_words
from regard.inspection.plots.fonts import ignore_missing_glyphs
from regard.inspection.plots.maps import save_figure
from regard.inspection.plots.theme import get_theme

ARABIC = ["ذهبت", "جين", "إلى", "أفريقيا"]


def shares(weights):
    return [(one.column, round(one.share, 2)) for one in top_words(torch.tensor(weights))]


def test_focus_is_on_the_few_that_have_most():
    assert shares([0.1, 0.9]) == [(1, 0.9)]
    assert shares([0.5, 0.1, 0.25, 0.15]) == [(0, 0.5), (2, 0.25), (3, 0.15)]
    assert shares([0.3, 0.3, 0.2, 0.2]) == [(0, 0.3), (1, 0.3), (2, 0.2)]  # no more than three
    assert shares([0.5, 0.3, 0.2]) == [(0, 0.5), (1, 0.3)]  # together enough
    assert shares([0.0, 0.1, 0.3]) == [(2, 0.75), (1, 0.25)]  # of what the row has to give
    assert shares([0.76, 0.04, 0.2]) == [(0, 0.76), (2, 0.2)]
    assert shares([0.0, 0.0]) == []


def test_each_row_tells_what_it_looked_at(tmp_path):
    looked = replace(
        made_up(["cat", "sleeps"], ["le", "chat", "dort"], layers=1, heads=1),
        layers=torch.tensor([[[[0.25, 0.75, 0.0], [0.0, 0.05, 0.95]]]]),
    )
    figure = plot_focus(looked, title="who looks where")
    axes = figure.axes[0]
    lines = {}
    for text in axes.texts:
        lines.setdefault(int(text.get_position()[1]), []).append(text.get_text())
    assert lines == {0: ["chat", "75%", "le", "25%"], 1: ["dort", "95%"]}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cat", "sleeps"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["le", "chat", "dort"]
    assert "who looks where" in words_in(figure, tmp_path)


def test_texts_of_a_row_do_not_overlap():
    figure = plot_focus(made_up(4, ["some", "rather-long-words", "日本語", "e\u0301te\u0301"]))
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
    figure = plot_focus(made_up(55, 60))
    width, height = figure.get_size_inches()
    assert 6 < width < 9
    assert 10 < height < 12
    words = words_in(figure, tmp_path)
    assert {f"w{number}" for number in range(60)} <= set(words)


def test_longer_sentences_are_cut_and_say_so(tmp_path):
    words = words_in(plot_focus(made_up(10, 200)), tmp_path)
    assert "only the first 120 of 200 words are drawn" in words
    assert "w120" not in words


def test_columns_run_as_their_script_does():
    looked = made_up(3, ARABIC)
    axes = plot_focus(looked, layer=0, head=0).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ARABIC[::-1]
    drawn = axes.collections[0].get_array().reshape(3, 4)
    np.testing.assert_allclose(drawn, looked.layers[0, 0].flip(-1))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_follow_the_theme(tmp_path, theme):
    colours = get_theme(theme)
    figure = plot_focus(made_up(3, 4), theme=theme)
    corner = pixels_in(figure, tmp_path)[0, 0]
    assert "#{:02x}{:02x}{:02x}".format(*corner) == colours.background
    assert {text.get_color() for text in figure.axes[0].texts} == {
        colours.foreground,
        colours.muted,
    }


def test_the_same_figure_is_the_same_file(tmp_path):
    paths = tmp_path / "one.svg", tmp_path / "two.svg"
    for path in paths:
        save_figure(plot_focus(made_up(3, 4)), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
