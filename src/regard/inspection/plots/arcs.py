"""Attention as curves between words; a wider and stronger curve is a larger weight."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import Circle

from regard.inspection.plots.figure import InchFigure, Point, Theme, ThemeName
from regard.inspection.plots.fonts import (
    POINTS_PER_INCH,
    baseline_offset,
    is_right_to_left,
    text_width,
    truncate_label,
)
from regard.inspection.plots.maps import BOUNDARY_PIECES, MIN_DRAWN_WEIGHT, MapView

LONG_SENTENCE, MAX_CURVES_PER_WORD = 25, 3  # rows of longer maps show only their largest weights

# Lengths are in inches, curve widths and font sizes in points.
MIN_CURVE_WIDTH, MAX_CURVE_WIDTH, MAX_SINK_CURVE_WIDTH = 0.4, 6.0, 2.0
DOT_RADIUS = 0.065
SPACE = 0.08  # between words and curves
FONT_SIZE, WORD_GAP = 11.0, 0.14
MAX_LINE_INCHES = 14.0  # longer lines run down the page
LINE_SPACING = 0.23  # of words below each other


@dataclass(frozen=True)
class WordLines:
    """The positions of the words of one or two lines."""

    words: tuple[tuple[str, ...], ...]
    places: tuple[tuple[float, ...], ...]  # inches from a line's start to each word's middle
    length: float  # inches of the longest line, over which all are spread
    depths: tuple[float, ...]  # inches that the words of a line take across it
    down: bool  # whether the lines run down the page instead of across it

    def point(self, along: float, across: float) -> Point:
        """Inches along the lines and across them, as inches from the left and the top."""
        return (across, along) if self.down else (along, across)


def layout_word_lines(*sides: Sequence[str]) -> WordLines:
    """Lay out one or two lines of words across the page; down the page if they are too long, or if
    only one is written from right to left, as the first words would be at opposite ends.
    """
    words = tuple(tuple(map(truncate_label, side)) for side in sides)
    widths = [[text_width(word, FONT_SIZE) for word in side] for side in words]
    right_to_left = [is_right_to_left(side) for side in words]
    length = max(sum(side) + WORD_GAP * (len(side) - 1) for side in widths)
    depths = [FONT_SIZE / POINTS_PER_INCH] * len(sides)
    down = length > MAX_LINE_INCHES or len(set(right_to_left)) > 1
    if down:
        depths = [max(side) for side in widths]
        widths = [[LINE_SPACING] * len(side) for side in widths]
        length = max(map(sum, widths))
    places = (
        _word_centres(extents, length, reverse=reverse and not down)
        for extents, reverse in zip(widths, right_to_left, strict=True)
    )
    return WordLines(words, tuple(places), length, tuple(depths), down)


def _word_centres(extents: Sequence[float], length: float, *, reverse: bool) -> tuple[float, ...]:
    """The middles of words of these extents, evenly spread over `length` inches."""
    spare = length - sum(extents)
    gap = spare / max(len(extents) - 1, 1)
    x = spare / 2 if len(extents) == 1 else 0.0
    places = []
    for extent in extents:
        places.append(x + extent / 2)
        x += extent + gap
    return tuple(length - place for place in places) if reverse else tuple(places)


class DrawnWeight(NamedTuple):
    """A weight to be drawn as a curve."""

    informative: bool  # whether it is not on an attention sink
    weight: float
    row: int
    column: int

    def colour(self, theme: Theme) -> tuple[float, float, float, float]:
        return (theme.sequential if self.informative else theme.grey)(self.weight)


def plot_arcs(view: MapView, *, theme: ThemeName = "light") -> Figure:
    """Curves between words; cross attention has the source above the translation.

    Self-attention has one line of words, with arcs above it to earlier words, below it to later
    ones, and dots for a word's weight on itself. If lines run down the page, left replaces above.
    """
    figure, sides = (_draw_cross if view.part == "cross" else _draw_self)(view, theme)
    figure.write_title(figure.overlay, view.title)
    limit = f"lines: the {MAX_CURVES_PER_WORD} strongest of each word" if _is_long(view) else ""
    legend = (sides, *view.notes, limit, f"no line: {MIN_DRAWN_WEIGHT:.0%} or less")
    text = "\n".join(filter(None, legend))
    figure.write(figure.overlay, 0, figure.height + 0.14, text, va="top", ha="left")
    return figure


def _draw_cross(view: MapView, theme: ThemeName) -> tuple[InchFigure, str]:
    """Two lines of words, the columns of the map first."""
    lines = layout_word_lines(view.columns, view.rows)
    first, last = lines.depths
    near = first + SPACE
    far = near + (min(1.0 + 0.15 * lines.length, 3.2) if lines.down else 1.0 + 0.1 * lines.length)
    figure = InchFigure(*lines.point(lines.length, far + SPACE + last), theme)
    middle = (near + far) / 2
    for link in _drawn_weights(view):
        x, y = lines.places[0][link.column], lines.places[1][link.row]
        points = [(x, near), (x, middle), (y, middle), (y, far)]
        _draw_curve(figure, lines, points, link)
    _write_words(figure, lines, 0, first if lines.down else first / 2)
    _write_words(figure, lines, 1, far + SPACE + (0 if lines.down else last / 2))
    return figure, ""


def _draw_self(view: MapView, theme: ThemeName) -> tuple[InchFigure, str]:
    """One line of words with arcs to both sides of it, and the legend of the two sides."""
    words, shift = view.columns, 0
    if view.rows != view.columns:  # row t of a decoder is named by the piece of column t + 1
        words, shift = (*view.columns, *view.rows[len(view.columns) - 1 :]), 1
    lines = layout_word_lines(words)
    [places], [depth] = lines.places, lines.depths
    heights = {False: 0.0, True: 0.0}  # of the highest arc: back, ahead
    arcs = [
        (link, link.row + shift, link.column > link.row + shift) for link in _drawn_weights(view)
    ]
    for link, at, ahead in arcs:
        height = _arc_height(places[at] - places[link.column])
        heights[ahead] = max(heights[ahead], height)
    bases = heights[False], heights[False] + depth + 2 * SPACE
    figure = InchFigure(*lines.point(lines.length, bases[1] + heights[True]), theme)
    for link, at, ahead in arcs:
        x, y, base = places[at], places[link.column], bases[ahead]
        if at == link.column:
            centre, radius = lines.point(x, base - DOT_RADIUS), DOT_RADIUS * math.sqrt(link.weight)
            colour = link.colour(figure.theme)
            figure.overlay.add_patch(Circle(centre, radius, color=colour, lw=0, clip_on=False))
            continue
        # a cubic Bézier curve reaches three quarters of the height of its control points
        control = base + _arc_height(x - y) * (1 if ahead else -1) * 4 / 3
        points = [(x, base), (x, control), (y, control), (y, base)]
        _draw_curve(figure, lines, points, link)
    _write_words(figure, lines, 0, bases[0] + SPACE + depth / 2)
    before, after = ("left", "right") if lines.down else ("above", "below")
    sides = f"{before}: looking back; {after}: looking ahead; dots: at itself"
    return figure, sides if heights[True] else ""


def _drawn_weights(view: MapView) -> list[DrawnWeight]:
    """The weights to draw, the last on top: those on sinks, then by size.

    For long sentences, only the largest of each row: hundreds of curves would hide each other.
    """
    weights = view.weights
    is_drawn = weights > MIN_DRAWN_WEIGHT
    if _is_long(view):
        ranks = weights.argsort(descending=True, stable=True).argsort()  # (T, S) from 0 on
        is_drawn &= ranks < MAX_CURVES_PER_WORD
    return sorted(
        DrawnWeight(not view.is_sink[row, column], float(weights[row, column]), row, column)
        for row, column in is_drawn.nonzero().tolist()
    )


def _draw_curve(
    figure: InchFigure, lines: WordLines, points: Sequence[Point], link: DrawnWeight
) -> None:
    """Draw a Bézier curve, dashed if the weight is on an attention sink."""
    widest, dashes = (MAX_CURVE_WIDTH, None) if link.informative else (MAX_SINK_CURVE_WIDTH, (3, 2))
    width = MIN_CURVE_WIDTH + (widest - MIN_CURVE_WIDTH) * link.weight
    curve = [lines.point(*point) for point in points]
    figure.draw_curve(curve, link.colour(figure.theme), width, dashes)


def _write_words(figure: InchFigure, lines: WordLines, number: int, across: float) -> None:
    """Write one of the lines, `across` inches from the edge; BOS and EOS are muted.

    If two lines run down the page, the first is aligned right and the second left.
    """
    align = ("right", "left")[number] if lines.down and len(lines.words) > 1 else "center"
    for word, place in zip(lines.words[number], lines.places[number], strict=True):
        x, y = lines.point(place, across)
        colour = figure.theme.muted if word in BOUNDARY_PIECES else figure.theme.foreground
        style = {"ha": align, "va": "baseline", "color": colour}
        figure.write(figure.overlay, x, y + baseline_offset(FONT_SIZE), word, FONT_SIZE, **style)


def _arc_height(distance: float) -> float:
    """The height in inches of an arc over a distance in inches; it grows more slowly than this."""
    return min(0.14 + 0.3 * math.pow(abs(distance), 0.8), 2.2)


def _is_long(view: MapView) -> bool:
    return max(view.weights.shape) > LONG_SENTENCE
