"""Progress bars: in a terminal, below the output."""

from typing import Self

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


class LiveReporter:
    """Shows a progress display while it is entered."""

    _progress: Progress

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()


class RateColumn(ProgressColumn):
    """Items per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", "dim")


def live_progress(*columns: str | ProgressColumn, console: Console = err) -> Progress:
    """A display that is shown in a terminal only, and removed at the end."""
    return Progress(
        *columns,
        console=console,
        transient=True,
        redirect_stdout=False,  # or rich would print translations on stderr
        disable=not console.is_terminal,
    )


def progress_bar(console: Console = err, *, rate: bool = False) -> Progress:
    """A bar with a count of items and the time left."""
    return live_progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        *([RateColumn()] if rate else []),
        TextColumn("[dim]left[/dim]"),
        TimeRemainingColumn(),
        console=console,
    )
