"""Themes, layout and output of figures: PNG, SVG, PDF and notebook HTML."""

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal, get_args

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import QuadMesh
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from torch import Tensor

from regard.atomic_io import write_atomic
from regard.errors import SettingsError
from regard.inspection.plots.fonts import (
    DEFAULT_FONT,
    ignore_missing_glyphs,
    style_text,
    truncate_label,
)

ThemeName = Literal["light", "dark"]
ColourStop = tuple[float, str]

FORMATS = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""File formats, each with the metadata left out so that equal figures are equal files."""
MAX_VECTOR_CELLS = 10_000
"""Heat maps with more cells are rasterized in SVG and PDF files, to keep them small."""
NOTEBOOK_DPI = 100
FRAME_WIDTH = 0.4  # points
DARK_PAGE_SELECTORS = (
    'html[theme="dark"], [data-theme="dark"], [data-jp-theme-light="false"], .vscode-dark'
)
"""CSS selectors of dark pages: Colab, Sphinx, JupyterLab, VS Code."""
NOTEBOOK_CSS = f"""\
:is({DARK_PAGE_SELECTORS}) .regard-figure > .regard-light {{ display: none; }}
:is({DARK_PAGE_SELECTORS}) .regard-figure > .regard-dark {{ display: inline !important; }}
.regard-figure > img {{ max-width: 100%; }}
"""


@dataclass(frozen=True, eq=False)
class Theme:
    """The colours of a figure."""

    background: str
    foreground: str
    muted: str
    """Secondary text: numbers, captions, pruned hypotheses."""
    border: str
    accent: str
    """The best hypothesis, points and lines of charts."""
    sequential: Colormap
    """For weights; 0 is the background colour."""
    grey: Colormap
    """For weights on attention sinks; 0 is the background colour."""
    diverging: Colormap
    """For signed numbers; 0 is the background colour."""


def _sequential(name: str, *stops: ColourStop) -> Colormap:
    """Each stop stands at its Oklab lightness, so that lightness changes evenly along the map."""
    return LinearSegmentedColormap.from_list(name, stops)


def _diverging(name: str, low: Sequence[ColourStop], high: Sequence[ColourStop]) -> Colormap:
    """From the end of `low` through the colour that both begin with to the end of `high`."""
    left = [((1 - place) / 2, colour) for place, colour in reversed(low)]
    right = [((1 + place) / 2, colour) for place, colour in high[1:]]
    return LinearSegmentedColormap.from_list(name, [*left, *right])


_LIGHT_BLUE = [(0.0, "#ffffff"), (0.47, "#5ca0d4"), (1.0, "#08306b")]
_LIGHT_ORANGE = [(0.0, "#ffffff"), (0.42, "#e39a3b"), (1.0, "#6b3000")]
_DARK_BLUE = [(0.0, "#15181d"), (0.54, "#2f7fc4"), (1.0, "#bfe3ff")]
_DARK_ORANGE = [(0.0, "#15181d"), (0.57, "#b96f14"), (1.0, "#ffdcae")]
THEMES: dict[str, Theme] = {
    "light": Theme(
        background="#ffffff",
        foreground="#1b1f24",
        muted="#667079",
        border="#aab2ba",
        accent="#0b57a4",
        sequential=_sequential("regard-light", *_LIGHT_BLUE),
        grey=_sequential("regard-grey-light", (0, "#ffffff"), (1, "#5a6066")),
        diverging=_diverging("regard-diverging-light", _LIGHT_BLUE, _LIGHT_ORANGE),
    ),
    "dark": Theme(
        background="#15181d",
        foreground="#e8ebee",
        muted="#98a2ac",
        border="#4c555e",
        accent="#8fd0ff",
        sequential=_sequential(
            "regard-dark", (0, "#15181d"), (0.35, "#245e9c"), (0.69, "#67b3e7"), (1, "#f4fbe0")
        ),
        grey=_sequential("regard-grey-dark", (0, "#15181d"), (1, "#b4babf")),
        diverging=_diverging("regard-diverging-dark", _DARK_BLUE, _DARK_ORANGE),
    ),
}
assert set(THEMES) == set(get_args(ThemeName))


def get_theme(name: str) -> Theme:
    """The theme called `name`."""
    if name not in THEMES:
        raise SettingsError(f"theme: expected {' or '.join(THEMES)}, got {name!r}")
    return THEMES[name]


class ColourScale(ScalarMappable):
    """Maps numbers from `low` to `high` to colours; `high` <= `low` counts as `low` + 1."""

    def __init__(self, colours: Colormap, high: float, low: float = 0.0) -> None:
        self.colours, self.range = colours, Normalize(low, high if high > low else low + 1)
        super().__init__(norm=self.range, cmap=colours)


class NotebookFigure(Figure):
    """A figure that a notebook displays, without pyplot, which would display it a second time."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with ignore_missing_glyphs():
            self.savefig(buffer, format="png", dpi=NOTEBOOK_DPI, bbox_inches="tight")
        return buffer.getvalue()


