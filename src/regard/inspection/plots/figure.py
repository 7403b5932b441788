"""Themes, layout and output of figures: PNG, SVG, PDF and notebook HTML."""

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Literal, get_args

import matplotlib
import matplotlib.path as mpath
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.text import Text
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
Point = tuple[float, float]

FORMATS = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""File formats, each with the metadata left out so that equal figures are equal files."""
MAX_VECTOR_CELLS = 10_000  # larger heat maps are rasterized in SVG and PDF files
FILE_DPI, NOTEBOOK_DPI = 200, 100
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
    """The colours of a figure. The number 0 has the background colour in all colour maps."""

    background: str
    foreground: str
    muted: str  # secondary text: numbers, captions, pruned hypotheses
    border: str
    accent: str  # the best hypothesis, points and lines of charts
    sequential: Colormap  # for weights
    grey: Colormap  # for weights on attention sinks
    diverging: Colormap  # for signed numbers


def _colours(name: str, *stops: ColourStop) -> Colormap:
    """A colour map with each stop at its Oklab lightness, so that lightness changes evenly."""
    return LinearSegmentedColormap.from_list(name, stops)


def _diverging(name: str, low: Sequence[ColourStop], high: Sequence[ColourStop]) -> Colormap:
    """A map from the end of `low` through their common first colour to the end of `high`."""
    left = [((1 - place) / 2, colour) for place, colour in reversed(low)]
    return _colours(name, *left, *(((1 + place) / 2, colour) for place, colour in high[1:]))


_LIGHT_BLUE = [(0.0, "#ffffff"), (0.47, "#5ca0d4"), (1.0, "#08306b")]
_LIGHT_ORANGE = [(0.0, "#ffffff"), (0.42, "#e39a3b"), (1.0, "#6b3000")]
_DARK_BLUE = [(0.0, "#15181d"), (0.54, "#2f7fc4"), (1.0, "#bfe3ff")]
_DARK_ORANGE = [(0.0, "#15181d"), (0.57, "#b96f14"), (1.0, "#ffdcae")]
_DARK_SEQUENTIAL = [(0.0, "#15181d"), (0.35, "#245e9c"), (0.69, "#67b3e7"), (1.0, "#f4fbe0")]
THEMES: dict[str, Theme] = {
    "light": Theme(
        background="#ffffff",
        foreground="#1b1f24",
        muted="#667079",
        border="#aab2ba",
        accent="#0b57a4",
        sequential=_colours("regard-light", *_LIGHT_BLUE),
        grey=_colours("regard-grey-light", (0, "#ffffff"), (1, "#5a6066")),
        diverging=_diverging("regard-diverging-light", _LIGHT_BLUE, _LIGHT_ORANGE),
    ),
    "dark": Theme(
        background="#15181d",
        foreground="#e8ebee",
        muted="#98a2ac",
        border="#4c555e",
        accent="#8fd0ff",
        sequential=_colours("regard-dark", *_DARK_SEQUENTIAL),
        grey=_colours("regard-grey-dark", (0, "#15181d"), (1, "#b4babf")),
        diverging=_diverging("regard-diverging-dark", _DARK_BLUE, _DARK_ORANGE),
    ),
}


def get_theme(name: str) -> Theme:
    """The theme called `name`."""
    if name not in THEMES:
        raise SettingsError(f"theme: expected {' or '.join(THEMES)}, got {name!r}")
    return THEMES[name]


def colour_scale(colours: Colormap, high: float, low: float = 0.0) -> ScalarMappable:
    """Maps numbers from `low` to `high` to colours; `high` <= `low` counts as `low` + 1."""
    return ScalarMappable(Normalize(low, high if high > low else low + 1), colours)


def weight_scale(theme: Theme, weights: Tensor, *, normalized: bool) -> ScalarMappable:
    """The colours of attention weights: from 0 on, or of both signs if not `normalized`."""
    if normalized:
        return colour_scale(theme.sequential, float(weights.max()))
    peak = float(weights.abs().max()) or 1.0
    return colour_scale(theme.diverging, peak, -peak)


class InchFigure(Figure):
    """A figure laid out in inches; saving adds room for labels outside of it.

    A notebook displays it without pyplot, which would display it a second time.
    """

    def __init__(self, width: float, height: float, theme: str) -> None:
        self.width, self.height, self.theme = width, height, get_theme(theme)
        super().__init__(figsize=(width, height), facecolor=self.theme.background)

    def _repr_png_(self) -> bytes:
        return render_figure(self, ".png", NOTEBOOK_DPI)

    def add_panel(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes at a distance in inches from the left and from the top."""
        bottom = self.height - top - height
        across, up = self.width, self.height
        axes = self.add_axes((left / across, bottom / up, width / across, height / up))
        axes.set_facecolor(self.theme.background)
        axes.tick_params(colors=self.theme.muted)
        for spine in axes.spines.values():
            spine.set(linewidth=FRAME_WIDTH, edgecolor=self.theme.border)
        return axes

    @cached_property
    def overlay(self) -> Axes:
        """Invisible axes over the whole figure, in inches from the left and the top."""
        axes = self.add_panel(0, 0, self.width, self.height)
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.set_axis_off()
        return axes

    def add_colourbar(self, scale: ScalarMappable, *, gap: float, label: str = "") -> None:
        """Add a colour bar, `gap` inches to the right of the figure."""
        axes = self.add_panel(self.width + gap, 0, 0.12, min(self.height, 2.0))
        bar = self.colorbar(scale, cax=axes)
        bar.outline.set(linewidth=FRAME_WIDTH, edgecolor=self.theme.border)
        axes.tick_params(length=0, labelsize=8, colors=self.theme.muted)
        if label:
            style_text(bar.ax.set_title(label, loc="left", pad=6), 8, self.theme.muted)

    def draw_heatmap(
        self,
        axes: Axes,
        numbers: Tensor,
        scale: ScalarMappable,
        *,
        grey: Tensor | None = None,
        num_cells: int | None = None,
        gaps: bool = True,
    ) -> None:
        """Draw the cells of a map (T, S), the first row on top, in grey where `grey` (T, S) is
        True; rasterized if there are no `gaps` between cells. `num_cells`: of all its maps.
        """
        gaps = gaps and (num_cells or numbers.numel()) <= MAX_VECTOR_CELLS
        style: dict[str, Any] = {
            "norm": scale.norm,
            "edgecolors": self.theme.background,
            "linewidth": 0.5 if gaps else 0,
            "rasterized": not gaps,
        }
        values = numbers.detach().float().cpu().numpy()
        axes.pcolormesh(values, cmap=scale.cmap, **style)
        if grey is not None and grey.any():
            hidden = np.ma.masked_where(~grey.numpy(), values)
            axes.pcolormesh(hidden, cmap=self.theme.grey, **style)
        axes.invert_yaxis()
        axes.set(xticks=[], yticks=[])

    def draw_curve(
        self, points: Sequence[Point], colour: Any, width: float, dashes: Any = None
    ) -> None:
        """Draw a line on the overlay; the last four points are those of a cubic Bézier curve."""
        lines = [mpath.Path.LINETO] * (len(points) - 4)
        path = mpath.Path(points, [mpath.Path.MOVETO, *lines, *[mpath.Path.CURVE4] * 3])
        patch = PathPatch(path, facecolor="none", edgecolor=colour, linewidth=width)
        patch.set(linestyle=(0, dashes) if dashes else "solid", capstyle="butt", clip_on=False)
        self.overlay.add_patch(patch)

    def write(
        self, axes: Axes, x: float, y: float, text: str, size: float = 8, **style: Any
    ) -> Text:
        """Write a text, muted unless `style` has a colour."""
        colour = style.pop("color", self.theme.muted)
        return style_text(axes.text(x, y, text, **style), size, colour)

    def write_title(self, axes: Axes, title: str) -> None:
        """Write a title above the axes."""
        style_text(axes.set_title(title, loc="left", pad=12), 12, self.theme.foreground)

    def write_notes(self, axes: Axes, notes: Sequence[str]) -> None:
        """Write a line for each note below the axes."""
        axes.xaxis.set_label_position("bottom")
        label = axes.set_xlabel("\n".join(notes), loc="left", labelpad=8, linespacing=1.4)
        style_text(label, 8, self.theme.muted)

    def label_axes(self, axes: Axes, across: str = "", down: str = "") -> None:
        """Name the two directions of axes."""
        style_text(axes.set_xlabel(across, labelpad=3), 8, self.theme.muted)
        style_text(axes.set_ylabel(down, labelpad=3), 8, self.theme.muted)
        axes.tick_params(length=2, width=FRAME_WIDTH, labelsize=7)

    def label_columns(
        self, axes: Axes, names: Sequence[str], size: float, *, upright: bool = False
    ) -> None:
        """Write names above the columns of a map, slanted or `upright`."""
        axes.xaxis.tick_top()
        slanted = {"rotation": 45, "rotation_mode": "anchor", "ha": "left", "va": "center"}
        style = {"rotation": 90, "va": "bottom", "ha": "center"} if upright else slanted
        self._label_cells(axes.xaxis, names, size, pad=3 if upright else 5, **style)

    def label_rows(self, axes: Axes, names: Sequence[str], size: float) -> None:
        """Write names to the left of the rows of a map."""
        self._label_cells(axes.yaxis, names, size, pad=5)

    def _label_cells(
        self, axis: XAxis | YAxis, names: Sequence[str], size: float, *, pad: float, **style: Any
    ) -> None:
        axis.set_ticks([place + 0.5 for place in range(len(names))], map(truncate_label, names))
        for label in axis.get_ticklabels():
            label.set(**style)
            style_text(label, size, self.theme.foreground)
        axis.set_tick_params(length=0, pad=pad)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as .png, .svg (with words as text) or .pdf; equal figures are equal files."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise SettingsError(f"{path}: cannot draw {ending!r}; end the name in {', '.join(FORMATS)}")
    write_atomic(path, render_figure(figure, ending))


