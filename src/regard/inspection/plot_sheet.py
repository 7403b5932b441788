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

from regard.inspection.plot_letters import missing_letters_allowed, shorten, write
from regard.inspection.plot_theme import Theme

VECTORS = 10_000
"""More cells than these are written into .svg and .pdf as pixels, to keep the file small."""
DPI = 100
"""Of a figure in a notebook."""
LINE = 0.4
"""Points that a frame is wide."""


class NotebookFigure(Figure):
    """A figure that a notebook shows, and once: pyplot would show it again, and is not told."""

    def _repr_png_(self) -> bytes:
        drawn = io.BytesIO()
        with missing_letters_allowed():
            self.savefig(drawn, format="png", dpi=DPI, bbox_inches="tight", pad_inches=0.1)
        return drawn.getvalue()


class Sheet:
    """A figure laid out in inches. Names stand outside it; saving makes room for them."""

    def __init__(self, width: float, height: float, theme: Theme) -> None:
        self.width, self.height, self.theme = width, height, theme
        self.figure = NotebookFigure(figsize=(width, height), facecolor=theme.paper)

    def place(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes at so many inches from the left and from the top."""
        bottom = self.height - top - height
        across, up = self.width, self.height
        axes = self.figure.add_axes((left / across, bottom / up, width / across, height / up))
        axes.set_facecolor(self.theme.paper)
        axes.tick_params(colors=self.theme.faint)
        for spine in axes.spines.values():
            spine.set(linewidth=LINE, edgecolor=self.theme.frame)
        return axes

    def canvas(self) -> Axes:
        """Axes over the whole sheet, bare, whose units are inches from the left and the top."""
        axes = self.place(0, 0, self.width, self.height)
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.set_axis_off()
        return axes

    def add_scale(
        self, colours: ScalarMappable, *, gap: float, top: float = 0, label: str = ""
    ) -> None:
        """What the colours mean, to the right of everything."""
        height = min(self.height - top, 2.0)
        axes = self.place(self.width + gap, top, 0.12, height)
        bar = self.figure.colorbar(colours, cax=axes)
        bar.outline.set(linewidth=LINE, edgecolor=self.theme.frame)
        axes.tick_params(length=0, labelsize=8, colors=self.theme.faint)
        if label:
            write(bar.ax.set_title(label, loc="left", pad=6), 8, self.theme.faint)

    def draw_cells(
        self,
        axes: Axes,
        numbers: Tensor,
        scale: "Scale",
        *,
        grey: Tensor | None = None,
        num_cells: int | None = None,
        gaps: bool = True,
    ) -> QuadMesh:
        """The cells of a map (T, S), with the first row on top; a figure has `num_cells` in all.

        Those of `grey` (T, S) have no colour. Without `gaps` between them they become one picture.
        """
        gaps = gaps and (num_cells or numbers.numel()) <= VECTORS
        style: dict[str, Any] = {
            "norm": scale.range,
            "edgecolors": self.theme.paper,
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

    def entitle(self, axes: Axes, title: str, *, above: float = 12) -> None:
        """Write a title so many points above axes, if there is one."""
        if title:
            write(axes.set_title(title, loc="left", pad=above), 12, self.theme.ink)

    def remark(self, axes: Axes, *notes: str) -> None:
        """Write what there is to say about a map below it."""
        axes.xaxis.set_label_position("bottom")
        told = "\n".join(filter(None, notes))
        write(axes.set_xlabel(told, loc="left", labelpad=8, linespacing=1.4), 8, self.theme.faint)

    def label(self, axes: Axes, across: str = "", down: str = "") -> None:
        """Say what the two directions of axes mean."""
        write(axes.set_xlabel(across, labelpad=3), 8, self.theme.faint)
        write(axes.set_ylabel(down, labelpad=3), 8, self.theme.faint)
        axes.tick_params(length=2, width=LINE, labelsize=7)

    def name_columns(self, axes: Axes, names: Sequence[str], *, fontsize: float) -> None:
        """Write names above the columns of a map."""
        axes.xaxis.tick_top()
        axes.set_xticks([place + 0.5 for place in range(len(names))], map(shorten, names))
        for label in axes.get_xticklabels():
            label.set(rotation=45, rotation_mode="anchor", ha="left", va="center")
            write(label, fontsize, self.theme.ink)
        axes.tick_params(axis="x", length=0, pad=5)

    def name_rows(self, axes: Axes, names: Sequence[str], *, fontsize: float) -> None:
        """Write names beside the rows of a map."""
        axes.set_yticks([place + 0.5 for place in range(len(names))], map(shorten, names))
        for label in axes.get_yticklabels():
            write(label, fontsize, self.theme.ink)
        axes.tick_params(axis="y", length=0, pad=5)


class Scale(ScalarMappable):
    """The colours of numbers from `low` to `high`; all alike numbers have the first colour."""

    def __init__(self, colours: Colormap, high: float, low: float = 0.0) -> None:
        self.colours, self.range = colours, Normalize(low, high if high > low else low + 1)
        super().__init__(norm=self.range, cmap=colours)
