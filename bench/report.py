"""Figures -> a table, a file of JSON and a plot."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape

from bench.contenders import MIN_ROUNDS, Contender, check_rounds
from bench.machine_state import MachineState
from bench.peers import PEERS
from bench.statistics import Summary, ratio, summarise
from regard.atomic_io import write_atomic
from regard.cli.display.tables import plain_table
from regard.errors import SettingsError
from regard.inspection.plots.figure import Theme, get_theme

WIDE = 160
"""Columns of a table in a file or a log, where no terminal has a width."""

PLOT_WIDTH, BAR, HEAD = 7.5, 0.32, 0.85
"""Inches: a picture across, a bar down, and what stands above and below the bars of a table."""
LETTERS = 85
"""Of a line of a title."""
PICTURES = (".png", ".svg")
console = Console(highlight=False, soft_wrap=True)
if not console.is_terminal:
    console.width = WIDE


@dataclass(frozen=True)
class BenchRow:
    """What was measured of one contender."""

    name: str
    ours: bool
    figures: tuple[float, ...]
    """By rounds."""
    notes: dict[str, str] = field(default_factory=dict)
    """What else to say: a score, a size, agreement."""

    @property
    def summary(self) -> Summary:
        return summarise(self.figures)


@dataclass(frozen=True)
class Table:
    """One thing that was measured of everybody."""

    title: str
    unit: str
    rows: tuple[BenchRow, ...]
    better: str = "more"
    """Whether more or less of the unit is better."""

    def times(self, ours: BenchRow, theirs: BenchRow) -> float:
        """How many times as good as theirs ours is."""
        pair = (ours, theirs) if self.better == "more" else (theirs, ours)
        return ratio(*(one.figures for one in pair)).median

    def write(self) -> dict[str, Any]:
        """Plain values, ratios included."""
        return {
            "title": self.title,
            "unit": self.unit,
            "better": self.better,
            "rows": [
                {
                    "name": row.name,
                    "ours": row.ours,
                    "rounds": list(row.figures),
                    **row.summary._asdict(),
                    **row.notes,
                    "times": {o.name: self.times(row, o) for o in self.rows if o is not row},
                }
                for row in self.rows
            ],
        }


def show(table: Table) -> None:
    """Print each row's median and spread, and how many times as good as the others ours are."""
    ours = [row for row in table.rows if row.ours]
    notes = list(dict.fromkeys(name for row in table.rows for name in row.notes))
    numbers = (table.unit, "least", "most", *notes)
    shown = plain_table("", *numbers, title=table.title, right=numbers)
    for row in table.rows:
        middle, low, high = (_number(figure) for figure in row.summary)
        name = f"[bold]{escape(row.name)}[/bold]" if row.ours else escape(row.name)
        shown.add_row(name, middle, low, high, *(escape(row.notes.get(note, "")) for note in notes))
    console.print(shown)
    for row in ours:
        others = [other for other in table.rows if not other.ours]
        if others:
            faster = ", ".join(f"{table.times(row, o):.2f} × {o.name}" for o in others)
            console.print(f"  [bold]{escape(row.name)}[/bold]: {escape(faster)}")
    console.print()


def _number(figure: float) -> str:
    """The figure with three significant digits, or without decimals."""
    if figure >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def options(
    what: str, *, rounds: int = MIN_ROUNDS, peers: bool = True, clock: bool = True
) -> argparse.ArgumentParser:
    """A parser with the options that commands share, without those that have no effect."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument(
        "--rounds", type=_rounds, default=rounds, help=f"at least {MIN_ROUNDS} (%(default)s)"
    )
    if peers:
        names = ", ".join(name for name in PEERS if name != "regard")
        parser.add_argument(
            "--peers",
            default="all",
            help=f"who runs beside us: all that are installed, none, or some of {names}, with "
            "commas between them",
        )
    parser.set_defaults(clock="wall")
    if clock:
        parser.add_argument(
            "--clock",
            choices=("wall", "processor"),
            help="processor: seconds that the processor spent, on one thread, for a busy machine",
        )
    parser.add_argument("--quick", action="store_true", help="little work, for a first look")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument(
        "--plot", type=_picture, metavar="FILE", help="draw them there (.png, .svg)"
    )
    return parser


def _rounds(text: str) -> int:
    """The number of rounds, or an error before anything is measured."""
    rounds = int(text)
    check_rounds(rounds)
    return rounds


def _picture(text: str) -> Path:
    """The file of a picture, or an error before anything is measured."""
    path = Path(text)
    if path.suffix not in PICTURES:
        raise SettingsError(f"--plot {path}: the file's name should end in {' or '.join(PICTURES)}")
    return path


def begin(machine_state: MachineState, left: Mapping[str, str]) -> None:
    """Print where figures come from, and which contenders cannot run, and why."""
    for line in machine_state.lines():
        console.print(escape(line))
    for name, why in left.items():
        console.print(f"without {escape(name)}: {escape(why)}")
    console.print()


def show_progress(what: str) -> None:
    """Show what is being measured, if the output is a terminal."""
    if console.is_terminal:
        console.print(f"[dim]{escape(what)} …[/dim]", end="\r\033[K")


def draw_bars(tables: Sequence[Table], path: Path) -> None:
    """Write a panel for each table."""
    colours = get_theme("light")
    heights = [HEAD + BAR * len(table.rows) for table in tables]
    figure = Figure(
        figsize=(PLOT_WIDTH, sum(heights)), layout="constrained", facecolor=colours.background
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


def save(
    asked: argparse.Namespace,
    machine_state: MachineState,
    tables: Sequence[Table],
    *,
    left: Mapping[str, str],
    setting: Mapping[str, Any],
    draw: Callable[[Sequence[Table], Path], None] = draw_bars,
) -> None:
    """Write what the options ask for."""
    if asked.json:
        found = {
            "surroundings": machine_state.write(),
            "setting": dict(setting),
            "left_out": dict(left),
            "tables": [table.write() for table in tables],
        }
        write_atomic(asked.json, json.dumps(found, indent=1, ensure_ascii=False).encode())
        console.print(f"figures in {asked.json}")
    if asked.plot:
        asked.plot.parent.mkdir(parents=True, exist_ok=True)
        draw(tables, asked.plot)
        console.print(f"plot in {asked.plot}")


def rows_of(
    contenders: Sequence[Contender],
    figures: Mapping[str, Sequence[float]],
    notes: Mapping[str, dict[str, str]],
) -> tuple[BenchRow, ...]:
    """A row for each contender that has figures, in the order given."""
    return tuple(
        BenchRow(one.name, one.ours, tuple(figures[one.name]), notes.get(one.name, {}))
        for one in contenders
        if one.name in figures
    )
