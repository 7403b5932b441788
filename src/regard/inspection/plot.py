"""A map of attention as a figure, for a page or a paper."""

import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.text import Text
from torch import Tensor

from regard.errors import SettingsError
from regard.files import write_whole
from regard.inspection.record import Attention

COLOURS = "Blues"
"""White where nothing is looked at; ever darker with the weight, whatever colours the eye sees."""
FALLBACK_FONTS = (
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans JP",
    "Noto Sans SC",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Noto Emoji",
    "Source Han Sans",
    "WenQuanYi Micro Hei",
    "Hiragino Sans",
    "PingFang SC",
    "Arial Unicode MS",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Segoe UI Emoji",
)
"""Asked in this order for the letters that matplotlib's own font does not have."""
FORMATS = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""What can be written, and what is kept out of it so that the same figure is the same file."""
CELL, SMALL, TINY = 0.36, 0.17, 0.09
"""Inches that a weight takes in a single map, in a grid with names, in a grid without."""
NAMED = 14
"""The longest sentence whose words a grid still names."""
LONGEST, LONGEST_IN_GRID = 40.0, 2.5
"""Inches that a map may take; the cells of longer sentences shrink."""
FRAME = {"linewidth": 0.4, "edgecolor": "0.6"}
VECTORS = 10_000
"""More cells than these are written into .svg and .pdf as pixels, to keep the file small."""


def plot_map(
    weights: Tensor, rows: Sequence[str], columns: Sequence[str], *, title: str = ""
) -> Figure:
    """One map (T, S): what is looked at along the top, what looks down the side."""
    size = len(rows), len(columns)
    if weights.shape != size or not weights.numel():
        raise ValueError(f"weights must be rows by columns, {size}, got {tuple(weights.shape)}")
    cell = min(CELL, LONGEST / max(size))
    sheet = _Sheet(width=cell * len(columns), height=cell * len(rows))
    axes = sheet.place(0, 0, sheet.width, sheet.height)
    cells = _draw(axes, weights, peak=float(weights.max()), num_cells=weights.numel())
    _name_columns(axes, columns, fontsize=11 * cell / CELL)
    _name_rows(axes, rows, fontsize=11 * cell / CELL)
    _entitle(axes, title)
    sheet.add_scale(cells, gap=0.2)
    return sheet.figure


def plot_attention(
    attention: Attention, *, layer: int | None = None, head: int | None = None, title: str = ""
) -> Figure:
    """The map of one layer and head; None stands for the average over layers or heads."""
    weights = attention.pick(layer, head)
    return plot_map(weights, attention.rows.pieces, attention.columns.pieces, title=title)


def plot_grid(attention: Attention, *, title: str = "") -> Figure:
    """Every head, from left to right, of every layer, from the top down, on one scale."""
    layers, heads, rows, columns = attention.layers.shape
    named = max(rows, columns) <= NAMED
    cell = SMALL if named else min(TINY, LONGEST_IN_GRID / max(rows, columns))
    width, height, gap = cell * columns, cell * rows, 0.12
    sheet = _Sheet(width=heads * (width + gap) - gap, height=layers * (height + gap) - gap)
    peak, num_cells = float(attention.layers.max()), attention.layers.numel()
    for layer, head in product(range(layers), range(heads)):
        axes = sheet.place(head * (width + gap), layer * (height + gap), width, height)
        cells = _draw(axes, attention.layers[layer, head], peak=peak, num_cells=num_cells)
        if named and layer == 0:
            _name_columns(axes, attention.columns.pieces, fontsize=7)
        if named and head == 0:
            _name_rows(axes, attention.rows.pieces, fontsize=7)
        if (layer, head) == (0, 0):
            _entitle(axes, title)
        if layer == layers - 1:
            axes.set_xlabel(f"head {head}", fontsize=9)
            axes.xaxis.set_label_position("bottom")
        if head == heads - 1:
            axes.set_ylabel(f"layer {layer}", fontsize=9)
            axes.yaxis.set_label_position("right")
    sheet.add_scale(cells, gap=0.5)
    return sheet.figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure as its name ends: .png, .svg (its words stay text) or .pdf.

    The same figure gives the same bytes.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise SettingsError(f"{path}: cannot draw {ending!r}; end the name in {', '.join(FORMATS)}")
    with (
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "regard"}),
        _missing_letters_allowed(),
    ):
        picture = io.BytesIO()
        figure.savefig(
            picture,
            format=ending[1:],
            dpi=200,
            metadata=FORMATS[ending],
            bbox_inches="tight",
            pad_inches=0.1,
        )
    write_whole(path, picture.getvalue())


class _Sheet:
    """A figure laid out in inches. Names stand outside it; saving makes room for them."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height), facecolor="white")

    def place(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes at so many inches from the left and from the top."""
        bottom = self.height - top - height
        across, up = self.width, self.height
        return self.figure.add_axes((left / across, bottom / up, width / across, height / up))

    def add_scale(self, cells: QuadMesh, *, gap: float) -> None:
        """What the colours mean, to the right of everything."""
        height = min(self.height, 2.0)
        axes = self.place(self.width + gap, self.height - height, 0.12, height)
        bar = self.figure.colorbar(cells, cax=axes)
        bar.outline.set(**FRAME)
        axes.tick_params(length=0, labelsize=8)


def _draw(axes: Axes, weights: Tensor, *, peak: float, num_cells: int) -> QuadMesh:
    """The cells of a map, with the first row on top; `num_cells` counts those of the figure."""
    cells = axes.pcolormesh(
        weights.detach().float().cpu().numpy(),
        cmap=COLOURS,
        vmin=0,
        vmax=peak or 1,
        edgecolors="white",
        linewidth=0.5 if num_cells <= VECTORS else 0,
        rasterized=num_cells > VECTORS,
    )
    axes.invert_yaxis()
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(**FRAME)
    return cells


def _entitle(axes: Axes, title: str) -> None:
    if title:
        _style([axes.set_title(title, loc="left", pad=12)], fontsize=12)


def _name_columns(axes: Axes, names: Sequence[str], *, fontsize: float) -> None:
    axes.xaxis.tick_top()
    axes.set_xticks([place + 0.5 for place in range(len(names))], names)
    for label in axes.get_xticklabels():
        label.set(rotation=45, rotation_mode="anchor", ha="left", va="center")
    _style(axes.get_xticklabels(), fontsize)
    axes.tick_params(axis="x", length=0, pad=5)


def _name_rows(axes: Axes, names: Sequence[str], *, fontsize: float) -> None:
    axes.set_yticks([place + 0.5 for place in range(len(names))], names)
    _style(axes.get_yticklabels(), fontsize)
    axes.tick_params(axis="y", length=0, pad=5)


def _style(texts: Iterable[Text], fontsize: float) -> None:
    """Write the texts in whatever script they are, and never as formulas."""
    for text in texts:
        text.set(fontfamily=_fonts(), fontsize=fontsize, parse_math=False)


@cache
def _fonts() -> list[str]:
    """Matplotlib's own font, then those of the fallbacks that are installed."""
    installed = set(fontManager.get_font_names())
    return ["DejaVu Sans", *(name for name in FALLBACK_FONTS if name in installed)]


@contextmanager
def _missing_letters_allowed() -> Iterator[None]:
    """Where no font has a letter a box stands for it: no reason to fail, or to warn each time."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from font", UserWarning)
        yield
