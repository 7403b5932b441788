"""The ladder's pictures: quality by length, and quality by cost."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.text import Annotation
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox

from regard.comparison.results import ComparisonResults, SystemResult
from regard.comparison.table import format_si
from regard.inspection.plots.fonts import ignore_missing_glyphs, style_text

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#00875F",
    "#C2578F",
    "#000000",
    "#B07800",
    "#3E9BD6",
    "#882255",
    "#6B7F1A",
    "#332288",
    "#8C5A3C",
    "#707070",
)
"""After Okabe and Ito 2008 and Tol 2021, dark enough on white for letters too. Twelve cannot be
told apart by every eye: markers, and names beside the lines, say the rest."""
MARKERS = "osD^vp<>h*XP"
INK, PALE, FAINT = "0.25", "0.45", "0.9"
LABEL_POINTS = 10.0
"""Points that the names of systems are high."""
STYLE: dict[Any, Any] = {
    "font.size": LABEL_POINTS,
    "axes.edgecolor": "0.6",
    "axes.linewidth": 0.6,
    "text.parse_math": False,
}
LINE_HEIGHT = 12.5
"""Points that a line of text takes."""
LABEL_OFFSETS = [(9, 0), (-9, 0), (9, 10), (-9, 10), (9, -10), (-9, -10), (0, 14), (0, -14)]
"""Where a point's name may stand, in points across and up from it."""
FAR_LABEL_OFFSETS = [
    *product((18, -18), (24, -24, 38, -38)),
    *product((34, -34), (0, 12, -12, 52, -52)),
]
"""Where else, with a line that leads to it."""
POINT_PADDING = 7
"""Pixels around a point or a bar that a name had better not cover."""
LABEL_GAP = 4
"""Pixels that had better lie between two names."""
CROSSING_COST = 500
"""What a line to a name costs for each point, bar or name that it crosses, in pixels covered."""


class _LabelledPoint(NamedTuple):
    """A place in a figure, and whose it is."""

    x: float
    y: float
    label: str
    colour: str


