"""Progress displays: in a terminal, below the output."""

from rich import progress
from rich.console import Console
from rich.text import Text

from regard.cli.display.console import err


class LiveProgress(progress.Progress):
    """A progress display that is shown in a terminal only, and removed at the end."""

    def __init__(self, *columns: str | progress.ProgressColumn, console: Console = err) -> None:
        super().__init__(
            *columns,
            console=console,
            transient=True,
            redirect_stdout=False,  # or rich would print translations on stderr
            disable=not console.is_terminal,
        )


class RateColumn(progress.ProgressColumn):
    """Items per second."""

    def render(self, task: progress.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", "dim")


def bar_columns(*, rate: bool = False) -> list[progress.ProgressColumn]:
    """The columns of a bar with a count of items and the time left."""
    return [
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=24),
        progress.MofNCompleteColumn(),
        *([RateColumn()] if rate else []),
        progress.TextColumn("[dim]left[/dim]"),
        progress.TimeRemainingColumn(),
    ]


def progress_bar(console: Console = err, *, rate: bool = False) -> LiveProgress:
    """A bar with a count of items and the time left."""
    return LiveProgress(*bar_columns(rate=rate), console=console)
