"""The tree of hypotheses that a search weighed: what it kept, dropped and answered."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from regard.decoding.tracing.search_tree import ROOT, SearchTree
from regard.inspection.plots.figure import FigureLayout
from regard.inspection.plots.fonts import (
    POINTS_PER_INCH,
    baseline_offset,
    style_text,
    text_width,
    truncate_label,
)
from regard.inspection.plots.theme import Theme, ThemeName, get_theme

PIECE_FONT_SIZE, NUMBER_FONT_SIZE = 10.0, 7.0
"""Points that pieces and log-probabilities are high."""
ROW_HEIGHT, STEP_GAP = 0.4, 0.5
"""Inches from hypothesis to hypothesis, and from the widest piece of a step to the next step."""
MARGIN = 0.05
"""Inches between a piece and its lines."""
MAX_BAND_INCHES, BAND_GAP = 15.0, 0.4
"""Inches of steps that stand beside each other, and between them and the ones below."""
MIN_CURVE_WIDTH, MAX_CURVE_WIDTH = 0.5, 3.5
"""Points of the lines to tokens of probability 0 and 1."""
CURVE = [Path.MOVETO, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]


class NodeBox(NamedTuple):
    """Where a node's piece stands, in inches from the left and the top."""

    left: float
    right: float
    edge: float
    """Where the widest piece of its step ends: no line bends before it."""
    y: float


@dataclass(frozen=True, eq=False)
class TreeLayout:
    """What is drawn of a tree, and what it says."""

    tree: SearchTree
    labels: Sequence[str]
    """For each node."""
    best: frozenset[int]
    """The nodes of the best answer."""
    steps: Sequence[Sequence[int]]
    """The nodes that are drawn, step by step from the root's on, from the top down."""
    hidden: int
    """How many that were dropped are not drawn."""


def plot_tree(
    tree: SearchTree,
    pieces: Sequence[str],
    *,
    dropped: int = 2,
    title: str = "",
    theme: ThemeName = "light",
) -> Figure:
    """All hypotheses of a search, step by step from left to right, the best answer on top.

    `pieces` says for each node what its token is. Of what was weighed and dropped, the likeliest
    `dropped` of each step are drawn, faint and broken. Where the steps are too many for one band
    the next begins below, with the last step once more.
    """
    if len(pieces) != len(tree.nodes):
        raise ValueError(f"a tree of {len(tree.nodes)} nodes needs as many pieces: {len(pieces)=}")
    tree_layout, colours = _layout_tree(tree, pieces, dropped), get_theme(theme)
    widths = [
        max(text_width(tree_layout.labels[node], PIECE_FONT_SIZE) for node in step)
        for step in tree_layout.steps
    ]
    bands = list(_split_bands(widths))
    heights = [ROW_HEIGHT * max(len(tree_layout.steps[step]) for step in band) for band in bands]
    lengths = [sum(widths[step] + STEP_GAP for step in band) - STEP_GAP for band in bands]
    layout = FigureLayout(max(lengths), sum(heights) + BAND_GAP * (len(bands) - 1), colours)
    axes, top = layout.canvas(), 0.0
    for band, height in zip(bands, heights, strict=True):
        boxes = _position_nodes(tree_layout, band, widths, top)
        for step in band[1:]:
            for node in reversed(tree_layout.steps[step]):
                _draw_edge(axes, tree_layout, node, boxes, colours)
        for node, box in boxes.items():
            _write_node(axes, tree_layout, node, box, colours)
        top += height + BAND_GAP
    layout.write_title(axes, title)
    _write_legend(layout, axes, tree_layout)
    return layout.figure


def _layout_tree(tree: SearchTree, pieces: Sequence[str], dropped: int) -> TreeLayout:
    """Which nodes are drawn, in which order.

    Children of one parent stand together, the likeliest first, and what was dropped below all. A
    sample that was dropped in one place may have gone on in another: it is drawn with the others.
    """
    parents = {node.parent for node in tree.nodes} | set(tree.answers)
    best = frozenset((ROOT, *tree.path(tree.answers[0]))) if tree.answers else frozenset({ROOT})
    steps, hidden = [[ROOT]], 0
    rank, depth = {ROOT: 0}, {ROOT: 0}
    for number, node in enumerate(tree.nodes[1:], 1):
        depth[number] = depth[node.parent or ROOT] + 1
        if depth[number] == len(steps):
            steps.append([])
        steps[depth[number]].append(number)
    for place, step in enumerate(steps):
        ordered = sorted(step, key=lambda number: -tree.nodes[number].log_probability)
        pruned = [
            number
            for number in ordered
            if tree.nodes[number].state == "dropped" and number not in parents
        ]
        continued = [number for number in ordered if number not in pruned]
        continued.sort(
            key=lambda number: (number not in best, rank[tree.nodes[number].parent or ROOT])
        )
        steps[place] = [*continued, *pruned[:dropped]]
        hidden += len(pruned[dropped:])
        rank |= {number: below for below, number in enumerate(steps[place])}
    answers = {node: f"{pieces[node]} {rank}." for rank, node in enumerate(tree.answers, 1)}
    labels = [truncate_label(answers.get(node, piece), 16) for node, piece in enumerate(pieces)]
    return TreeLayout(tree, labels, best, steps, hidden)


