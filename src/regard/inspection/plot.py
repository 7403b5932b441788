"""Attention as a figure, for a page or a paper: maps, and where all figures are written."""

import io
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from torch import Tensor

from regard.errors import SettingsError
from regard.files import write_whole
from regard.inspection.plot_letters import FIRST, missing_letters_allowed, write
from regard.inspection.plot_sheet import Scale, Sheet
from regard.inspection.plot_theme import ThemeName, theme_of
from regard.inspection.plot_words import find_parked, say_parked, show
from regard.inspection.record import Attention

FORMATS = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""What can be written, and what is kept out of it so that the same figure is the same file."""
CELL, SMALL, TINY = 0.36, 0.17, 0.09
"""Inches that a weight takes in a single map, in a grid with names, in a grid without."""
NAMED = 14
"""The longest sentence whose words a grid still names."""
LONGEST, LONGEST_IN_GRID = 40.0, 2.5
"""Inches that a map may take; the cells of longer sentences shrink."""


def plot_map(
    weights: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    parked: Tensor | None = None,
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
    colours = theme_of(theme)
    cell = min(CELL, LONGEST / max(size))
    sheet = Sheet(cell * len(columns), cell * len(rows), colours)
    axes = sheet.place(0, 0, sheet.width, sheet.height)
    scale = Scale(colours.ramp, float(weights.max()))
    sheet.draw_cells(axes, weights, scale, grey=parked)
    sheet.name_columns(axes, columns, fontsize=11 * cell / CELL)
    sheet.name_rows(axes, rows, fontsize=11 * cell / CELL)
    sheet.entitle(axes, title)
    sheet.remark(axes, *notes)
    sheet.add_scale(scale, gap=0.2)
    return sheet.figure


def plot_attention(
    attention: Attention,
    *,
    layer: int | None = None,
    head: int | None = None,
    title: str = "",
    theme: ThemeName = "light",
) -> Figure:
    """The map of one layer and head; None stands for the average over layers or heads."""
    shown = show(attention, layer, head)
    title, notes = shown.entitled(title)
    return plot_map(
        shown.weights,
        shown.rows,
        shown.columns,
        parked=shown.parked,
        notes=notes,
        title=title,
        theme=theme,
    )


def plot_grid(attention: Attention, *, title: str = "", theme: ThemeName = "light") -> Figure:
    """Every head, from left to right, of every layer, from the top down, on one scale."""
    layers, heads, rows, columns = attention.layers.shape
    colours, named = theme_of(theme), max(rows, columns) <= NAMED
    cell = SMALL if named else min(TINY, LONGEST_IN_GRID / max(rows, columns))
    width, height, gap = cell * columns, cell * rows, 0.12
    sheet = Sheet(heads * (width + gap) - gap, layers * (height + gap) - gap, colours)
    scale, num_cells = Scale(colours.ramp, float(attention.layers.max())), attention.layers.numel()
    grey = find_parked(attention)
    for layer, head in product(range(layers), range(heads)):
        axes = sheet.place(head * (width + gap), layer * (height + gap), width, height)
        weights = attention.layers[layer, head]
        sheet.draw_cells(axes, weights, scale, grey=grey[layer, head], num_cells=num_cells)
        if named and layer == 0:
            sheet.name_columns(axes, attention.columns.pieces, fontsize=7)
        if named and head == 0:
            sheet.name_rows(axes, attention.rows.pieces, fontsize=7)
        if (layer, head) == (0, 0):
            sheet.entitle(axes, title or f"{attention.part} attention, every layer and head")
        if layer == layers - 1:
            axes.set_xlabel(f"head {head}", fontsize=9, color=colours.faint)
            axes.xaxis.set_label_position("bottom")
        if head == heads - 1:
            axes.set_ylabel(f"layer {layer}", fontsize=9, color=colours.faint)
            axes.yaxis.set_label_position("right")
    sheet.add_scale(scale, gap=0.5)
    unnamed = f"no words: {rows} by {columns} are too many to name, {NAMED} is the most; "
    unnamed = "" if named else f"{unnamed}the map of one layer and head names them"
    told = "\n".join(filter(None, (unnamed, say_parked(grey, attention.columns.pieces))))
    below = sheet.figure.text(0, -0.4 / sheet.height, told, va="top", linespacing=1.4)
    write(below, 8, colours.faint)
    return sheet.figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure as its name ends: .png, .svg (its words stay text) or .pdf.

    The same figure gives the same bytes.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise SettingsError(f"{path}: cannot draw {ending!r}; end the name in {', '.join(FORMATS)}")
    write_whole(path, picture(figure, ending))


def picture(figure: Figure, ending: str) -> bytes:
    """What a file of the figure holds whose name has this ending, a key of `FORMATS`."""
    sheet = io.BytesIO()
    with (
        matplotlib.rc_context(
            {"svg.fonttype": "none", "svg.hashsalt": "regard", "font.sans-serif": [FIRST]}
        ),
        missing_letters_allowed(),
    ):
        figure.savefig(
            sheet,
            format=ending[1:],
            dpi=200,
            metadata=FORMATS[ending],
            bbox_inches="tight",
            pad_inches=0.1,
        )
    return sheet.getvalue()
