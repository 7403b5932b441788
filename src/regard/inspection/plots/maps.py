"""Attention maps as figures: one map, all maps of a part, or the words each row attends to most."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard.inspection.attention_sinks import without_sinks
from regard.inspection.plots.figure import FRAME_WIDTH, InchFigure, ThemeName, weight_scale
from regard.inspection.plots.fonts import (
    baseline_offset,
    is_right_to_left,
    style_text,
    text_width,
    truncate_label,
)
from regard.inspection.recording.attention_map import AttentionMaps, Part
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES

MAX_DRAWN_WORDS = 120  # only the first words of longer sentences are drawn; the figure says so
MIN_DRAWN_WEIGHT = 0.03  # smaller weights are neither marked as sinks nor drawn as lines
BOUNDARY_PIECES = frozenset((SPECIAL_PIECES[BOS], SPECIAL_PIECES[EOS], "[CLS]", "[SEP]"))
MAX_NAMED_SINKS = 4

# Lengths are in inches, font sizes in points.
CELL_INCHES, LABELLED_CELL_INCHES, UNLABELLED_CELL_INCHES = 0.36, 0.17, 0.09
MAX_LABELLED_WORDS = 14  # of a grid
MAX_MAP_INCHES, MAX_GRID_MAP_INCHES = 40.0, 2.5
GRID_GAP = 0.12
FOCUS_CELL_WIDTH, FOCUS_ROW_HEIGHT, FOCUS_GAP = 0.13, 0.2, 0.12
FOCUS_FONT_SIZE, SMALL_FONT_SIZE = 9.5, 7.0
FOCUS_RULE_EVERY = 5  # rows
# Words named in a row of a focus plot: at most 3, until they sum to 0.8, none below 0.05.
MAX_TOP_WORDS, ENOUGH_SHARE, MIN_TOP_WORD_SHARE = 3, 0.8, 0.05


@dataclass(frozen=True, eq=False)
class MapView:
    """The part of one attention map that a figure shows."""

    part: Part
    weights: Tensor  # (T, S)
    is_sink: Tensor  # (T, S) True where a weight goes to an attention sink
    rows: tuple[str, ...]  # T names
    columns: tuple[str, ...]  # S names
    notes: tuple[str, ...]  # what was left out, and which columns are sinks
    title: str  # the part, layer and head, or what was averaged
    normalized: bool = True  # whether rows sum to 1; if not, some weights may be negative


def view_map(
    attention: AttentionMaps, layer: int | None = None, head: int | None = None
) -> MapView:
    """The map of one layer and head, cut to `MAX_DRAWN_WORDS`; None stands for the mean."""
    weights = attention.select(layer, head)
    if not weights.numel():
        raise ValueError(f"there is nothing to draw in weights of shape {tuple(weights.shape)}")
    is_sink = find_sink_weights(replace(attention, weights=weights[None, None]))
    notes = [describe_sinks(is_sink, attention.columns.pieces)]
    if (longest := max(weights.shape)) > MAX_DRAWN_WORDS:
        notes.insert(0, f"only the first {MAX_DRAWN_WORDS} of {longest} words are drawn")
    if attention.omitted:
        notes.insert(0, describe_omitted(attention))
    cut = slice(MAX_DRAWN_WORDS)
    return MapView(
        attention.part,
        weights[cut, cut],
        is_sink[0, 0, cut, cut],
        attention.rows.pieces[cut],
        attention.columns.pieces[cut],
        tuple(filter(None, notes)),
        describe_head(attention, layer, head),
        attention.normalized,
    )


def describe_omitted(attention: AttentionMaps) -> str:
    """A note on which words of a longer text are drawn."""
    count = len(attention.rows.pieces)
    return f"only the last {count} of {count + attention.omitted} words are drawn"


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
    """True where a weight goes mostly to a sink, or from a word to BOS or EOS: (L, H, T, S).

    Weights that are not a distribution have no sinks.
    """
    if not attention.normalized:
        return torch.zeros_like(attention.weights, dtype=torch.bool)
    rows, columns = attention.rows.pieces, attention.columns.pieces
    on_boundary = torch.tensor(
        [[end in BOUNDARY_PIECES and end != row for end in columns] for row in rows]
    )  # (T, S)
    on_sink = attention.weights > 2 * without_sinks(attention).weights  # (L, H, T, S)
    return (on_sink | on_boundary) & (attention.weights > MIN_DRAWN_WEIGHT)


def describe_sinks(is_sink: Tensor, columns: Sequence[str]) -> str:
    """The note that explains grey cells; empty if `is_sink` (…, S) has none."""
    has_sink = is_sink.reshape(-1, len(columns)).any(0)  # (S,)
    names = list(dict.fromkeys(truncate_label(columns[number]) for number in has_sink.nonzero()))
    if len(names) > MAX_NAMED_SINKS:
        names[MAX_NAMED_SINKS:] = ["…"]
    return f"grey: attention sinks ({', '.join(names)})" if names else ""


def plot_map(view: MapView, *, theme: ThemeName = "light") -> Figure:
    """A cell for each weight: attended words along the top, attending ones down the side."""
    rows, columns = view.weights.shape
    cell = min(CELL_INCHES, MAX_MAP_INCHES / max(rows, columns))
    figure = InchFigure(cell * columns, cell * rows, theme)
    axes = figure.add_panel(0, 0, figure.width, figure.height)
    scale = weight_scale(figure.theme, view.weights, normalized=view.normalized)
    figure.draw_heatmap(axes, view.weights, scale, grey=view.is_sink)
    figure.label_columns(axes, view.columns, 11 * cell / CELL_INCHES)
    figure.label_rows(axes, view.rows, 11 * cell / CELL_INCHES)
    figure.write_title(axes, view.title)
    figure.write_notes(axes, view.notes)
    figure.add_colourbar(scale, gap=0.2)
    return figure


def plot_grid(attention: AttentionMaps, *, theme: ThemeName = "light") -> Figure:
    """A map for each head, from left to right, of each layer, from the top down, on one scale."""
    layers, heads, rows, columns = attention.weights.shape
    labelled, cell = max(rows, columns) <= MAX_LABELLED_WORDS, LABELLED_CELL_INCHES
    if not labelled:
        cell = min(UNLABELLED_CELL_INCHES, MAX_GRID_MAP_INCHES / max(rows, columns))
    across, down = cell * columns + GRID_GAP, cell * rows + GRID_GAP
    figure = InchFigure(heads * across - GRID_GAP, layers * down - GRID_GAP, theme)
    muted = figure.theme.muted
    scale = weight_scale(figure.theme, attention.weights, normalized=attention.normalized)
    is_sink, num_cells = find_sink_weights(attention), attention.weights.numel()
    for layer, head in product(range(layers), range(heads)):
        axes = figure.add_panel(head * across, layer * down, cell * columns, cell * rows)
        weights, grey = attention.weights[layer, head], is_sink[layer, head]
        figure.draw_heatmap(axes, weights, scale, grey=grey, num_cells=num_cells)
        if labelled and layer == 0:
            figure.label_columns(axes, attention.columns.pieces, 7)
        if labelled and head == 0:
            figure.label_rows(axes, attention.rows.pieces, 7)
        if (layer, head) == (0, 0):
            figure.write_title(axes, f"{attention.part} attention, every layer and head")
        if layer == layers - 1:
            axes.set_xlabel(f"head {head}", fontsize=9, color=muted)
            axes.xaxis.set_label_position("bottom")
        if head == heads - 1:
            axes.set_ylabel(f"layer {layer}", fontsize=9, color=muted)
            axes.yaxis.set_label_position("right")
    figure.add_colourbar(scale, gap=0.5)
    note = describe_sinks(is_sink, attention.columns.pieces)
    if not labelled:
        too_many = f"no words: {rows} by {columns} are too many to name, {MAX_LABELLED_WORDS} is"
        note = f"{too_many} the most; the map of one layer and head names them\n{note}".rstrip()
    if attention.omitted:
        note = f"{describe_omitted(attention)}\n{note}".rstrip()
    below = figure.text(0, -0.4 / figure.height, note, va="top", linespacing=1.4)
    style_text(below, 8, muted)
    return figure


def plot_focus(view: MapView, *, theme: ThemeName = "light") -> Figure:
    """A line for each row: its weights, then the words with the largest, for long sentences.

    Shares leave out attention sinks and columns that are not drawn.
    """
    rows, columns = view.weights.shape
    figure = InchFigure(FOCUS_CELL_WIDTH * columns, FOCUS_ROW_HEIGHT * rows, theme)
    axes = figure.add_panel(0, 0, figure.width, figure.height)
    scale = weight_scale(figure.theme, view.weights, normalized=view.normalized)
    weights, is_sink, names = view.weights, view.is_sink, view.columns
    if is_right_to_left(names):
        weights, is_sink, names = weights.flip(-1), is_sink.flip(-1), names[::-1]
    figure.draw_heatmap(axes, weights, scale, grey=is_sink)
    axes.hlines(range(1, rows), 0, columns, color=figure.theme.background, linewidth=2.5)
    rules = range(FOCUS_RULE_EVERY, rows, FOCUS_RULE_EVERY)
    axes.hlines(rules, 0, columns, color=figure.theme.border, linewidth=FRAME_WIDTH)
    figure.label_rows(axes, view.rows, FOCUS_FONT_SIZE)
    figure.label_columns(axes, names, SMALL_FONT_SIZE, upright=True)
    for number, row in enumerate(view.weights.masked_fill(view.is_sink, 0)):
        _write_top_words(figure, axes, number, row, view.columns)
    figure.write_title(axes, view.title)
    figure.write_notes(axes, view.notes)
    return figure


def top_words(weights: Tensor) -> list[tuple[int, float]]:
    """The columns with the largest of a row's `weights` (S,), and their shares of its sum."""
    largest: list[tuple[int, float]] = []
    total, named = float(weights.sum()), 0.0
    for column in weights.argsort(descending=True, stable=True)[:MAX_TOP_WORDS].tolist():
        share = float(weights[column]) / total if total > 0 else 0.0
        if share < MIN_TOP_WORD_SHARE or named >= ENOUGH_SHARE:
            break
        largest.append((column, share))
        named += share
    return largest


def _write_top_words(
    figure: InchFigure, axes: Axes, number: int, row: Tensor, names: Sequence[str]
) -> None:
    """Write the words with a row's largest weights to its right, each with its share."""
    left, y = FOCUS_GAP, number + 0.5 + baseline_offset(FOCUS_FONT_SIZE) / FOCUS_ROW_HEIGHT
    place = axes.get_yaxis_transform()
    for column, share in top_words(row):
        for text, size, colour in (
            (truncate_label(names[column]), FOCUS_FONT_SIZE, figure.theme.foreground),
            (f"{share:.0%}", SMALL_FONT_SIZE, figure.theme.muted),
        ):
            x = 1 + left / figure.width
            figure.write(axes, x, y, text, size, color=colour, transform=place)
            left += text_width(text, size) + FOCUS_GAP / 2
        left += FOCUS_GAP / 2
