"""Curves of what work costs as it grows, on logarithmic axes: a power law is a straight line."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import Table
from bench.statistics import upper_exponent
from regard.inspection.plots.figure import Theme, get_theme

COLUMNS, WIDE, HIGH = 4, 2.5, 2.2
"""Panels beside each other, and their inches."""


def draw_curves(tables: Sequence[Table], path: Path) -> None:
    """Write a panel for each table, whose rows note their size and memory."""
    colours = get_theme("light")
    lines = -(-len(tables) // COLUMNS)
    figure = Figure(figsize=(WIDE * COLUMNS, HIGH * lines), layout="constrained")
    figure.set_facecolor(colours.background)
    for number, table in enumerate(tables):
        _draw_curve(figure.add_subplot(lines, COLUMNS, number + 1), table, colours)
    figure.savefig(path, dpi=150)


def _draw_curve(axes: Axes, table: Table, colours: Theme) -> None:
    sizes = [int(row.notes["size"]) for row in table.rows]
    seconds = [min(row.figures) for row in table.rows]
    memory = [max(float(row.notes["MB"]), 0.1) for row in table.rows]
    power = upper_exponent(sizes, seconds)
    axes.loglog(sizes, seconds, "o-", color=colours.accent, markersize=3, linewidth=1.4)
    linear = [seconds[-1] * size / sizes[-1] for size in sizes]
    axes.loglog(sizes, linear, ":", color=colours.border, linewidth=1)
    axes.set_title(
        f"{table.title}\nseconds ~ size^{power:.2f}", fontsize=7, color=colours.foreground
    )
    other = axes.twinx()
    other.plot(sizes, memory, "s--", color=colours.muted, markersize=2, linewidth=0.8)
    other.set_ylim(0, 1.15 * max(memory))
    other.set_ylabel("MB", fontsize=6, color=colours.muted)
    axes.set_ylabel("s", fontsize=6, color=colours.accent)
    axes.set_xlabel(table.rows[0].name.split(" ", 1)[1], fontsize=6, color=colours.foreground)
    axes.set_xticks(sizes[::2], [f"{size:,}" for size in sizes[::2]])
    ends = [seconds[0], seconds[-1]]
    axes.set_yticks(ends, [f"{end:.2g}" for end in ends])
    axes.set_ylim(0.7 * min(seconds), 1.4 * max(seconds))
    axes.minorticks_off()
    for each in (axes, other):
        each.tick_params(labelsize=6, colors=colours.muted, which="both")
        for spine in each.spines.values():
            spine.set_color(colours.border)
