"""Figures as a picture: a bar for each contender, a whisker from the least to the greatest."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import BenchRow, Table
from regard.inspection.plots.figure import Theme, get_theme

WIDE, BAR, HEAD = 7.5, 0.32, 0.85
"""Inches: a picture across, a bar down, and what stands above and below the bars of a table."""
LETTERS = 85
"""Of a line of a title."""


def draw_bars(tables: Sequence[Table], path: Path) -> None:
    """Write a panel for each table."""
    colours = get_theme("light")
    heights = [HEAD + BAR * len(table.rows) for table in tables]
    figure = Figure(
        figsize=(WIDE, sum(heights)), layout="constrained", facecolor=colours.background
    )
    grid = figure.add_gridspec(len(tables), 1, height_ratios=heights)
    for number, table in enumerate(tables):
        _draw_table(figure.add_subplot(grid[number, 0]), table, colours)
    figure.savefig(path, dpi=150)


def _draw_table(axes: Axes, table: Table, colours: Theme) -> None:
    better = "higher" if table.better == "more" else "lower"
    title = "\n".join(wrap(f"{table.title}: {table.unit} ({better} is better)", LETTERS))
    axes.set_title(title, loc="left", fontsize=8)
    axes.title.set_color(colours.foreground)
    rows = sorted(table.rows, key=lambda row: row.summary.median, reverse=table.better != "more")
    for place, row in enumerate(rows):
        _draw_row(axes, place, row, colours)
    axes.set_yticks(
        range(len(rows)), [row.name for row in rows], fontsize=8, color=colours.foreground
    )
    axes.set_xlim(0, 1.12 * max(row.summary.high for row in rows))
    axes.tick_params(axis="x", colors=colours.muted, labelsize=7)
    axes.tick_params(axis="y", length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(colours.border)


def _draw_row(axes: Axes, place: int, row: BenchRow, colours: Theme) -> None:
    middle, low, high = row.summary
    whisker = np.array([[middle - low], [high - middle]])
    axes.barh(
        place,
        middle,
        height=0.66,
        color=colours.accent if row.ours else colours.border,
        xerr=whisker,
        ecolor=colours.muted,
    )
    shown = f"{middle:,.0f}" if middle >= 100 else f"{middle:.3g}"
    axes.annotate(
        shown,
        (high, place),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color=colours.foreground,
    )
