"""Lines of words, and as much of a sentence as a figure can hold."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from matplotlib.axes import Axes
from torch import Tensor

from regard.inspection.plot_letters import POINTS, drop, runs_leftwards, shorten, width_of, write
from regard.inspection.plot_theme import Theme
from regard.inspection.record import Attention
from regard.inspection.sinks import without_sinks
from regard.text.special import BOS, EOS, SPECIAL_PIECES

WORDS_AT_MOST = 120
"""Of a sentence in one figure; of longer ones the beginning is drawn, and the figure says so."""
FAINTEST = 0.03
"""Weights up to this one are worth no look, and no line."""
ENDS = frozenset((SPECIAL_PIECES[BOS], SPECIAL_PIECES[EOS]))
"""Pieces that stand for no word."""
NAMED = 4
"""Of the pieces that attention is parked on."""
FONT = 11.0
"""Points that words are high."""
GAP = 0.14
"""Inches between words of a line."""
LINE_AT_MOST = 14.0
"""Inches; words of longer lines stand below each other."""
LEADING = 0.23
"""Inches from word to word where they stand below each other."""


@dataclass(frozen=True, eq=False)
class Shown:
    """What a figure shows of one map of attention."""

    weights: Tensor  # (T, S)
    parked: Tensor  # (T, S) where a weight means nothing
    rows: tuple[str, ...]  # T names
    columns: tuple[str, ...]  # S names
    notes: tuple[str, ...]
    """What was left out, and what means nothing, if anything does."""
    place: str
    """Whose attention it is: the part, layer and head, or what was averaged."""

    def entitled(self, title: str) -> tuple[str, tuple[str, ...]]:
        """What stands above the figure and below it: where a title is given, the place is below."""
        return (title, (self.place, *self.notes)) if title else (self.place, self.notes)


@dataclass(frozen=True)
class Lines:
    """Where the words of one or two lines stand."""

    words: tuple[tuple[str, ...], ...]
    places: tuple[tuple[float, ...], ...]
    """For each word the inches from the beginning of its line to the word's middle."""
    length: float
    """Inches of the longest line, over which all are spread."""
    depths: tuple[float, ...]
    """Inches that the words of a line take across it."""
    down: bool
    """Whether the lines run down the page, and not across it."""

    def spot(self, along: float, across: float) -> tuple[float, float]:
        """So many inches along the lines and across them, as inches from the left and the top."""
        return (across, along) if self.down else (along, across)


def show(attention: Attention, layer: int | None, head: int | None) -> Shown:
    """One map of the attention, cut to what a figure can hold."""
    weights = attention.pick(layer, head)
    if not weights.numel():
        raise ValueError(f"there is nothing to draw in weights of shape {tuple(weights.shape)}")
    sides = attention.rows.pieces, attention.columns.pieces
    rows, columns = (side[:WORDS_AT_MOST] for side in sides)
    cut = max(map(len, sides))
    note = f"only the first {WORDS_AT_MOST} of {cut} words are drawn" if cut > WORDS_AT_MOST else ""
    rest = find_parked(replace(attention, layers=weights[None, None]))
    part = slice(len(rows)), slice(len(columns))
    notes = filter(None, (note, say_parked(rest, attention.columns.pieces)))
    place = name_place(attention, layer, head)
    return Shown(weights[part], rest[0, 0][part], rows, columns, tuple(notes), place)


def name_place(attention: Attention, layer: int | None, head: int | None) -> str:
    """`cross attention, layer 1, mean of 4 heads`: none stands for a mean, where there are more."""
    chosen, means = [f"{attention.part} attention"], []
    counts = attention.layers.shape[:2]
    for noun, number, count in zip(("layer", "head"), (layer, head), counts, strict=True):
        if number is not None:
            chosen.append(f"{noun} {number}")
        elif count > 1:
            means.append(f"{count} {noun}s")
    return ", ".join([*chosen, *([f"mean of {' and '.join(means)}"] if means else [])])


def find_parked(attention: Attention) -> Tensor:
    """Where a weight that is worth a look is parked, or what stands for a word looks at an end.

    (L, H, T, S). A weight counts as parked if most of it is.
    """
    rows, columns = attention.rows.pieces, attention.columns.pieces
    idle = torch.tensor([[end in ENDS and end != row for end in columns] for row in rows])  # (T, S)
    sunk = attention.layers > 2 * without_sinks(attention).layers  # (L, H, T, S)
    return (sunk | idle) & (attention.layers > FAINTEST)


def say_parked(rest: Tensor, columns: Sequence[str]) -> str:
    """What is grey, where `rest` (…, S) is parked on some of the columns; or nothing."""
    names = dict.fromkeys(
        columns[number] for number in rest.reshape(-1, len(columns)).any(0).nonzero()
    )
    named = ", ".join(map(shorten, list(names)[:NAMED])) + (", …" if len(names) > NAMED else "")
    return f"grey: parked on {named}, and says nothing about words" if names else ""


def set_lines(*sides: Sequence[str]) -> Lines:
    """One or two lines of words across the page, or down the page.

    They run down it where they are too long, or where one is written from left to right and the
    other from right to left: across the page all that belongs together would lie far apart.
    """
    words = tuple(tuple(map(shorten, side)) for side in sides)
    widths = [[width_of(word, FONT) for word in side] for side in words]
    leftwards = [runs_leftwards(side) for side in words]
    across = max(sum(side) + GAP * (len(side) - 1) for side in widths)
    down = across > LINE_AT_MOST or len(set(leftwards)) > 1
    takes = [[LEADING] * len(side) for side in widths] if down else widths
    length = max(map(sum, takes)) if down else across
    return Lines(
        words,
        tuple(
            _places(take, length, backwards=backwards and not down)
            for take, backwards in zip(takes, leftwards, strict=True)
        ),
        length,
        tuple(max(side) for side in widths) if down else (FONT / POINTS,) * len(sides),
        down,
    )


def write_words(axes: Axes, lines: Lines, number: int, across: float, theme: Theme) -> None:
    """Write one of the lines, `across` inches from the edge; the ends are faint.

    The words of a first line end there, where it runs down the page, and those of a second begin.
    """
    align = ("right", "left")[number] if lines.down and len(lines.words) > 1 else "center"
    for word, place in zip(lines.words[number], lines.places[number], strict=True):
        x, y = lines.spot(place, across)
        text = axes.text(x, y + drop(FONT), word, ha=align, va="baseline")
        write(text, FONT, theme.faint if word in ENDS else theme.ink)


def _places(takes: Sequence[float], length: float, *, backwards: bool) -> tuple[float, ...]:
    """The middles of words that take so many inches, evenly spread over `length` inches."""
    spare = length - sum(takes)
    gap = spare / max(len(takes) - 1, 1)
    x = spare / 2 if len(takes) == 1 else 0.0
    places = []
    for take in takes:
        places.append(x + take / 2)
        x += take + gap
    return tuple(length - place for place in places) if backwards else tuple(places)
