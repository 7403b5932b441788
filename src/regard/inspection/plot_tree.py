"""The tree of hypotheses that a search weighed: what it kept, dropped and answered."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from regard.decoding.tree import ROOT, SearchTree
from regard.inspection.plot_letters import POINTS, drop, shorten, width_of, write
from regard.inspection.plot_sheet import Sheet
from regard.inspection.plot_theme import Theme, ThemeName, theme_of

WORDS, NUMBERS = 10.0, 7.0
"""Points that pieces and log-probabilities are high."""
ROW, BETWEEN = 0.4, 0.5
"""Inches from hypothesis to hypothesis, and from the widest piece of a step to the next step."""
MARGIN = 0.05
"""Inches between a piece and its lines."""
BAND, BAND_GAP = 15.0, 0.4
"""Inches of steps that stand beside each other, and between them and the ones below."""
THINNEST, WIDEST = 0.5, 3.5
"""Points of the lines to tokens of probability 0 and 1."""
CURVE = [Path.MOVETO, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]


class Spot(NamedTuple):
    """Where a node's piece stands, in inches from the left and the top."""

    left: float
    right: float
    edge: float
    """Where the widest piece of its step ends: no line bends before it."""
    y: float


@dataclass(frozen=True, eq=False)
class Plan:
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
    plan, colours = _plan(tree, pieces, dropped), theme_of(theme)
    widths = [max(width_of(plan.labels[node], WORDS) for node in step) for step in plan.steps]
    bands = list(_bands(widths))
    heights = [ROW * max(len(plan.steps[step]) for step in band) for band in bands]
    lengths = [sum(widths[step] + BETWEEN for step in band) - BETWEEN for band in bands]
    sheet = Sheet(max(lengths), sum(heights) + BAND_GAP * (len(bands) - 1), colours)
    axes, top = sheet.canvas(), 0.0
    for band, height in zip(bands, heights, strict=True):
        spots = _place(plan, band, widths, top)
        for step in band[1:]:
            for node in reversed(plan.steps[step]):
                _draw_line(axes, plan, node, spots, colours)
        for node, spot in spots.items():
            _write_node(axes, plan, node, spot, colours)
        top += height + BAND_GAP
    sheet.entitle(axes, title)
    _explain(sheet, axes, plan)
    return sheet.figure


def _plan(tree: SearchTree, pieces: Sequence[str], dropped: int) -> Plan:
    """Which nodes are drawn, in which order.

    Children of one parent stand together, the likeliest first, and what was dropped below all. A
    sample that was dropped in one place may have gone on in another: it is drawn with the others.
    """
    led_on = {node.parent for node in tree.nodes} | set(tree.answers)
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
        out = [
            number
            for number in ordered
            if tree.nodes[number].state == "dropped" and number not in led_on
        ]
        going_on = [number for number in ordered if number not in out]
        going_on.sort(
            key=lambda number: (number not in best, rank[tree.nodes[number].parent or ROOT])
        )
        steps[place] = [*going_on, *out[:dropped]]
        hidden += len(out[dropped:])
        rank |= {number: below for below, number in enumerate(steps[place])}
    answers = {node: f"{pieces[node]} {rank}." for rank, node in enumerate(tree.answers, 1)}
    labels = [shorten(answers.get(node, piece), 16) for node, piece in enumerate(pieces)]
    return Plan(tree, labels, best, steps, hidden)


def _bands(widths: Sequence[float]) -> Iterator[range]:
    """Steps that stand beside each other; each band begins with the last step of the one before."""
    first, taken = 0, 0.0
    for step, width in enumerate(widths):
        if taken + width > BAND and step > first + 1:
            yield range(first, step)
            first, taken = step - 1, widths[step - 1] + BETWEEN
        taken += width + BETWEEN
    yield range(first, len(widths))


def _place(plan: Plan, band: range, widths: Sequence[float], top: float) -> dict[int, Spot]:
    """Where the nodes of a band stand."""
    spots, left = {}, 0.0
    for step in band:
        for row, node in enumerate(plan.steps[step]):
            right = left + width_of(plan.labels[node], WORDS)
            spots[node] = Spot(left, right, left + widths[step], top + (row + 0.5) * ROW)
        left += widths[step] + BETWEEN
    return spots


def _draw_line(axes: Axes, plan: Plan, node: int, spots: Mapping[int, Spot], theme: Theme) -> None:
    """A curve from a node's parent, as wide as its token is probable."""
    this = plan.tree.nodes[node]
    parent = this.parent or ROOT
    gain = this.log_probability - plan.tree.nodes[parent].log_probability
    begin, end = spots[parent], spots[node]
    bend, goal = begin.edge + MARGIN, end.left - MARGIN
    middle = (bend + goal) / 2
    course = [
        (begin.right + MARGIN, begin.y),
        (bend, begin.y),
        (middle, begin.y),
        (middle, end.y),
        (goal, end.y),
    ]
    curve = PathPatch(
        Path(course, CURVE),
        facecolor="none",
        edgecolor=theme.strong if node in plan.best else theme.frame,
        linewidth=THINNEST + (WIDEST - THINNEST) * min(math.exp(gain), 1.0),
        linestyle=(0, (2, 1.5)) if this.state == "dropped" else "solid",
        capstyle="butt",
        clip_on=False,
    )
    axes.add_patch(curve)


def _write_node(axes: Axes, plan: Plan, node: int, spot: Spot, theme: Theme) -> None:
    """A node's piece, framed if it ends an answer, over the log-probability up to there."""
    state = plan.tree.nodes[node].state
    colour = theme.ink if state != "dropped" else theme.faint
    if node in plan.best:
        colour = theme.strong
    piece = axes.text(spot.left, spot.y + drop(WORDS), plan.labels[node])
    write(piece, WORDS, colour)
    if state == "ended":
        piece.set_bbox({"boxstyle": "round,pad=0.25", "fc": "none", "ec": colour, "lw": 0.8})
    if node != ROOT:
        told = f"{plan.tree.nodes[node].log_probability:.2f}".replace("-", "−")  # a minus sign
        number = axes.text(spot.left, spot.y + drop(WORDS) + 1.2 * NUMBERS / POINTS + MARGIN, told)
        write(number, NUMBERS, theme.faint)


def _explain(sheet: Sheet, axes: Axes, plan: Plan) -> None:
    """Say below the tree how to read it."""
    told = [
        "below each piece: log-probability up to there; width of a line: probability of the piece",
        "framed: ended; faint and broken: dropped",
    ]
    if plan.hidden:
        told[1] += f" ({plan.hidden} more are not drawn)"
    text = axes.text(0, sheet.height + 0.15, "\n".join(told), va="top", linespacing=1.4)
    write(text, 8, sheet.theme.faint)