def render_figure(figure: Figure, ending: str, dpi: int = FILE_DPI) -> bytes:
    """The content of a figure's file; `ending` is a key of `FORMATS`."""
    buffer = io.BytesIO()
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "regard"}
    style["font.sans-serif"] = [DEFAULT_FONT]
    output: dict[str, Any] = {"format": ending[1:], "metadata": FORMATS[ending], "dpi": dpi}
    with matplotlib.rc_context(style), ignore_missing_glyphs():
        figure.savefig(buffer, **output, bbox_inches="tight", pad_inches=0.1)
    return buffer.getvalue()


class ThemedFigure:
    """A figure that a notebook, or a page of the documentation, shows in its own theme.

    `draw` draws it once in each theme; `alt` is the text alternative.
    """

    def __init__(self, draw: Callable[[ThemeName], Figure], *, alt: str) -> None:
        self.alt, self._html = alt, notebook_html(draw, alt=alt)

    def __repr__(self) -> str:
        return f"<ThemedFigure: {self.alt}>"

    def _repr_html_(self) -> str:
        return self._html


def notebook_html(draw: Callable[[ThemeName], Figure], *, alt: str) -> str:
    """HTML with the figure in both themes: a style sheet selects the page's theme; without style
    sheets the light one is shown. `alt` is the text alternative.
    """
    images = []
    for theme in get_args(ThemeName):
        content = base64.b64encode(render_figure(draw(theme), ".svg")).decode("ascii")
        source = f'alt="{escape(alt)}" src="data:image/svg+xml;base64,{content}"'
        hidden = " hidden" if theme == "dark" else ""
        images.append(f'<img class="regard-{theme}" {source}{hidden}>')
    return f'<div class="regard-figure"><style>{NOTEBOOK_CSS}</style>{"".join(images)}</div>'
