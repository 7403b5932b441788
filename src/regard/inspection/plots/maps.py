"""Attention maps as figures: one map, all maps of a part, or the words each row attends to most."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard.inspection.attention_sinks import without_sinks
from regard.inspection.plots.figure import (
    FRAME_WIDTH,
    ColourScale,
    FigureLayout,
    ThemeName,
    get_theme,
)
from regard.inspection.plots.fonts import (
    baseline_offset,
    is_right_to_left,
    style_text,
    text_width,
    truncate_label,
)
from regard.inspection.recording.attention_map import AttentionMaps
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES

MAX_DRAWN_WORDS = 120
"""Only the first words of longer sentences are drawn; the figure says so."""
MIN_DRAWN_WEIGHT = 0.03
"""Smaller weights are neither marked as sinks nor drawn as lines."""
BOUNDARY_PIECES = frozenset((SPECIAL_PIECES[BOS], SPECIAL_PIECES[EOS]))
MAX_NAMED_SINKS = 4

# Lengths are in inches, font sizes in points.
CELL_INCHES, LABELLED_CELL_INCHES, UNLABELLED_CELL_INCHES = 0.36, 0.17, 0.09
MAX_LABELLED_WORDS = 14  # of a grid
MAX_MAP_INCHES, MAX_GRID_MAP_INCHES = 40.0, 2.5
GRID_GAP = 0.12
FOCUS_CELL_WIDTH, FOCUS_ROW_HEIGHT, FOCUS_GAP = 0.13, 0.2, 0.12
FOCUS_FONT_SIZE, SMALL_FONT_SIZE = 9.5, 7.0
FOCUS_RULE_EVERY = 5  # rows
MAX_TOP_WORDS, ENOUGH_SHARE, MIN_TOP_WORD_SHARE = 3, 0.8, 0.05
"""A row of a focus plot names at most this many words, until their shares sum to the second number,
and none with a share below the third."""


@dataclass(frozen=True, eq=False)
class MapView:
    """The part of one attention map that a figure shows."""

    weights: Tensor  # (T, S)
    is_sink: Tensor  # (T, S) True where a weight goes to an attention sink
    rows: tuple[str, ...]  # T names
    columns: tuple[str, ...]  # S names
    notes: tuple[str, ...]
    """What was left out, and which columns are sinks."""
    place: str
    """The part, layer and head, or what was averaged."""

    def title_and_notes(self, title: str) -> tuple[str, tuple[str, ...]]:
        """The text above and below a figure; without a title the place is the title."""
        return (title, (self.place, *self.notes)) if title else (self.place, self.notes)


def view_map(attention: AttentionMaps, layer: int | None, head: int | None) -> MapView:
    """One map of the attention, cut to `MAX_DRAWN_WORDS` rows and columns."""
    weights = attention.select(layer, head)
    if not weights.numel():
        raise ValueError(f"there is nothing to draw in weights of shape {tuple(weights.shape)}")
    is_sink = find_sink_weights(replace(attention, weights=weights[None, None]))
    notes = [describe_sinks(is_sink, attention.columns.pieces)]
    if (longest := max(weights.shape)) > MAX_DRAWN_WORDS:
        notes.insert(0, f"only the first {MAX_DRAWN_WORDS} of {longest} words are drawn")
    cut = slice(MAX_DRAWN_WORDS)
    return MapView(
        weights[cut, cut],
        is_sink[0, 0, cut, cut],
        attention.rows.pieces[cut],
        attention.columns.pieces[cut],
        tuple(filter(None, notes)),
        describe_head(attention, layer, head),
    )


def describe_head(attention: AttentionMaps, layer: int | None, head: int | None) -> str:
    """For example `cross attention, layer 1, mean of 4 heads`; None stands for the mean."""
    chosen, means = [f"{attention.part} attention"], []
    counts = attention.weights.shape[:2]
    for noun, number, count in zip(("layer", "head"), (layer, head), counts, strict=True):
        if number is not None:
            chosen.append(f"{noun} {number}")
        elif count > 1:
            means.append(f"{count} {noun}s")
    return ", ".join([*chosen, *([f"mean of {' and '.join(means)}"] if means else [])])


def find_sink_weights(attention: AttentionMaps) -> Tensor:
    """True where a weight goes mostly to a sink, or from a word to BOS or EOS: (L, H, T, S)."""
    rows, columns = attention.rows.pieces, attention.columns.pieces
    on_boundary = torch.tensor(
        [[end in BOUNDARY_PIECES and end != row for end in columns] for row in rows]
    )  # (T, S)
    on_sink = attention.weights > 2 * without_sinks(attention).weights  # (L, H, T, S)
    return (on_sink | on_boundary) & (attention.weights > MIN_DRAWN_WEIGHT)


def describe_sinks(is_sink: Tensor, columns: Sequence[str]) -> str:
    """The note that explains grey cells, where `is_sink` (…, S) has any; else empty."""
    has_sink = is_sink.reshape(-1, len(columns)).any(0)  # (S,)
    names = list(dict.fromkeys(truncate_label(columns[number]) for number in has_sink.nonzero()))
    if len(names) > MAX_NAMED_SINKS:
        names[MAX_NAMED_SINKS:] = ["…"]
    return f"grey: attention sinks ({', '.join(names)})" if names else ""


def plot_map(
    weights: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    is_sink: Tensor | None = None,
    notes: Sequence[str] = (),
    title: str = "",
    theme: ThemeName = "light",
) -> Figure:
    """One map (T, S): the attended words along the top, the attending ones down the side.

    Weights are grey where `is_sink` (T, S) is True. `notes` are written below.
    """
    size = len(rows), len(columns)
    if weights.shape != size or not weights.numel():
        raise ValueError(f"weights must be rows by columns, {size}, got {tuple(weights.shape)}")
    colours = get_theme(theme)
    cell = min(CELL_INCHES, MAX_MAP_INCHES / max(size))
    layout = FigureLayout(cell * len(columns), cell * len(rows), colours)
    axes = layout.add_axes(0, 0, layout.width, layout.height)
    scale = ColourScale(colours.sequential, float(weights.max()))
    layout.draw_heatmap(axes, weights, scale, grey=is_sink)
    layout.label_columns(axes, columns, fontsize=11 * cell / CELL_INCHES)
    layout.label_rows(axes, rows, fontsize=11 * cell / CELL_INCHES)
    layout.write_title(axes, title)
    layout.write_notes(axes, *notes)
    layout.add_colourbar(scale, gap=0.2)
    return layout.figure


def plot_attention(
    attention: AttentionMaps,
    *,
    layer: int | None = None,
    head: int | None = None,
    title: str = "",
    theme: ThemeName = "light",
) -> Figure:
    """The map of one layer and head; None stands for the mean over layers or heads."""
    view = view_map(attention, layer, head)
    title, notes = view.title_and_notes(title)
    return plot_map(
        view.weights,
        view.rows,
        view.columns,
        is_sink=view.is_sink,
        notes=notes,
        title=title,
        theme=theme,
    )


def plot_grid(attention: AttentionMaps, *, title: str = "", theme: ThemeName = "light") -> Figure:
    """A map for each head, from left to right, of each layer, from the top down, on one scale."""
    layers, heads, rows, columns = attention.weights.shape
    colours, labelled = get_theme(theme), max(rows, columns) <= MAX_LABELLED_WORDS
    cell = LABELLED_CELL_INCHES
    if not labelled:
        cell = min(UNLABELLED_CELL_INCHES, MAX_GRID_MAP_INCHES / max(rows, columns))
    across, down = cell * columns + GRID_GAP, cell * rows + GRID_GAP
    layout = FigureLayout(heads * across - GRID_GAP, layers * down - GRID_GAP, colours)
    scale = ColourScale(colours.sequential, float(attention.weights.max()))
    is_sink, num_cells = find_sink_weights(attention), attention.weights.numel()
    for layer, head in product(range(layers), range(heads)):
        axes = layout.add_axes(head * across, layer * down, cell * columns, cell * rows)
        weights, grey = attention.weights[layer, head], is_sink[layer, head]
        layout.draw_heatmap(axes, weights, scale, grey=grey, num_cells=num_cells)
        if labelled and layer == 0:
            layout.label_columns(axes, attention.columns.pieces, fontsize=7)
        if labelled and head == 0:
            layout.label_rows(axes, attention.rows.pieces, fontsize=7)
        if (layer, head) == (0, 0):
            layout.write_title(axes, title or f"{attention.part} attention, every layer and head")
        if layer == layers - 1:
            axes.set_xlabel(f"head {head}", fontsize=9, color=colours.muted)
            axes.xaxis.set_label_position("bottom")
        if head == heads - 1:
            axes.set_ylabel(f"layer {layer}", fontsize=9, color=colours.muted)
            axes.yaxis.set_label_position("right")
    layout.add_colourbar(scale, gap=0.5)
    notes = [describe_sinks(is_sink, attention.columns.pieces)]
    if not labelled:
        notes.insert(
            0,
            f"no words: {rows} by {columns} are too many to name, {MAX_LABELLED_WORDS} is the "
            "most; the map of one layer and head names them",
        )
    text = "\n".join(filter(None, notes))
    below = layout.figure.text(0, -0.4 / layout.height, text, va="top", linespacing=1.4)
    style_text(below, 8, colours.muted)
    return layout.figure


class TopWord(NamedTuple):
    """A column with one of the largest weights of a row."""

    column: int
    share: float
    """Its weight, as a share of the row's sum."""


