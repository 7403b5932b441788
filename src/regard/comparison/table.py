"""Tables of results, for the terminal and for Markdown."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from regard.evaluation.scores import format_p_value

EMPTY_CELL = "–"  # without a number


class TableColumn(NamedTuple):
    """A heading, and a function that gives the cell of a measured system."""

    title: str
    cell: Callable[[Any], str]


class Sheet(NamedTuple):
    """A table of text, whose first column names the system."""

    title: str
    columns: tuple[str, ...]  # titles of all but the first
    lines: tuple[Sequence[str], ...]
    best: int | None  # the number of the line of the best system

    @classmethod
    def of(
        cls, title: str, columns: Sequence[TableColumn], systems: Sequence[Any], best: str | None
    ) -> "Sheet":
        """The table of some systems; dashes if none of a system's rows was measured."""
        lines = tuple(
            [
                system.label,
                *(column.cell(system) if system.rows else EMPTY_CELL for column in columns),
            ]
            for system in systems
        )
        labels = [system.label for system in systems]
        titles = tuple(column.title for column in columns)
        return cls(title, titles, lines, None if best is None else labels.index(best))


def format_si(number: float) -> str:
    """At most three digits and an SI prefix: 514k, 12.8M, 3.2P."""
    for prefix in ("", "k", "M", "G", "T", "P", "E"):
        if abs(number) < 999.5 or prefix == "E":
            digits = f"{number:.3g}" if abs(number) < 99.95 else f"{number:.0f}"
            return f"{digits}{prefix}"
        number /= 1000
    raise AssertionError


def format_whole(number: float) -> str:
    return f"{number:,.0f}"


def p_value_cell(system: Any, untested: str = "best") -> str:
    """The p-value of a system; `untested` for the one that others are tested against."""
    return format_p_value(system.significance.p_value) if system.significance else untested


def markdown_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table whose first column is text and whose others are numbers."""
    yield f"| {' | '.join(header)} |"
    yield f"|---|{'---:|' * (len(header) - 1)}"
    for line in lines:
        yield f"| {' | '.join(cell.strip().replace('|', chr(92) + '|') for cell in line)} |"


def markdown_sheet(sheet: Sheet) -> Iterator[str]:
    """A table with its title; the best system is bold."""
    yield f"**{sheet.title}**\n"
    lines = [
        [f"**{cells[0]}**" if number == sheet.best else cells[0], *cells[1:]]
        for number, cells in enumerate(sheet.lines)
    ]
    yield from markdown_table(["system", *sheet.columns], lines)
    yield ""
