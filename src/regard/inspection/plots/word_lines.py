"""Lines of words, and as much of a sentence as a figure can hold."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from matplotlib.axes import Axes
from torch import Tensor

from regard.inspection.attention_sinks import without_sinks
from regard.inspection.plots.fonts import (
    POINTS_PER_INCH,
    baseline_offset,
    is_right_to_left,
    style_text,
    text_width,
    truncate_label,
)
from regard.inspection.plots.theme import Theme
from regard.inspection.recording.attention_map import AttentionMaps
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES

MAX_DRAWN_WORDS = 120
"""Of a sentence in one figure; of longer ones the beginning is drawn, and the figure says so."""
MIN_DRAWN_WEIGHT = 0.03
"""Weights up to this one are worth no look, and no line."""
BOUNDARY_PIECES = frozenset((SPECIAL_PIECES[BOS], SPECIAL_PIECES[EOS]))
"""Pieces that stand for no word."""
MAX_NAMED_SINKS = 4
"""Of the pieces that attention is parked on."""
FONT_SIZE = 11.0
"""Points that words are high."""
GAP = 0.14
"""Inches between words of a line."""
MAX_LINE_INCHES = 14.0
"""Inches; words of longer lines stand below each other."""
LINE_SPACING = 0.23
"""Inches from word to word where they stand below each other."""


@dataclass(frozen=True, eq=False)
class MapView:
    """What a figure shows of one map of attention."""

    weights: Tensor  # (T, S)
    is_sink: Tensor  # (T, S) where a weight means nothing
    rows: tuple[str, ...]  # T names
    columns: tuple[str, ...]  # S names
    notes: tuple[str, ...]
    """What was left out, and what means nothing, if anything does."""
    place: str
    """Whose attention it is: the part, layer and head, or what was averaged."""

    def title_and_notes(self, title: str) -> tuple[str, tuple[str, ...]]:
        """What stands above the figure and below it: where a title is given, the place is below."""
        return (title, (self.place, *self.notes)) if title else (self.place, self.notes)


@dataclass(frozen=True)
class WordLines:
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

    def point(self, along: float, across: float) -> tuple[float, float]:
        """So many inches along the lines and across them, as inches from the left and the top."""
        return (across, along) if self.down else (along, across)


def view_map(attention: AttentionMaps, layer: int | None, head: int | None) -> MapView:
    """One map of the attention, cut to what a figure can hold."""
    weights = attention.pick(layer, head)
    if not weights.numel():
        raise ValueError(f"there is nothing to draw in weights of shape {tuple(weights.shape)}")
    sides = attention.rows.pieces, attention.columns.pieces
    rows, columns = (side[:MAX_DRAWN_WORDS] for side in sides)
    cut = max(map(len, sides))
    note = (
        f"only the first {MAX_DRAWN_WORDS} of {cut} words are drawn"
        if cut > MAX_DRAWN_WORDS
        else ""
    )
    is_sink = find_sink_weights(replace(attention, layers=weights[None, None]))
    part = slice(len(rows)), slice(len(columns))
    notes = filter(None, (note, describe_sinks(is_sink, attention.columns.pieces)))
    place = describe_head(attention, layer, head)
    return MapView(weights[part], is_sink[0, 0][part], rows, columns, tuple(notes), place)


def describe_head(attention: AttentionMaps, layer: int | None, head: int | None) -> str:
    """`cross attention, layer 1, mean of 4 heads`: none stands for a mean, where there are more."""
    chosen, means = [f"{attention.part} attention"], []
    counts = attention.layers.shape[:2]
    for noun, number, count in zip(("layer", "head"), (layer, head), counts, strict=True):
        if number is not None:
            chosen.append(f"{noun} {number}")
        elif count > 1:
            means.append(f"{count} {noun}s")
    return ", ".join([*chosen, *([f"mean of {' and '.join(means)}"] if means else [])])


def find_sink_weights(attention: AttentionMaps) -> Tensor:
    """Where a weight that is worth a look is parked, or what stands for a word looks at an end.

    (L, H, T, S). A weight counts as parked if most of it is.
    """
    rows, columns = attention.rows.pieces, attention.columns.pieces
    on_boundary = torch.tensor(
        [[end in BOUNDARY_PIECES and end != row for end in columns] for row in rows]
    )  # (T, S)
    on_sink = attention.layers > 2 * without_sinks(attention).layers  # (L, H, T, S)
    return (on_sink | on_boundary) & (attention.layers > MIN_DRAWN_WEIGHT)


def describe_sinks(is_sink: Tensor, columns: Sequence[str]) -> str:
    """What is grey, where `rest` (…, S) is parked on some of the columns; or nothing."""
    names = dict.fromkeys(
        columns[number] for number in is_sink.reshape(-1, len(columns)).any(0).nonzero()
    )
    named = ", ".join(map(truncate_label, list(names)[:MAX_NAMED_SINKS])) + (
        ", …" if len(names) > MAX_NAMED_SINKS else ""
    )
    return f"grey: parked on {named}, and says nothing about words" if names else ""


def layout_word_lines(*sides: Sequence[str]) -> WordLines:
    """One or two lines of words across the page, or down the page.

    They run down it where they are too long, or where one is written from left to right and the
    other from right to left: across the page all that belongs together would lie far apart.
    """
    words = tuple(tuple(map(truncate_label, side)) for side in sides)
    widths = [[text_width(word, FONT_SIZE) for word in side] for side in words]
    right_to_left = [is_right_to_left(side) for side in words]
    across = max(sum(side) + GAP * (len(side) - 1) for side in widths)
    down = across > MAX_LINE_INCHES or len(set(right_to_left)) > 1
    extents = [[LINE_SPACING] * len(side) for side in widths] if down else widths
    length = max(map(sum, extents)) if down else across
    return WordLines(
        words,
        tuple(
            _word_centres(extent, length, reverse=reverse and not down)
            for extent, reverse in zip(extents, right_to_left, strict=True)
        ),
        length,
        tuple(max(side) for side in widths)
        if down
        else (FONT_SIZE / POINTS_PER_INCH,) * len(sides),
        down,
    )


def draw_word_line(axes: Axes, lines: WordLines, number: int, across: float, theme: Theme) -> None:
    """Write one of the lines, `across` inches from the edge; the ends are faint.

    The words of a first line end there, where it runs down the page, and those of a second begin.
    """
    align = ("right", "left")[number] if lines.down and len(lines.words) > 1 else "center"
    for word, place in zip(lines.words[number], lines.places[number], strict=True):
        x, y = lines.point(place, across)
        text = axes.text(x, y + baseline_offset(FONT_SIZE), word, ha=align, va="baseline")
        style_text(text, FONT_SIZE, theme.muted if word in BOUNDARY_PIECES else theme.foreground)


def _word_centres(extents: Sequence[float], length: float, *, reverse: bool) -> tuple[float, ...]:
    """The middles of words that take so many inches, evenly spread over `length` inches."""
    spare = length - sum(extents)
    gap = spare / max(len(extents) - 1, 1)
    x = spare / 2 if len(extents) == 1 else 0.0
    places = []
    for extent in extents:
        places.append(x + extent / 2)
        x += extent + gap
    return tuple(length - place for place in places) if reverse else tuple(places)