def plot_focus(
    attention: AttentionMaps,
    *,
    layer: int | None = None,
    head: int | None = None,
    title: str = "",
    theme: ThemeName = "light",
) -> Figure:
    """A line for each row: its weights, then the words with the largest, for long sentences.

    None stands for the mean over layers or heads. Shares leave out attention sinks and columns that
    are not drawn.
    """
    view, colours = view_map(attention, layer, head), get_theme(theme)
    rows, columns = len(view.rows), len(view.columns)
    layout = FigureLayout(FOCUS_CELL_WIDTH * columns, FOCUS_ROW_HEIGHT * rows, colours)
    axes = layout.add_axes(0, 0, layout.width, layout.height)
    scale = ColourScale(colours.sequential, float(view.weights.max()))
    weights, is_sink, names = view.weights, view.is_sink, view.columns
    if is_right_to_left(names):
        weights, is_sink, names = weights.flip(-1), is_sink.flip(-1), names[::-1]
    layout.draw_heatmap(axes, weights, scale, grey=is_sink)
    axes.hlines(range(1, rows), 0, columns, color=colours.background, linewidth=2.5)
    rules = range(FOCUS_RULE_EVERY, rows, FOCUS_RULE_EVERY)
    axes.hlines(rules, 0, columns, color=colours.border, linewidth=FRAME_WIDTH)
    layout.label_rows(axes, view.rows, fontsize=FOCUS_FONT_SIZE)
    layout.label_columns(axes, names, fontsize=SMALL_FONT_SIZE, upright=True)
    for number, row in enumerate(view.weights.masked_fill(view.is_sink, 0)):
        _write_top_words(layout, axes, number, row, view)
    title, notes = view.title_and_notes(title)
    layout.write_title(axes, title)
    layout.write_notes(axes, *notes)
    return layout.figure


