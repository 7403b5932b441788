"""Numbers as tables for the terminal."""

from rich.markup import escape
from rich.table import Table

from regard.corpora.cleaning.pair_filters import CleaningReport
from regard.evaluation.scores import Score

SIGNIFICANCE_LEVEL = 0.05
"""A difference that chance would make less often than this is starred."""
SIGNIFICANCE_NOTE = f"[dim]* differs from chance at p < {SIGNIFICANCE_LEVEL}[/dim]"


def plain_table(*columns: str, title: str = "", right: tuple[str, ...] = (), gap: int = 2) -> Table:
    """A table without lines, `gap` spaces between columns; those of `right` hold numbers."""
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
    return table


def scores_table(scores: list[Score], *, title: str) -> Table:
    """Scores, with their intervals and signatures."""
    table = plain_table(
        "score", "value", "95% interval", "signature", title=title, right=("value",)
    )
    for one in scores:
        span = f"{one.interval.low:.2f} … {one.interval.high:.2f}" if one.interval else ""
        table.add_row(one.name, f"{one.value:.2f}", span, f"[dim]{escape(one.signature)}[/dim]")
    return table


def cleaning_table(report: CleaningReport) -> Table:
    """What was dropped, and why."""
    table = plain_table("dropped", "share", "why", "for example", right=("dropped", "share"))
    for row in report.rows():
        table.add_row(f"{row.num_pairs:,}", f"{row.share:.2%}", row.reason, escape(row.example))
    return table
