"""A figure of a beam search's hypotheses: kept, dropped and returned."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from regard.decoding.tracing.search_tree import ROOT, SearchTree
from regard.inspection.plots.figure import InchFigure, ThemeName
from regard.inspection.plots.fonts import (
    POINTS_PER_INCH,
    baseline_offset,
    text_width,
    truncate_label,
)
from regard.text.special_tokens import legible_piece

MAX_DROPPED = 2  # the most dropped tokens that are drawn at each step, the likeliest first
# Lengths are in inches, font sizes and curve widths in points.
PIECE_FONT_SIZE, NUMBER_FONT_SIZE, MAX_PIECE_WIDTH = 10.0, 7.0, 16
ROW_HEIGHT, STEP_GAP, MARGIN = 0.4, 0.5, 0.05
MAX_BAND_INCHES, BAND_GAP = 15.0, 0.4
MIN_CURVE_WIDTH, MAX_CURVE_WIDTH = 0.5, 3.5  # of tokens of probability 0 and 1


class NodeBox(NamedTuple):
    """The position of a node's piece, in inches from the left and the top."""

    left: float
    right: float
    edge: float  # the right end of the widest piece of its step; lines curve only beyond it
    y: float


class TreeLayout(NamedTuple):
    """The nodes of a tree that are drawn, and the labels of all."""

    tree: SearchTree
    labels: Sequence[str]
    best: frozenset[int]  # the nodes of the best hypothesis
    steps: Sequence[Sequence[int]]  # the drawn nodes of each step, top down; the root is step 0
    hidden: int  # the number of dropped nodes that are not drawn


def plot_tree(tree: SearchTree, pieces: Sequence[str], *, theme: ThemeName = "light") -> Figure:
    """All hypotheses of a search, step by step from left to right, the best one on top; `pieces`
    has one for each node. The likeliest of the tokens dropped at a step are muted and dashed. Long
    searches continue in a band below, which repeats the last step.
    """
    if len(pieces) != len(tree.nodes):
        raise ValueError(f"a tree of {len(tree.nodes)} nodes needs as many pieces: {len(pieces)=}")
    drawn = _layout_tree(tree, pieces)
    widths = [
        max(text_width(drawn.labels[node], PIECE_FONT_SIZE) for node in step)
        for step in drawn.steps
    ]
    bands = list(_split_bands(widths))
    heights = [ROW_HEIGHT * max(len(drawn.steps[step]) for step in band) for band in bands]
    lengths = [sum(widths[step] + STEP_GAP for step in band) - STEP_GAP for band in bands]
    figure = InchFigure(max(lengths), sum(heights) + BAND_GAP * (len(bands) - 1), theme)
    top = 0.0
    for band, height in zip(bands, heights, strict=True):
        boxes = _position_nodes(drawn, band, widths, top)
        for step in band[1:]:
            for node in reversed(drawn.steps[step]):
                _draw_edge(figure, drawn, node, boxes)
        for node, box in boxes.items():
            _write_node(figure, drawn, node, box)
        top += height + BAND_GAP
    more = f" ({drawn.hidden} more are not drawn)" if drawn.hidden else ""
    legend = (
        "below each piece: log-probability up to there; width of a line: probability of the piece\n"
        f"framed: ended; faint and broken: dropped{more}"
    )
    figure.write(figure.overlay, 0, figure.height + 0.15, legend, va="top", linespacing=1.4)
    return figure


def _layout_tree(tree: SearchTree, pieces: Sequence[str]) -> TreeLayout:
    """Order the nodes of each step: children of one parent together, the likeliest first, dropped
    ones last. A sample dropped in one row may continue in another and then does not count as
    dropped.
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
        step.sort(key=lambda number: -tree.nodes[number].log_probability)
        pruned = [n for n in step if tree.nodes[n].state == "dropped" and n not in parents]
        kept = [number for number in step if number not in pruned]
        kept.sort(key=lambda number: (number not in best, rank[tree.nodes[number].parent or ROOT]))
        steps[place] = [*kept, *pruned[:MAX_DROPPED]]
        hidden += len(pruned[MAX_DROPPED:])
        rank |= {number: row for row, number in enumerate(steps[place])}
    legible = [legible_piece(piece) for piece in pieces]
    results = {node: f"{legible[node]} {rank}." for rank, node in enumerate(tree.answers, 1)}
    labels = [
        truncate_label(results.get(node, piece), MAX_PIECE_WIDTH)
        for node, piece in enumerate(legible)
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
    drawn: TreeLayout, band: range, widths: Sequence[float], top: float
) -> dict[int, NodeBox]:
    boxes, left = {}, 0.0
    for step in band:
        for row, node in enumerate(drawn.steps[step]):
            right = left + text_width(drawn.labels[node], PIECE_FONT_SIZE)
            boxes[node] = NodeBox(left, right, left + widths[step], top + (row + 0.5) * ROW_HEIGHT)
        left += widths[step] + STEP_GAP
    return boxes


def _draw_edge(
    figure: InchFigure, drawn: TreeLayout, node: int, boxes: Mapping[int, NodeBox]
) -> None:
    """A curve from a node's parent; wider for a more probable token."""
    child = drawn.tree.nodes[node]
    parent = child.parent or ROOT
    gain = child.log_probability - drawn.tree.nodes[parent].log_probability
    begin, end = boxes[parent], boxes[node]
    turn, stop = begin.edge + MARGIN, end.left - MARGIN
    middle = (turn + stop) / 2
    curve = [(turn, begin.y), (middle, begin.y), (middle, end.y), (stop, end.y)]
    colour = figure.theme.accent if node in drawn.best else figure.theme.border
    width = MIN_CURVE_WIDTH + (MAX_CURVE_WIDTH - MIN_CURVE_WIDTH) * min(math.exp(gain), 1.0)
    dashes = (2, 1.5) if child.state == "dropped" else None
    figure.draw_curve([(begin.right + MARGIN, begin.y), *curve], colour, width, dashes)


def _write_node(figure: InchFigure, drawn: TreeLayout, node: int, box: NodeBox) -> None:
    """A node's piece over its log-probability, with a frame if the hypothesis ends there."""
    state, baseline = drawn.tree.nodes[node].state, box.y + baseline_offset(PIECE_FONT_SIZE)
    colour = figure.theme.foreground if state != "dropped" else figure.theme.muted
    if node in drawn.best:
        colour = figure.theme.accent
    label = drawn.labels[node]
    piece = figure.write(figure.overlay, box.left, baseline, label, PIECE_FONT_SIZE, color=colour)
    if state == "ended":
        piece.set_bbox({"boxstyle": "round,pad=0.25", "fc": "none", "ec": colour, "lw": 0.8})
    if node != ROOT:
        below = baseline + 1.2 * NUMBER_FONT_SIZE / POINTS_PER_INCH + MARGIN
        number = f"{drawn.tree.nodes[node].log_probability:.2f}".replace("-", "−")  # a minus sign
        figure.write(figure.overlay, box.left, below, number, NUMBER_FONT_SIZE)
