"""Attention as lines between words: the wider and stronger in colour, the more is looked at."""

import math
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, PathPatch
from matplotlib.path import Path

from regard.inspection.plot_letters import write
from regard.inspection.plot_sheet import Sheet
from regard.inspection.plot_theme import Theme, ThemeName, theme_of
from regard.inspection.plot_words import FAINTEST, Lines, Shown, set_lines, show, write_words
from regard.inspection.record import Attention

THINNEST, WIDEST = 0.4, 6.0
"""Points of the lines of a weight of 0 and of 1."""
LONG_SENTENCE, MAX_LINES_PER_WORD = 25, 3
"""Of a sentence of more words than this, so many lines of each word at most are drawn."""
IDLE = 2.0
"""Points of the line of a weight of 1 that means nothing."""
DOT = 0.065
"""Inches from the middle of a dot of weight 1 to its edge."""
SPACE = 0.08
"""Inches between words and lines."""
CURVE = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]


Spot = tuple[float, float]
"""Inches along a line of words and across it, or from the left and the top."""
Colour = tuple[float, float, float, float]


class Link(NamedTuple):
    """A weight to be drawn as a line."""

    meant: bool
    """Whether it means something, rather than being parked."""
    weight: float
    row: int
    column: int


def plot_arcs(
    attention: Attention,
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
    shown = show(attention, layer, head)
    if attention.part == "cross":
        return _between(shown, title, theme_of(theme))
    return _within(shown, title, theme_of(theme))


def _between(shown: Shown, title: str, theme: Theme) -> Figure:
    """Two lines of words, what is looked at first."""
    lines = set_lines(shown.columns, shown.rows)
    first, last = lines.depths
    near = first + SPACE
    far = near + (min(1.0 + 0.15 * lines.length, 3.2) if lines.down else 1.0 + 0.1 * lines.length)
    sheet = Sheet(*lines.spot(lines.length, far + SPACE + last), theme)
    axes = sheet.canvas()
    for link in _links(shown):
        x, y = lines.places[0][link.column], lines.places[1][link.row]
        middle = (near + far) / 2
        course = [(x, near), (x, middle), (y, middle), (y, far)]
        _stroke(axes, lines, course, link, theme)
    write_words(axes, lines, 0, first if lines.down else first / 2, theme)
    write_words(axes, lines, 1, far + SPACE + (0 if lines.down else last / 2), theme)
    title, notes = shown.entitled(title)
    sheet.entitle(axes, title)
    _explain(sheet, axes, shown, *notes)
    return sheet.figure


def _within(shown: Shown, title: str, theme: Theme) -> Figure:
    """One line of words, with arcs to both sides of it."""
    words, shift = _one_line(shown)
    lines = set_lines(words)
    [places], [depth] = lines.places, lines.depths
    arcs = [(link, link.row + shift) for link in _links(shown)]
    back = _highest([places[at] - places[link.column] for link, at in arcs if link.column <= at])
    ahead = _highest([places[at] - places[link.column] for link, at in arcs if link.column > at])
    bases = back, back + depth + 2 * SPACE
    sheet = Sheet(*lines.spot(lines.length, bases[1] + ahead), theme)
    axes = sheet.canvas()
    for link, at in arcs:
        x, y = places[at], places[link.column]
        if at == link.column:
            where = lines.spot(x, bases[0] - DOT)
            radius = DOT * math.sqrt(link.weight)
            axes.add_patch(Circle(where, radius, color=_colour(link, theme), lw=0, clip_on=False))
            continue
        forward = link.column > at
        base, height = bases[forward], _height(x - y) * (1 if forward else -1)
        control = base + height * 4 / 3  # a cubic curve reaches three quarters of the way to it
        course = [(x, base), (x, control), (y, control), (y, base)]
        _stroke(axes, lines, course, link, theme)
    write_words(axes, lines, 0, bases[0] + SPACE + depth / 2, theme)
    title, notes = shown.entitled(title)
    sheet.entitle(axes, title)
    sides = ("left", "right") if lines.down else ("above", "below")
    told = f"{sides[0]}: looking back; {sides[1]}: looking ahead; dots: at itself"
    _explain(sheet, axes, shown, told if ahead else "", *notes)
    return sheet.figure


def _one_line(shown: Shown) -> tuple[tuple[str, ...], int]:
    """The words that look and are looked at, and how far a row stands behind its number.

    A decoder answers at each row the piece that stands one column further on.
    """
    if shown.rows == shown.columns:
        return shown.columns, 0
    return (*shown.columns, *shown.rows[len(shown.columns) - 1 :]), 1


def _links(shown: Shown) -> list[Link]:
    """What is worth a line, the strongest last, so that they are drawn on top of what is parked.

    Of a word of a long sentence only its strongest lines are: hundreds would hide each other.
    """
    weights, rest = shown.weights, shown.parked
    seen = weights > FAINTEST
    if _is_long(shown):
        ranks = weights.argsort(descending=True, stable=True).argsort()  # (T, S) from 0 on
        seen &= ranks < MAX_LINES_PER_WORD
    places = seen.nonzero().tolist()
    return sorted(
        Link(not rest[row, column], float(weights[row, column]), row, column)
        for row, column in places
    )


def _stroke(axes: Axes, lines: Lines, course: list[Spot], link: Link, theme: Theme) -> None:
    """Draw a curve; thin and broken where it means nothing."""
    widest = WIDEST if link.meant else IDLE
    patch = PathPatch(
        Path([lines.spot(*spot) for spot in course], CURVE),
        facecolor="none",
        edgecolor=_colour(link, theme),
        linewidth=THINNEST + (widest - THINNEST) * link.weight,
        linestyle="solid" if link.meant else (0, (3, 2)),
        capstyle="butt",
        clip_on=False,
    )
    axes.add_patch(patch)


def _colour(link: Link, theme: Theme) -> Colour:
    return (theme.ramp if link.meant else theme.grey)(link.weight)


def _height(distance: float) -> float:
    """Inches that an arc over so many inches is high: near ones flat, far ones not too high."""
    return min(0.14 + 0.3 * math.pow(abs(distance), 0.8), 2.2)


def _highest(distances: list[float]) -> float:
    """Inches that arcs over such distances need."""
    return max(map(_height, distances), default=0.0)


def _is_long(shown: Shown) -> bool:
    return max(shown.weights.shape) > LONG_SENTENCE


def _explain(sheet: Sheet, axes: Axes, shown: Shown, *notes: str) -> None:
    """Say below the figure what is left out."""
    few = f"lines: the {MAX_LINES_PER_WORD} strongest of each word" if _is_long(shown) else ""
    told = [note for note in (*notes, few, f"no line: {FAINTEST:.0%} or less") if note]
    text = axes.text(0, sheet.height + 0.14, "\n".join(told), va="top", ha="left")
    write(text, 8, sheet.theme.faint)
