from rich.console import Console

from regard.decoding.tracing.search_tree import Node, SearchTree
from regard.inspection.plots.terminal_tree import render_tree

PIECES = ("<s>", "▁Jane", "▁She", "▁visits", "▁Afri", "ca", "</s>", "▁loves", "</s>", "▁In")
NODES = (
    Node(None, 1, 0.0, "kept"),
    Node(0, 5, -0.5, "kept"),  # Jane
    Node(0, 6, -0.25, "kept"),  # She, likelier but listed later
    Node(1, 7, -0.7, "kept"),  # Jane visits
    Node(3, 8, -0.8, "kept"),  # Jane visits Afri
    Node(4, 9, -0.9, "kept"),  # Jane visits Africa
    Node(5, 2, -1.0, "ended"),
    Node(1, 10, -2.0, "kept"),  # Jane loves
    Node(7, 2, -2.5, "ended"),
    Node(0, 11, -9.0, "dropped"),
)


def lines(tree, pieces=PIECES):
    console = Console(width=60, color_system=None)
    with console.capture() as capture:
        console.print(render_tree(tree, pieces))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_branch_where_hypotheses_part_the_likeliest_first():
    assert lines(SearchTree(NODES, (6, 8))) == [
        "<s>  and 1 dropped at once",
        "├── She  -0.25",
        "└── Jane  -0.50",
        "    ├── visits Africa</s>  -1.00  1.",
        "    └── loves</s>  -2.50  2.",
    ]


def test_an_answer_that_was_cut_short_ends_where_it_was_cut():
    """At the limit of length the best is answered although it has not ended."""
    nodes = (*NODES[:2], Node(1, 7, -0.7, "kept"), Node(2, 8, -0.8, "kept"))
    assert lines(SearchTree(nodes, (2, 3)), ("<s>", "▁a", "▁b", "▁c")) == [
        "<s>  and 0 dropped at once",
        "└── a b  -0.70  1.",
        "    └── c  -0.80  2.",
    ]


def test_a_space_alone_is_shown():
    nodes = (NODES[0], Node(0, 5, -0.5, "ended"))
    assert lines(SearchTree(nodes, (1,)), ("<s>", "▁"))[1] == "└── ▁  -0.50  1."


def test_a_search_that_is_deep_is_shown_too():
    count = 3000
    nodes = [NODES[0], *(Node(n, 5, -float(n), "kept") for n in range(count))]
    nodes += [Node(n, 6, -float(n) - 0.5, "kept") for n in range(0, count, 500)]
    shown = lines(SearchTree(tuple(nodes), ()), ["x"] * len(nodes))
    assert len(shown) > 5