def _split_bands(widths: Sequence[float]) -> Iterator[range]:
    """Steps that stand beside each other; each band begins with the last step of the one before."""
    first, taken = 0, 0.0
    for step, width in enumerate(widths):
        if taken + width > MAX_BAND_INCHES and step > first + 1:
            yield range(first, step)
            first, taken = step - 1, widths[step - 1] + STEP_GAP
        taken += width + STEP_GAP
    yield range(first, len(widths))


def _position_nodes(
    tree_layout: TreeLayout, band: range, widths: Sequence[float], top: float
) -> dict[int, NodeBox]:
    """Where the nodes of a band stand."""
    boxes, left = {}, 0.0
    for step in band:
        for row, node in enumerate(tree_layout.steps[step]):
            right = left + text_width(tree_layout.labels[node], PIECE_FONT_SIZE)
            boxes[node] = NodeBox(left, right, left + widths[step], top + (row + 0.5) * ROW_HEIGHT)
        left += widths[step] + STEP_GAP
    return boxes


def _draw_edge(
    axes: Axes, tree_layout: TreeLayout, node: int, boxes: Mapping[int, NodeBox], theme: Theme
) -> None:
    """A curve from a node's parent, as wide as its token is probable."""
    child = tree_layout.tree.nodes[node]
    parent = child.parent or ROOT
    gain = child.log_probability - tree_layout.tree.nodes[parent].log_probability
    begin, end = boxes[parent], boxes[node]
    turn_x, end_x = begin.edge + MARGIN, end.left - MARGIN
    middle = (turn_x + end_x) / 2
    control_points = [
        (begin.right + MARGIN, begin.y),
        (turn_x, begin.y),
        (middle, begin.y),
        (middle, end.y),
        (end_x, end.y),
    ]
    curve = PathPatch(
        Path(control_points, CURVE),
        facecolor="none",
        edgecolor=theme.accent if node in tree_layout.best else theme.border,
        linewidth=MIN_CURVE_WIDTH + (MAX_CURVE_WIDTH - MIN_CURVE_WIDTH) * min(math.exp(gain), 1.0),
        linestyle=(0, (2, 1.5)) if child.state == "dropped" else "solid",
        capstyle="butt",
        clip_on=False,
    )
    axes.add_patch(curve)


def _write_node(axes: Axes, tree_layout: TreeLayout, node: int, box: NodeBox, theme: Theme) -> None:
    """A node's piece, framed if it ends an answer, over the log-probability up to there."""
    state = tree_layout.tree.nodes[node].state
    colour = theme.foreground if state != "dropped" else theme.muted
    if node in tree_layout.best:
        colour = theme.accent
    piece = axes.text(box.left, box.y + baseline_offset(PIECE_FONT_SIZE), tree_layout.labels[node])
    style_text(piece, PIECE_FONT_SIZE, colour)
    if state == "ended":
        piece.set_bbox({"boxstyle": "round,pad=0.25", "fc": "none", "ec": colour, "lw": 0.8})
    if node != ROOT:
        legend = f"{tree_layout.tree.nodes[node].log_probability:.2f}".replace(
            "-", "−"
        )  # a minus sign
        number = axes.text(
            box.left,
            box.y
            + baseline_offset(PIECE_FONT_SIZE)
            + 1.2 * NUMBER_FONT_SIZE / POINTS_PER_INCH
            + MARGIN,
            legend,
        )
        style_text(number, NUMBER_FONT_SIZE, theme.muted)


def _write_legend(layout: FigureLayout, axes: Axes, tree_layout: TreeLayout) -> None:
    """Say below the tree how to read it."""
    legend = [
        "below each piece: log-probability up to there; width of a line: probability of the piece",
        "framed: ended; faint and broken: dropped",
    ]
    if tree_layout.hidden:
        legend[1] += f" ({tree_layout.hidden} more are not drawn)"
    text = axes.text(0, layout.height + 0.15, "\n".join(legend), va="top", linespacing=1.4)
    style_text(text, 8, layout.theme.muted)
