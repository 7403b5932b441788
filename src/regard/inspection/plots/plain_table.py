"""Tables for the terminal."""

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text


def plain_table(
    *columns: str,
    title: str = "",
    right: Sequence[str] = (),
    gap: int = 2,
    rows: Iterable[Sequence[RenderableType]] = (),
) -> Table:
    """A table without rules, `gap` spaces between columns; those of `right` are right-aligned."""
    table = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="dim",
        padding=(0, gap, 0, 0),
    )
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def probability_table(heading: str, rows: Sequence[tuple[str, float, float | None]]) -> Table:
    """Names with their probabilities and, if there were interventions, those without them."""
    changed = any(before is not None for _, _, before in rows)
    columns = (heading, "probability", *(["before"] if changed else []))
    lines: list[list[RenderableType]] = [
        [Text(name), *(f"{one or 0.0:.4f}" for one in numbers[: len(columns) - 1])]
        for name, *numbers in rows
    ]
    return plain_table(*columns, right=columns[1:], rows=lines)
