"""The hypotheses of a search in the terminal: where they part, and what became of each."""

from collections.abc import Sequence

from rich.text import Text
from rich.tree import Tree

from regard.decoding.tracing.search_tree import ROOT, SearchTree

ANSWER_STYLE, OTHER_STYLE = "bold", "dim"


def render_tree(tree: SearchTree, pieces: Sequence[str]) -> Tree:
    """Something for rich to print: a branch where hypotheses part, the likeliest first.

    Pieces that follow one another without a choice share a line. It ends with the log-probability
    up to there and, if it is an answer, its rank. What was weighed and dropped is only counted.
    """
    children = _children(tree)
    dropped = sum(node.state == "dropped" for node in tree.nodes)
    label = Text.assemble(pieces[ROOT], (f"  and {dropped:,} dropped at once", OTHER_STYLE))
    shown = Tree(label, guide_style=OTHER_STYLE)
    stack = [(shown, child) for child in reversed(children[ROOT])]
    while stack:
        above, node = stack.pop()
        pieces_shown = [pieces[node]]
        while len(children[node]) == 1 and node not in tree.answers:
            [node] = children[node]
            pieces_shown.append(pieces[node])
        below = above.add(_line(tree, node, "".join(pieces_shown)))
        stack += [(below, child) for child in reversed(children[node])]
    return shown


def _children(tree: SearchTree) -> list[list[int]]:
    """Of each node those that were not dropped, the likeliest first."""
    children: list[list[int]] = [[] for _ in tree.nodes]
    for number, node in enumerate(tree.nodes):
        if node.parent is not None and (node.state != "dropped" or number in tree.answers):
            children[node.parent].append(number)
    for some in children:
        some.sort(key=lambda number: -tree.nodes[number].log_probability)
    return children


def _line(tree: SearchTree, node: int, pieces_shown: str) -> Text:
    text = pieces_shown.replace("▁", " ").strip() or pieces_shown
    line = Text.assemble(text, (f"  {tree.nodes[node].log_probability:.2f}", OTHER_STYLE))
    if node in tree.answers:
        line.stylize(ANSWER_STYLE, 0, len(text))
        line.append(f"  {tree.answers.index(node) + 1}.", ANSWER_STYLE)
    return line
