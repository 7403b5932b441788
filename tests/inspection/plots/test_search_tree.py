import math

import pytest
from matplotlib.patches import PathPatch

from drawing import pixels_in, words_in
from regard.decoding.tracing.search_tree import Node, SearchTree
from regard.inspection.plots.figure import get_theme
from regard.inspection.plots.search_tree import (
    MAX_BAND_INCHES,
    MAX_CURVE_WIDTH,
    MIN_CURVE_WIDTH,
    plot_tree,
)

TREE = SearchTree(
    (
        Node(None, 1, 0.0, "kept"),
        Node(0, 5, -0.5, "kept"),  # 1 Jane
        Node(0, 6, -0.7, "kept"),  # 2 Claire
        Node(0, 7, -3.0, "dropped"),  # 3 Paul
        Node(0, 8, -4.0, "dropped"),  # 4 Anna
        Node(0, 9, -5.0, "dropped"),  # 5 Eve
        Node(2, 10, -0.8, "kept"),  # 6 Claire sleeps
        Node(1, 11, -0.9, "kept"),  # 7 Jane waits
        Node(1, 2, -2.5, "ended"),  # 8 Jane </s>
        Node(7, 2, -1.0, "ended"),  # 9 Jane waits </s>
        Node(6, 2, -1.1, "ended"),  # 10 Claire sleeps </s>
    ),
    (9, 10),
)
PIECES = ["<s>", "Jane", "Claire", "Paul", "Anna", "Eve", "sleeps", "waits", "</s>", "</s>", "</s>"]


def texts(figure):
    return {text.get_text(): text for text in figure.axes[0].texts}


def test_pieces_are_written_without_the_marks_of_spaces():
    marked = ["<s>", *(f"▁{piece}" for piece in PIECES[1:8]), *PIECES[8:]]
    written = texts(plot_tree(TREE, marked))
    assert {"Jane", "waits", "</s> 1."} <= written.keys()
    assert not any("▁" in text for text in written)


def lines(figure):
    return [patch for patch in figure.axes[0].patches if isinstance(patch, PathPatch)]


def chain(length):
    """A tree of one hypothesis of so many pieces."""
    root = Node(None, 1, 0.0, "kept")
    others = [Node(number, 5, -0.1 * number, "kept") for number in range(length)]
    pieces = [f"piece{number}" for number in range(length)]
    return SearchTree((root, *others), (length,)), ["<s>", *pieces]


def test_pieces_and_log_probabilities_are_written(tmp_path):
    words = words_in(plot_tree(TREE, PIECES), tmp_path)
    assert set(words) >= {"<s>", "Jane", "Claire", "sleeps", "waits", "−0.50", "−1.10"}
    assert {"</s> 1.", "</s> 2.", "</s>"} <= set(words)  # the answers are numbered
    assert any("(1 more are not drawn)" in word for word in words)
    assert "Eve" not in words


def test_steps_go_right_and_the_best_hypothesis_is_on_top():
    where = {name: text.get_position() for name, text in texts(plot_tree(TREE, PIECES)).items()}
    assert where["<s>"][0] < where["Jane"][0] < where["waits"][0] < where["</s> 1."][0]
    assert where["Jane"][0] == where["Claire"][0] == where["Paul"][0]
    assert where["<s>"][1] == where["Jane"][1] == where["waits"][1] == where["</s> 1."][1]
    assert where["Jane"][1] < where["Claire"][1] < where["Paul"][1] < where["Anna"][1]
    assert where["waits"][1] < where["</s>"][1] < where["sleeps"][1]  # children of Jane, of Claire


def test_the_best_path_has_the_accent_and_dropped_nodes_dashed_lines():
    theme = get_theme("dark")
    figure = plot_tree(TREE, PIECES, theme="dark")
    drawn = texts(figure)
    for name in ("<s>", "Jane", "waits", "</s> 1."):
        assert drawn[name].get_color() == theme.accent
    assert drawn["Claire"].get_color() == theme.foreground
    assert drawn["Paul"].get_color() == theme.muted
    broken = [line for line in lines(figure) if line.get_linestyle() != "solid"]
    assert len(broken) == 2
    assert drawn["</s>"].get_bbox_patch() is not None
    assert drawn["Jane"].get_bbox_patch() is None


def test_a_line_is_as_wide_as_its_token_is_probable():
    widths = sorted(line.get_linewidth() for line in lines(plot_tree(TREE, PIECES)))
    expected = [
        MIN_CURVE_WIDTH + (MAX_CURVE_WIDTH - MIN_CURVE_WIDTH) * math.exp(gain)
        for gain in (-0.5, -0.7, -3, -4, -0.1, -0.4, -2, -0.1, -0.3)
    ]
    assert widths == pytest.approx(sorted(expected))


def test_dropped_nodes_with_children_are_drawn(tmp_path):
    odd = list(TREE.nodes)
    odd[6] = odd[6]._replace(state="dropped")
    words = words_in(plot_tree(SearchTree(tuple(odd), TREE.answers), PIECES), tmp_path)
    assert {"sleeps", "</s> 2."} <= set(words)


def test_long_searches_go_on_below_with_the_last_step_once_more(tmp_path):
    figure = plot_tree(*chain(40))
    assert figure.get_size_inches()[0] < MAX_BAND_INCHES
    words = words_in(figure, tmp_path)
    pieces = [word for word in words if word.startswith("piece")]
    twice = {piece for piece in pieces if pieces.count(piece) == 2}
    assert len(set(pieces)) == 40
    assert 2 <= len(twice) <= 4
    assert len(lines(figure)) == 40


def test_a_search_that_was_given_up_can_be_drawn(tmp_path):
    unanswered = SearchTree(TREE.nodes[:3], ())
    assert {"Jane", "Claire"} <= set(words_in(plot_tree(unanswered, PIECES[:3]), tmp_path))
    alone = SearchTree(TREE.nodes[:1], ())
    assert "<s>" in words_in(plot_tree(alone, PIECES[:1]), tmp_path)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_background_is_that_of_the_theme(tmp_path, theme):
    corner = pixels_in(plot_tree(TREE, PIECES, theme=theme), tmp_path)[0, 0]
    assert "#{:02x}{:02x}{:02x}".format(*corner) == get_theme(theme).background


def test_each_node_needs_a_piece():
    with pytest.raises(ValueError, match=r"a tree of 11 nodes needs as many pieces: .*=2"):
        plot_tree(TREE, ["<s>", "Jane"])
