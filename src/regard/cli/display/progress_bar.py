"""Bars that show how far a command is: in a terminal, below what it prints."""

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


class RateColumn(ProgressColumn):
    """Rounds a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", "dim")


def progress_bar(console: Console = err, *, rate: bool = False) -> Progress:
    """A bar for rounds that are counted: nothing of it in a pipe, nor once they are over."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        *([RateColumn()] if rate else []),
        TextColumn("[dim]left[/dim]"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,  # or translations would go where the bar goes
        disable=not console.is_terminal,
    )
