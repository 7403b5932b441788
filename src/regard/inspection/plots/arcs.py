"""Attention as lines between words: the wider and stronger in colour, the more is looked at."""

import math
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, PathPatch
from matplotlib.path import Path

from regard.inspection.plots.figure import FigureLayout
from regard.inspection.plots.fonts import style_text
from regard.inspection.plots.theme import Theme, ThemeName, get_theme
from regard.inspection.plots.word_lines import (
    MIN_DRAWN_WEIGHT,
    MapView,
    WordLines,
    draw_word_line,
    layout_word_lines,
    view_map,
)
from regard.inspection.recording.attention_map import AttentionMaps

MIN_CURVE_WIDTH, MAX_CURVE_WIDTH = 0.4, 6.0
"""Points of the lines of a weight of 0 and of 1."""
LONG_SENTENCE, MAX_LINES_PER_WORD = 25, 3
"""Of a sentence of more words than this, so many lines of each word at most are drawn."""
MAX_SINK_LINE_WIDTH = 2.0
"""Points of the line of a weight of 1 that means nothing."""
DOT_RADIUS = 0.065
"""Inches from the middle of a dot of weight 1 to its edge."""
SPACE = 0.08
"""Inches between words and lines."""
CURVE = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]


Point = tuple[float, float]
"""Inches along a line of words and across it, or from the left and the top."""
Colour = tuple[float, float, float, float]


class DrawnWeight(NamedTuple):
    """A weight to be drawn as a line."""

    informative: bool
    """Whether it means something, rather than being parked."""
    weight: float
    row: int
    column: int


def plot_arcs(
    attention: AttentionMaps,
    *,
    layer: int | None = None,
    head: int | None = None,
    title: str = "",
    theme: ThemeName = "light",
) -> Figure:
    """Lines between the words of one layer and head; None stands for the average.

    Of cross attention the sentence stands above and its translation below. Self-attention has one
    line of words, with arcs above it to what a word looks back at, arcs below it to what lies
    ahead, and dots for what it gives itself. Long lines run down the page, and so do two that are
    written in opposite directions; above is then on the left.
    """
    view = view_map(attention, layer, head)
    if attention.part == "cross":
        return _plot_cross(view, title, get_theme(theme))
    return _plot_self(view, title, get_theme(theme))


def _plot_cross(view: MapView, title: str, theme: Theme) -> Figure:
    """Two lines of words, what is looked at first."""
    lines = layout_word_lines(view.columns, view.rows)
    first, last = lines.depths
    near = first + SPACE
    far = near + (min(1.0 + 0.15 * lines.length, 3.2) if lines.down else 1.0 + 0.1 * lines.length)
    layout = FigureLayout(*lines.point(lines.length, far + SPACE + last), theme)
    axes = layout.canvas()
    for link in _drawn_weights(view):
        x, y = lines.places[0][link.column], lines.places[1][link.row]
        middle = (near + far) / 2
        control_points = [(x, near), (x, middle), (y, middle), (y, far)]
        _draw_curve(axes, lines, control_points, link, theme)
    draw_word_line(axes, lines, 0, first if lines.down else first / 2, theme)
    draw_word_line(axes, lines, 1, far + SPACE + (0 if lines.down else last / 2), theme)
    title, notes = view.title_and_notes(title)
    layout.write_title(axes, title)
    _write_legend(layout, axes, view, *notes)
    return layout.figure