def top_words(weights: Tensor) -> list[TopWord]:
    """The columns with the largest of a row's `weights` (S,), the largest first."""
    total = float(weights.sum())
    largest: list[TopWord] = []
    if total <= 0:
        return largest
    for column in weights.argsort(descending=True, stable=True)[:MAX_TOP_WORDS].tolist():
        share = float(weights[column]) / total
        if share < MIN_TOP_WORD_SHARE or sum(word.share for word in largest) >= ENOUGH_SHARE:
            break
        largest.append(TopWord(column, share))
    return largest


def _write_top_words(
    layout: FigureLayout, axes: Axes, number: int, row: Tensor, view: MapView
) -> None:
    """Write the words with a row's largest weights to its right, each with its share."""
    left, y = FOCUS_GAP, number + 0.5 + baseline_offset(FOCUS_FONT_SIZE) / FOCUS_ROW_HEIGHT
    for column, share in top_words(row):
        for text, fontsize, colour in (
            (truncate_label(view.columns[column]), FOCUS_FONT_SIZE, layout.theme.foreground),
            (f"{share:.0%}", SMALL_FONT_SIZE, layout.theme.muted),
        ):
            x = 1 + left / layout.width
            drawn = axes.text(x, y, text, transform=axes.get_yaxis_transform())
            style_text(drawn, fontsize, colour)
            left += text_width(text, fontsize) + FOCUS_GAP / 2
        left += FOCUS_GAP / 2
