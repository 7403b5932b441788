"""Progress displays: in a terminal, below the output."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from regard.cli.display.console import err


class LiveProgress(Progress):
    """A progress display that is shown in a terminal only, and removed at the end."""

    def __init__(self, *columns: str | ProgressColumn, console: Console = err) -> None:
        super().__init__(
            *columns,
            console=console,
            transient=True,
            redirect_stdout=False,  # or rich would print translations on stderr
            disable=not console.is_terminal,
        )


class RateColumn(ProgressColumn):
    """Items per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", "dim")


def progress_bar(console: Console = err, *, rate: bool = False) -> LiveProgress:
    """A bar with a count of items and the time left."""
    return LiveProgress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        *([RateColumn()] if rate else []),
        TextColumn("[dim]left[/dim]"),
        TimeRemainingColumn(),
        console=console,
    )