def _plot_self(view: MapView, title: str, theme: Theme) -> Figure:
    """One line of words, with arcs to both sides of it."""
    words, shift = _merged_words(view)
    lines = layout_word_lines(words)
    [places], [depth] = lines.places, lines.depths
    arcs = [(link, link.row + shift) for link in _drawn_weights(view)]
    back = _max_arc_height(
        [places[at] - places[link.column] for link, at in arcs if link.column <= at]
    )
    ahead = _max_arc_height(
        [places[at] - places[link.column] for link, at in arcs if link.column > at]
    )
    bases = back, back + depth + 2 * SPACE
    layout = FigureLayout(*lines.point(lines.length, bases[1] + ahead), theme)
    axes = layout.canvas()
    for link, at in arcs:
        x, y = places[at], places[link.column]
        if at == link.column:
            where = lines.point(x, bases[0] - DOT_RADIUS)
            radius = DOT_RADIUS * math.sqrt(link.weight)
            axes.add_patch(
                Circle(where, radius, color=_line_colour(link, theme), lw=0, clip_on=False)
            )
            continue
        forward = link.column > at
        base, height = bases[forward], _arc_height(x - y) * (1 if forward else -1)
        control = base + height * 4 / 3  # a cubic curve reaches three quarters of the way to it
        control_points = [(x, base), (x, control), (y, control), (y, base)]
        _draw_curve(axes, lines, control_points, link, theme)
    draw_word_line(axes, lines, 0, bases[0] + SPACE + depth / 2, theme)
    title, notes = view.title_and_notes(title)
    layout.write_title(axes, title)
    sides = ("left", "right") if lines.down else ("above", "below")
    notes_shown = f"{sides[0]}: looking back; {sides[1]}: looking ahead; dots: at itself"
    _write_legend(layout, axes, view, notes_shown if ahead else "", *notes)
    return layout.figure


def _merged_words(view: MapView) -> tuple[tuple[str, ...], int]:
    """The words that look and are looked at, and how far a row stands behind its number.

    A decoder answers at each row the piece that stands one column further on.
    """
    if view.rows == view.columns:
        return view.columns, 0
    return (*view.columns, *view.rows[len(view.columns) - 1 :]), 1


def _drawn_weights(view: MapView) -> list[DrawnWeight]:
    """What is worth a line, the strongest last, so that they are drawn on top of what is parked.

    Of a word of a long sentence only its strongest lines are: hundreds would hide each other.
    """
    weights, is_sink = view.weights, view.is_sink
    seen = weights > MIN_DRAWN_WEIGHT
    if _is_long(view):
        ranks = weights.argsort(descending=True, stable=True).argsort()  # (T, S) from 0 on
        seen &= ranks < MAX_LINES_PER_WORD
    places = seen.nonzero().tolist()
    return sorted(
        DrawnWeight(not is_sink[row, column], float(weights[row, column]), row, column)
        for row, column in places
    )


def _draw_curve(
    axes: Axes, lines: WordLines, control_points: list[Point], link: DrawnWeight, theme: Theme
) -> None:
    """Draw a curve; thin and broken where it means nothing."""
    widest = MAX_CURVE_WIDTH if link.informative else MAX_SINK_LINE_WIDTH
    patch = PathPatch(
        Path([lines.point(*point) for point in control_points], CURVE),
        facecolor="none",
        edgecolor=_line_colour(link, theme),
        linewidth=MIN_CURVE_WIDTH + (widest - MIN_CURVE_WIDTH) * link.weight,
        linestyle="solid" if link.informative else (0, (3, 2)),
        capstyle="butt",
        clip_on=False,
    )
    axes.add_patch(patch)


def _line_colour(link: DrawnWeight, theme: Theme) -> Colour:
    return (theme.sequential if link.informative else theme.grey)(link.weight)


def _arc_height(distance: float) -> float:
    """Inches that an arc over so many inches is high: near ones flat, far ones not too high."""
    return min(0.14 + 0.3 * math.pow(abs(distance), 0.8), 2.2)


def _max_arc_height(distances: list[float]) -> float:
    """Inches that arcs over such distances need."""
    return max(map(_arc_height, distances), default=0.0)


def _is_long(view: MapView) -> bool:
    return max(view.weights.shape) > LONG_SENTENCE


def _write_legend(layout: FigureLayout, axes: Axes, view: MapView, *notes: str) -> None:
    """Say below the figure what is left out."""
    limit_note = f"lines: the {MAX_LINES_PER_WORD} strongest of each word" if _is_long(view) else ""
    notes_shown = [
        note for note in (*notes, limit_note, f"no line: {MIN_DRAWN_WEIGHT:.0%} or less") if note
    ]
    text = axes.text(0, layout.height + 0.14, "\n".join(notes_shown), va="top", ha="left")
    style_text(text, 8, layout.theme.muted)
