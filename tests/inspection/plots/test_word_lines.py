import pytest
import torch

from drawing import made_up, words_in
from regard.inspection.plots.arcs import plot_arcs
from regard.inspection.plots.focus import plot_focus
from regard.inspection.plots.maps import plot_attention
from regard.inspection.plots.word_lines import (
    LINE_SPACING,
    MAX_DRAWN_WORDS,
    MAX_LINE_INCHES,
    describe_sinks,
    find_sink_weights,
    layout_word_lines,
    view_map,
)

ENGLISH = ["Jane", "went", "to", "Africa", "in", "September"]
ARABIC = ["ذهبت", "جين", "إلى", "أفريقيا", "في", "سبتمبر"]


def test_lines_of_both_sides_are_spread_over_the_same_length():
    lines = layout_word_lines(ENGLISH, ["Jane", "partit"])
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
    lines = layout_word_lines(ARABIC, ENGLISH)
    assert lines.down
    for places in lines.places:
        assert list(places) == sorted(places)
    assert lines.point(1.0, 2.0) == (2.0, 1.0)
    assert lines.length == pytest.approx(6 * LINE_SPACING)


def test_long_lines_run_down_the_page():
    lines = layout_word_lines(ENGLISH * 10)
    assert lines.down
    assert lines.length == pytest.approx(60 * LINE_SPACING)
    assert lines.depths[0] < 1.0  # the longest word


def test_one_word_stands_in_the_middle():
    lines = layout_word_lines(ENGLISH, ["."])
    assert lines.places[1] == pytest.approx((lines.length / 2,))


def test_sentences_are_cut_where_a_figure_would_burst_and_it_says_so():
    whole = view_map(made_up(5, MAX_DRAWN_WORDS), 0, 1)
    assert (whole.notes, whole.weights.shape) == ((), (5, MAX_DRAWN_WORDS))
    cut = view_map(made_up(5, MAX_DRAWN_WORDS + 30), 0, 1)
    assert cut.notes == (f"only the first 120 of {MAX_DRAWN_WORDS + 30} words are drawn",)
    assert cut.weights.shape == (5, MAX_DRAWN_WORDS)
    assert cut.columns[-1] == f"w{MAX_DRAWN_WORDS - 1}"


def test_the_map_of_a_layer_and_head_is_shown():
    looked = made_up(3, 4)
    torch.testing.assert_close(view_map(looked, 1, 2).weights, looked.layers[1, 2])
    torch.testing.assert_close(view_map(looked, None, None).weights, looked.layers.mean((0, 1)))


def test_what_goes_to_an_end_is_parked_unless_the_end_looks():
    looked = made_up(["a", "b", "</s>"], ["x", "<unk>", "</s>"])
    looked.layers[:] = torch.tensor([[0.4, 0.3, 0.3], [0.6, 0.38, 0.02], [0.2, 0.3, 0.5]])
    expected = [[False, False, True], [False, False, False], [False, False, False]]
    assert find_sink_weights(looked)[1, 2].tolist() == expected
    view = view_map(looked, 0, None)
    assert view.is_sink.tolist() == expected
    assert view.notes == ("grey: parked on </s>, and says nothing about words",)


def test_what_most_rows_pay_to_one_column_is_parked():
    looked = made_up(8, ["x", "y", "."], layers=1, heads=2)
    looked.layers[0, 0] = torch.tensor([0.3, 0.1, 0.6])
    looked.layers[0, 1] = torch.tensor([0.98, 0.01, 0.01])
    looked.layers[0, 0, 7] = torch.tensor([0.0, 0.0, 1.0])  # it looks there as the others do
    is_sink = find_sink_weights(looked)
    assert is_sink[0, 0, :, 2].all()
    assert not is_sink[0, 1, :, 2].any()
    assert view_map(looked, 0, 0).notes == ("grey: parked on x, ., and says nothing about words",)


def test_only_some_of_many_are_named():
    is_sink = torch.ones(2, 6, dtype=torch.bool)
    assert describe_sinks(is_sink, list("abcdef")) == (
        "grey: parked on a, b, c, d, …, and says nothing about words"
    )
    assert describe_sinks(~is_sink, list("abcdef")) == ""


def test_nothing_cannot_be_drawn():
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
    looked = made_up(2, 3, layers=size[0], heads=size[1])
    layer, head = place
    for draw in (plot_attention, plot_arcs, plot_focus):
        assert name in words_in(draw(looked, layer=layer, head=head), tmp_path)
    titled = words_in(plot_attention(looked, layer=layer, head=head, title="mine"), tmp_path)
    assert {"mine", name} <= set(titled)
