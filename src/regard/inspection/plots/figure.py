"""What figures of attention are drawn on."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import QuadMesh
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from torch import Tensor

from regard.inspection.plots.fonts import ignore_missing_glyphs, style_text, truncate_label
from regard.inspection.plots.theme import Theme

MAX_VECTOR_CELLS = 10_000
"""More cells than these are written into .svg and .pdf as pixels, to keep the file small."""
NOTEBOOK_DPI = 100
"""Of a figure in a notebook."""
FRAME_WIDTH = 0.4
"""Points that a frame is wide."""


class NotebookFigure(Figure):
    """A figure that a notebook shows, and once: pyplot would show it again, and is not told."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with ignore_missing_glyphs():
            self.savefig(
                buffer, format="png", dpi=NOTEBOOK_DPI, bbox_inches="tight", pad_inches=0.1
            )
        return buffer.getvalue()


class FigureLayout:
    """A figure laid out in inches. Names stand outside it; saving makes room for them."""

    def __init__(self, width: float, height: float, theme: Theme) -> None:
        self.width, self.height, self.theme = width, height, theme
        self.figure = NotebookFigure(figsize=(width, height), facecolor=theme.background)

    def place(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes at so many inches from the left and from the top."""
        bottom = self.height - top - height
        across, up = self.width, self.height
        axes = self.figure.add_axes((left / across, bottom / up, width / across, height / up))
        axes.set_facecolor(self.theme.background)
        axes.tick_params(colors=self.theme.muted)
        for spine in axes.spines.values():
            spine.set(linewidth=FRAME_WIDTH, edgecolor=self.theme.border)
        return axes

    def canvas(self) -> Axes:
        """Axes over the whole sheet, bare, whose units are inches from the left and the top."""
        axes = self.place(0, 0, self.width, self.height)
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.set_axis_off()
        return axes

    def add_colourbar(
        self, colours: ScalarMappable, *, gap: float, top: float = 0, label: str = ""
    ) -> None:
        """What the colours mean, to the right of everything."""
        height = min(self.height - top, 2.0)
        axes = self.place(self.width + gap, top, 0.12, height)
        bar = self.figure.colorbar(colours, cax=axes)
        bar.outline.set(linewidth=FRAME_WIDTH, edgecolor=self.theme.border)
        axes.tick_params(length=0, labelsize=8, colors=self.theme.muted)
        if label:
            style_text(bar.ax.set_title(label, loc="left", pad=6), 8, self.theme.muted)

    def draw_heatmap(
        self,
        axes: Axes,
        numbers: Tensor,
        scale: "ColourScale",
        *,
        grey: Tensor | None = None,
        num_cells: int | None = None,
        gaps: bool = True,
    ) -> QuadMesh:
        """The cells of a map (T, S), with the first row on top; a figure has `num_cells` in all.

        Those of `grey` (T, S) have no colour. Without `gaps` between them they become one picture.
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
        """Write a title so many points above axes, if there is one."""
        if title:
            style_text(axes.set_title(title, loc="left", pad=above), 12, self.theme.foreground)

    def write_notes(self, axes: Axes, *notes: str) -> None:
        """Write what there is to say about a map below it."""
        axes.xaxis.set_label_position("bottom")
        text = "\n".join(filter(None, notes))
        style_text(
            axes.set_xlabel(text, loc="left", labelpad=8, linespacing=1.4), 8, self.theme.muted
        )

    def label(self, axes: Axes, across: str = "", down: str = "") -> None:
        """Say what the two directions of axes mean."""
        style_text(axes.set_xlabel(across, labelpad=3), 8, self.theme.muted)
        style_text(axes.set_ylabel(down, labelpad=3), 8, self.theme.muted)
        axes.tick_params(length=2, width=FRAME_WIDTH, labelsize=7)

    def label_columns(self, axes: Axes, names: Sequence[str], *, fontsize: float) -> None:
        """Write names above the columns of a map."""
        axes.xaxis.tick_top()
        axes.set_xticks([place + 0.5 for place in range(len(names))], map(truncate_label, names))
        for label in axes.get_xticklabels():
            label.set(rotation=45, rotation_mode="anchor", ha="left", va="center")
            style_text(label, fontsize, self.theme.foreground)
        axes.tick_params(axis="x", length=0, pad=5)

    def label_rows(self, axes: Axes, names: Sequence[str], *, fontsize: float) -> None:
        """Write names beside the rows of a map."""
        axes.set_yticks([place + 0.5 for place in range(len(names))], map(truncate_label, names))
        for label in axes.get_yticklabels():
            style_text(label, fontsize, self.theme.foreground)
        axes.tick_params(axis="y", length=0, pad=5)


class ColourScale(ScalarMappable):
    """The colours of numbers from `low` to `high`; all alike numbers have the first colour."""

    def __init__(self, colours: Colormap, high: float, low: float = 0.0) -> None:
        self.colours, self.range = colours, Normalize(low, high if high > low else low + 1)
        super().__init__(norm=self.range, cmap=colours)
