"""Tables for the terminal."""

from collections.abc import Collection, Iterable

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from regard.cli.display.console import note, out
from regard.corpora.cleaning.pair_filters import CleaningReport
from regard.evaluation.scores import SIGNIFICANCE_LEVEL, UNTESTED_NOTE
from regard.inspection.plots.plain_table import plain_table as plain_table
from regard.tasks.contracts import Evaluation


def significance_note(p_values: Collection[float | None]) -> str:
    """The meaning of a table's marks, or why it has none."""
    if None in p_values:
        return f"[dim]{UNTESTED_NOTE}[/dim]"
    return f"[dim]* differs from chance at p < {SIGNIFICANCE_LEVEL}[/dim]"


def titled_rows(rows: Iterable[tuple[RenderableType, RenderableType]], gap: int = 2) -> Table:
    """A table of two columns without header."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, gap, 0, 0))
    for row in rows:
        table.add_row(*row)
    return table


def print_evaluation(evaluation: Evaluation, name: str) -> None:
    """Print the numbers of the run `name`, and how they were counted."""
    for part in evaluation.tables(name):
        if isinstance(part, str):
            out.print(part)
        else:
            title, columns, right, rows = part
            out.print(plain_table(*columns, title=escape(title), right=right, rows=rows))
    for line in evaluation.notes:
        note(line)


def cleaning_table(report: CleaningReport) -> Table:
    """The pairs dropped by cleaning, by reason."""
    rows = [
        (f"{row.num_pairs:,}", f"{row.share:.2%}", row.reason, escape(row.example))
        for row in report.rows()
    ]
    columns = ("dropped", "share", "why", "for example")
    return plain_table(*columns, right=columns[:2], rows=rows)
