"""A figure of a beam search's hypotheses: kept, dropped and returned."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from regard.decoding.tracing.search_tree import ROOT, SearchTree
from regard.inspection.plots.figure import FigureLayout, Theme, ThemeName, get_theme
from regard.inspection.plots.fonts import (
    POINTS_PER_INCH,
    baseline_offset,
    style_text,
    text_width,
    truncate_label,
)

# Lengths are in inches, font sizes and curve widths in points.
PIECE_FONT_SIZE, NUMBER_FONT_SIZE, MAX_PIECE_WIDTH = 10.0, 7.0, 16
ROW_HEIGHT, STEP_GAP, MARGIN = 0.4, 0.5, 0.05
MAX_BAND_INCHES, BAND_GAP = 15.0, 0.4
MIN_CURVE_WIDTH, MAX_CURVE_WIDTH = 0.5, 3.5  # of tokens of probability 0 and 1
CURVE = [Path.MOVETO, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]


class NodeBox(NamedTuple):
    """The position of a node's piece, in inches from the left and the top."""

    left: float
    right: float
    edge: float
    """The right end of the widest piece of its step: lines are straight up to it."""
    y: float


@dataclass(frozen=True, eq=False)
class TreeLayout:
    """The nodes of a tree that are drawn, and their labels."""

    tree: SearchTree
    labels: Sequence[str]
    """For each node."""
    best: frozenset[int]
    """The nodes of the best hypothesis."""
    steps: Sequence[Sequence[int]]
    """The drawn nodes of each step, from the top down; the root is the first step."""
    hidden: int
    """The number of dropped nodes that are not drawn."""


def plot_tree(
    tree: SearchTree,
    pieces: Sequence[str],
    *,
    dropped: int = 2,
    title: str = "",
    theme: ThemeName = "light",
) -> Figure:
    """All hypotheses of a search, step by step from left to right, the best one on top.

    `pieces` holds the piece of each node. Of the tokens that were dropped at a step, the likeliest
    `dropped` are drawn, muted and dashed. Long searches continue in a band below, which repeats the
    last step.
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
    more = f" ({tree_layout.hidden} more are not drawn)" if tree_layout.hidden else ""
    legend = (
        "below each piece: log-probability up to there; width of a line: probability of the piece\n"
        f"framed: ended; faint and broken: dropped{more}"
    )
    text = axes.text(0, layout.height + 0.15, legend, va="top", linespacing=1.4)
    style_text(text, 8, colours.muted)
    return layout.figure


def _layout_tree(tree: SearchTree, pieces: Sequence[str], dropped: int) -> TreeLayout:
    """Order the nodes of each step: children of one parent together, the likeliest first.

    Dropped nodes are last. A sample dropped in one row may continue in another: then it is drawn
    with the others.
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
        kept: list[int] = []
        pruned: list[int] = []
        for number in sorted(step, key=lambda number: -tree.nodes[number].log_probability):
            is_pruned = tree.nodes[number].state == "dropped" and number not in parents
            (pruned if is_pruned else kept).append(number)
        kept.sort(key=lambda number: (number not in best, rank[tree.nodes[number].parent or ROOT]))
        steps[place] = [*kept, *pruned[:dropped]]
        hidden += len(pruned[dropped:])
        rank |= {number: row for row, number in enumerate(steps[place])}
    results = {node: f"{pieces[node]} {rank}." for rank, node in enumerate(tree.answers, 1)}
    labels = [
        truncate_label(results.get(node, piece), MAX_PIECE_WIDTH)
        for node, piece in enumerate(pieces)
    ]
    return TreeLayout(tree, labels, best, steps, hidden)


def _split_bands(widths: Sequence[float]) -> Iterator[range]:
    """Steps side by side; each band begins with the last step of the one before."""
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
    """A curve from a node's parent, the wider the more probable the token."""
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
    """A node's piece over its log-probability, with a frame if the hypothesis ends there."""
    state, baseline = tree_layout.tree.nodes[node].state, box.y + baseline_offset(PIECE_FONT_SIZE)
    colour = theme.foreground if state != "dropped" else theme.muted
    if node in tree_layout.best:
        colour = theme.accent
    piece = axes.text(box.left, baseline, tree_layout.labels[node])
    style_text(piece, PIECE_FONT_SIZE, colour)
    if state == "ended":
        piece.set_bbox({"boxstyle": "round,pad=0.25", "fc": "none", "ec": colour, "lw": 0.8})
    if node != ROOT:
        below = baseline + 1.2 * NUMBER_FONT_SIZE / POINTS_PER_INCH + MARGIN
        log_probability = f"{tree_layout.tree.nodes[node].log_probability:.2f}"
        number = axes.text(box.left, below, log_probability.replace("-", "−"))  # a minus sign
        style_text(number, NUMBER_FONT_SIZE, theme.muted)
