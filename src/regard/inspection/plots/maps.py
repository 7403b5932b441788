"""Attention as a figure, for a page or a paper: maps, and where all figures are written."""

import io
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from torch import Tensor

from regard.atomic_io import write_atomic
from regard.errors import SettingsError
from regard.inspection.plots.figure import ColourScale, FigureLayout
from regard.inspection.plots.fonts import DEFAULT_FONT, ignore_missing_glyphs, style_text
from regard.inspection.plots.theme import ThemeName, get_theme
from regard.inspection.plots.word_lines import describe_sinks, find_sink_weights, view_map
from regard.inspection.recording.attention_map import AttentionMaps

FORMATS = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""What can be written, and what is kept out of it so that the same figure is the same file."""
CELL_INCHES, LABELLED_CELL_INCHES, UNLABELLED_CELL_INCHES = 0.36, 0.17, 0.09
"""Inches that a weight takes in a single map, in a grid with names, in a grid without."""
MAX_LABELLED_WORDS = 14
"""The longest sentence whose words a grid still names."""
MAX_MAP_INCHES, MAX_GRID_MAP_INCHES = 40.0, 2.5
"""Inches that a map may take; the cells of longer sentences shrink."""


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
    """One map (T, S): what is looked at along the top, what looks down the side.

    Weights that mean nothing, where `parked` (T, S) is True, are grey. `notes` stand below.
    """
    size = len(rows), len(columns)
    if weights.shape != size or not weights.numel():
        raise ValueError(f"weights must be rows by columns, {size}, got {tuple(weights.shape)}")
    colours = get_theme(theme)
    cell = min(CELL_INCHES, MAX_MAP_INCHES / max(size))
    layout = FigureLayout(cell * len(columns), cell * len(rows), colours)
    axes = layout.place(0, 0, layout.width, layout.height)
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
    """The map of one layer and head; None stands for the average over layers or heads."""
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
    """Every head, from left to right, of every layer, from the top down, on one scale."""
    layers, heads, rows, columns = attention.layers.shape
    colours, labelled = get_theme(theme), max(rows, columns) <= MAX_LABELLED_WORDS
    cell = (
        LABELLED_CELL_INCHES
        if labelled
        else min(UNLABELLED_CELL_INCHES, MAX_GRID_MAP_INCHES / max(rows, columns))
    )
    width, height, gap = cell * columns, cell * rows, 0.12
    layout = FigureLayout(heads * (width + gap) - gap, layers * (height + gap) - gap, colours)
    scale, num_cells = (
        ColourScale(colours.sequential, float(attention.layers.max())),
        attention.layers.numel(),
    )
    grey = find_sink_weights(attention)
    for layer, head in product(range(layers), range(heads)):
        axes = layout.place(head * (width + gap), layer * (height + gap), width, height)
        weights = attention.layers[layer, head]
        layout.draw_heatmap(axes, weights, scale, grey=grey[layer, head], num_cells=num_cells)
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
    unnamed = (
        f"no words: {rows} by {columns} are too many to name, {MAX_LABELLED_WORDS} is the most; "
    )
    unnamed = "" if labelled else f"{unnamed}the map of one layer and head names them"
    note_text = "\n".join(filter(None, (unnamed, describe_sinks(grey, attention.columns.pieces))))
    below = layout.figure.text(0, -0.4 / layout.height, note_text, va="top", linespacing=1.4)
    style_text(below, 8, colours.muted)
    return layout.figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure as its name ends: .png, .svg (its words stay text) or .pdf.

    The same figure gives the same bytes.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise SettingsError(f"{path}: cannot draw {ending!r}; end the name in {', '.join(FORMATS)}")
    write_atomic(path, render_figure(figure, ending))


def render_figure(figure: Figure, ending: str) -> bytes:
    """What a file of the figure holds whose name has this ending, a key of `FORMATS`."""
    layout = io.BytesIO()
    with (
        matplotlib.rc_context(
            {"svg.fonttype": "none", "svg.hashsalt": "regard", "font.sans-serif": [DEFAULT_FONT]}
        ),
        ignore_missing_glyphs(),
    ):
        figure.savefig(
            layout,
            format=ending[1:],
            dpi=200,
            metadata=FORMATS[ending],
            bbox_inches="tight",
            pad_inches=0.1,
        )
    return layout.getvalue()