class FigureLayout:
    """A figure laid out in inches. Labels may lie outside of it: saving adds the room for them."""

    def __init__(self, width: float, height: float, theme: Theme) -> None:
        self.width, self.height, self.theme = width, height, theme
        self.figure = NotebookFigure(figsize=(width, height), facecolor=theme.background)

    def add_axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes at a distance in inches from the left and from the top."""
        bottom = self.height - top - height
        across, up = self.width, self.height
        axes = self.figure.add_axes((left / across, bottom / up, width / across, height / up))
        axes.set_facecolor(self.theme.background)
        axes.tick_params(colors=self.theme.muted)
        for spine in axes.spines.values():
            spine.set(linewidth=FRAME_WIDTH, edgecolor=self.theme.border)
        return axes

    def canvas(self) -> Axes:
        """Invisible axes over the whole figure, in inches from the left and the top."""
        axes = self.add_axes(0, 0, self.width, self.height)
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.set_axis_off()
        return axes

    def add_colourbar(self, colours: ScalarMappable, *, gap: float, label: str = "") -> None:
        """Add a colour bar, `gap` inches to the right of the figure."""
        axes = self.add_axes(self.width + gap, 0, 0.12, min(self.height, 2.0))
        bar = self.figure.colorbar(colours, cax=axes)
        bar.outline.set(linewidth=FRAME_WIDTH, edgecolor=self.theme.border)
        axes.tick_params(length=0, labelsize=8, colors=self.theme.muted)
        if label:
            style_text(bar.ax.set_title(label, loc="left", pad=6), 8, self.theme.muted)

    def draw_heatmap(
        self,
        axes: Axes,
        numbers: Tensor,
        scale: ColourScale,
        *,
        grey: Tensor | None = None,
        num_cells: int | None = None,
        gaps: bool = True,
    ) -> QuadMesh:
        """The cells of a map (T, S), the first row on top; `num_cells` are those of all its maps.

        Cells where `grey` (T, S) is True are drawn in grey. Without `gaps` between the cells the
        map is rasterized.
        """
        gaps = gaps and (num_cells or numbers.numel()) <= MAX_VECTOR_CELLS
        style: dict[str, Any] = {
            "norm": scale.range,
            "edgecolors": self.theme.background,
            "linewidth": 0.5 if gaps else 0,
            "rasterized": not gaps,
        }
        values = numbers.detach().float().cpu().numpy()
        cells = axes.pcolormesh(values, cmap=scale.colours, **style)
        if grey is not None and grey.any():
            hidden = np.ma.masked_where(~grey.numpy(), values)
            axes.pcolormesh(hidden, cmap=self.theme.grey, **style)
        axes.invert_yaxis()
        axes.set(xticks=[], yticks=[])
        return cells

    def write_title(self, axes: Axes, title: str, *, above: float = 12) -> None:
        """Write a title `above` points over the axes."""
        if title:
            style_text(axes.set_title(title, loc="left", pad=above), 12, self.theme.foreground)

    def write_notes(self, axes: Axes, *notes: str) -> None:
        """Write a line for each note below the axes."""
        axes.xaxis.set_label_position("bottom")
        label = axes.set_xlabel(
            "\n".join(filter(None, notes)), loc="left", labelpad=8, linespacing=1.4
        )
        style_text(label, 8, self.theme.muted)

    def label_axes(self, axes: Axes, across: str = "", down: str = "") -> None:
        """Name the two directions of axes."""
        style_text(axes.set_xlabel(across, labelpad=3), 8, self.theme.muted)
        style_text(axes.set_ylabel(down, labelpad=3), 8, self.theme.muted)
        axes.tick_params(length=2, width=FRAME_WIDTH, labelsize=7)

    def label_columns(
        self, axes: Axes, names: Sequence[str], *, fontsize: float, upright: bool = False
    ) -> None:
        """Write names above the columns of a map, slanted or `upright`."""
        axes.xaxis.tick_top()
        axes.set_xticks([place + 0.5 for place in range(len(names))], map(truncate_label, names))
        for label in axes.get_xticklabels():
            if upright:
                label.set(rotation=90, va="bottom", ha="center")
            else:
                label.set(rotation=45, rotation_mode="anchor", ha="left", va="center")
            style_text(label, fontsize, self.theme.foreground)
        axes.tick_params(axis="x", length=0, pad=3 if upright else 5)

    def label_rows(self, axes: Axes, names: Sequence[str], *, fontsize: float) -> None:
        """Write names to the left of the rows of a map."""
        axes.set_yticks([place + 0.5 for place in range(len(names))], map(truncate_label, names))
        for label in axes.get_yticklabels():
            style_text(label, fontsize, self.theme.foreground)
        axes.tick_params(axis="y", length=0, pad=5)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as .png, .svg (with words as text) or .pdf; equal figures are equal files."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise SettingsError(f"{path}: cannot draw {ending!r}; end the name in {', '.join(FORMATS)}")
    write_atomic(path, render_figure(figure, ending))


def render_figure(figure: Figure, ending: str) -> bytes:
    """The content of a figure's file; `ending` is a key of `FORMATS`."""
    buffer = io.BytesIO()
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "regard"}
    style["font.sans-serif"] = [DEFAULT_FONT]
    with matplotlib.rc_context(style), ignore_missing_glyphs():
        figure.savefig(
            buffer,
            format=ending[1:],
            dpi=200,
            metadata=FORMATS[ending],
            bbox_inches="tight",
            pad_inches=0.1,
        )
    return buffer.getvalue()


def notebook_html(draw: Callable[[ThemeName], Figure], *, alt: str) -> str:
    """HTML with the figure in both themes, of which a style sheet shows the page's own.

    A page that drops style sheets shows the light one. `alt` is the text alternative.
    """
    light, dark = (
        f'class="regard-{theme}" alt="{escape(alt)}" src="{_data_uri(draw(theme))}"'
        for theme in get_args(ThemeName)
    )
    return (
        f'<div class="regard-figure"><style>{NOTEBOOK_CSS}</style>'
        f"<img {light}><img {dark} hidden></div>"
    )


def _data_uri(figure: Figure) -> str:
    content = base64.b64encode(render_figure(figure, ".svg")).decode("ascii")
    return f"data:image/svg+xml;base64,{content}"