def plot_by_length(results: ComparisonResults) -> Figure:
    """BLEU of each quarter of the test sentences, a line for each system with its name beside it.

    Systems without attention to the source are dashed.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = _new_axes("BLEU by the length of the source sentence")
        places = [quarter.mean_length for quarter in results.quarters]
        ends = []
        for number, one in _measured_systems(results):
            colour, marker = _color_and_marker(number)
            axes.plot(
                places,
                one.by_length,
                color=colour,
                marker=marker,
                markersize=6,
                linewidth=1.6,
                linestyle="-" if one.rows[0].attends else (0, (4, 2)),
            )
            ends.append(_LabelledPoint(places[-1], one.by_length[-1], one.label, colour))
        named = [f"{quarter}\n{quarter.sentences:,} sent." for quarter in results.quarters]
        axes.set_xticks(places, named)
        axes.set_xlabel("words in the source sentence: quarters of the test set", color=INK)
        axes.grid(axis="y", color=FAINT, linewidth=0.8)
        _label_line_ends(figure, axes, ends)
        _add_footnote(axes, results, "dashed: without attention to the source")
    return figure


def plot_quality_cost(results: ComparisonResults) -> Figure:
    """BLEU against the operations of the training: the higher and the further left, the better.

    A point is the mean over seeds, its bar the 95% interval of that mean. Systems without attention
    to the source are hollow.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = _new_axes("BLEU against the cost of training")
        points, bars = [], []
        for number, one in _measured_systems(results):
            colour, marker = _color_and_marker(number)
            assert one.bleu is not None  # it was measured
            assert one.interval is not None
            assert one.costs is not None
            flops, mean = one.costs.flops, one.bleu.mean
            low, high = one.interval.low, one.interval.high
            axes.vlines(flops, low, high, color=colour, linewidth=1, alpha=0.5)
            bars.append((flops, low, high))
            axes.plot(
                flops,
                mean,
                marker=marker,
                markersize=7,
                color=colour,
                markerfacecolor=colour if one.rows[0].attends else "white",
                markeredgewidth=1.6,
            )
            points.append(_LabelledPoint(flops, mean, one.label, colour))
        axes.set_xscale("log")
        axes.margins(x=0.12, y=0.08)
        wide = max(point.x for point in points) > 10 * min(point.x for point in points)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if wide else MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_si(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("floating-point operations of the whole training", color=INK)
        axes.grid(color=FAINT, linewidth=0.8)
        _label_points(figure, axes, points, bars)
        _add_footnote(axes, results, "hollow: without attention to the source")
    return figure


def _measured_systems(results: ComparisonResults) -> list[tuple[int, SystemResult]]:
    """The systems that were measured, numbered as in the table."""
    return [(number, one) for number, one in enumerate(results.standings) if one.rows]


def _color_and_marker(number: int) -> tuple[str, str]:
    """Colour and marker; after twelve systems the pairs are new, not their parts."""
    again = number // len(COLOURS)
    return COLOURS[number % len(COLOURS)], MARKERS[(number + again) % len(MARKERS)]


def _new_axes(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.2, 4.6), facecolor="white")
    axes = figure.add_axes((0.09, 0.14, 0.74, 0.76))
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=16)
    axes.set_ylabel("BLEU", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", length=0, labelcolor=INK)
    axes.set_axisbelow(True)
    return figure, axes


def _add_footnote(axes: Axes, results: ComparisonResults, text: str) -> None:
    """Say what sets systems without attention apart, if there are any."""
    if not all(one.rows[0].attends for _, one in _measured_systems(results)):
        axes.text(0, 1.02, text, transform=axes.transAxes, fontsize=9, color=PALE)


def _label_line_ends(figure: Figure, axes: Axes, ends: Sequence[_LabelledPoint]) -> None:
    """Each line's name to the right of its end, moved apart where they would overlap."""
    # drawing settles where the ends lie
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    points_per_pixel = 72 / figure.dpi
    ordered = sorted(ends, key=lambda end: end.y)
    heights = [float(axes.transData.transform((end.x, end.y))[1]) for end in ordered]
    frame = axes.get_window_extent()
    moved = space_labels(
        heights,
        LINE_HEIGHT / points_per_pixel,
        low=frame.y0 + POINT_PADDING,
        high=frame.y1 + POINT_PADDING,
    )
    for end, height, place in zip(ordered, heights, moved, strict=True):
        _annotate(axes, end, (24, (place - height) * points_per_pixel), leader=True)


def space_labels(
    places: Sequence[float],
    distance: float,
    *,
    low: float = -math.inf,
    high: float = math.inf,
) -> list[float]:
    """Rising places, at least `distance` from each other, each as near as may be to where it was.

    Neighbours that are too close become a block around the mean of where they were, between `low`
    and `high` where it fits.
    """

    def middle(total: float, count: int) -> float:
        half = distance * (count - 1) / 2
        return max(low + half, min(high - half, total / count))

    blocks: list[tuple[float, int]] = []  # the sum of where its members were, and their number
    for place in places:
        total, count = place, 1
        while blocks:
            before, others = blocks[-1]
            if middle(total, count) - middle(before, others) >= distance * (others + count) / 2:
                break
            blocks.pop()
            total, count = total + before, count + others
        blocks.append((total, count))
    return [
        middle(total, count) + distance * (number - (count - 1) / 2)
        for total, count in blocks
        for number in range(count)
    ]


def _label_points(
    figure: Figure,
    axes: Axes,
    points: Sequence[_LabelledPoint],
    bars: Sequence[tuple[float, float, float]],
) -> None:
    """Each point's name beside it, where it covers the least of anything else."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    to_pixels = axes.transData.transform
    taken = [Bbox([to_pixels((x, low)), to_pixels((x, high))]) for x, low, high in bars]
    taken += [Bbox([to_pixels(point[:2])] * 2) for point in points]
    taken = [box.padded(POINT_PADDING) for box in taken]
    frame, names = axes.get_window_extent(), list[Bbox]()
    for point in sorted(points, key=lambda point: -point.y):
        costs = []
        for place in (*LABEL_OFFSETS, *FAR_LABEL_OFFSETS):
            text = _annotate(axes, point, place)
            with ignore_missing_glyphs():
                box = text.get_window_extent(renderer)
            text.remove()
            outside = box.width * box.height - _overlap(box, frame)
            covered = sum(_overlap(box, other) for other in taken)
            covered += 3 * sum(_overlap(box.padded(LABEL_GAP), other) for other in names)
            if place not in LABEL_OFFSETS:
                here = to_pixels(point[:2])
                line = Path([here, here + np.array(place) * figure.dpi / 72])
                others = [other for other in (*taken, *names) if not other.contains(*here)]
                covered += CROSSING_COST * sum(
                    line.intersects_bbox(one, filled=False) for one in others
                )
            costs.append((covered + 3 * outside + math.hypot(*place), place, box))
        _, place, box = min(costs, key=lambda cost: cost[0])
        _annotate(axes, point, place, leader=place not in LABEL_OFFSETS)
        names.append(box)


def _annotate(
    axes: Axes, point: _LabelledPoint, place: tuple[float, float], *, leader: bool = False
) -> Annotation:
    """The point's name, `place` points across and up from it; `led`: with a line between."""
    side = "center" if not place[0] else "left" if place[0] > 0 else "right"
    line = {
        "arrowstyle": "-",
        "color": point.colour,
        "linewidth": 0.6,
        "shrinkA": 1,
        "shrinkB": 5,
        "relpos": ({"left": 0, "right": 1, "center": 0.5}[side], 0.5),
    }
    text = axes.annotate(
        point.label,
        (point.x, point.y),
        xytext=place,
        textcoords="offset points",
        ha=side,
        va="center",
        annotation_clip=False,
        arrowprops=line if leader else None,
    )
    style_text(text, LABEL_POINTS, point.colour)
    return text


def _overlap(one: Bbox, other: Bbox) -> float:
    """The area that both cover, in pixels."""
    both = Bbox.intersection(one, other)
    return 0.0 if both is None else float(both.width * both.height)
