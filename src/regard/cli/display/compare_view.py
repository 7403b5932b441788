"""The output of a comparison: the progress of its rows, and its tables at the end."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich import progress
from rich.markup import escape

from regard.cli.display.console import PipedConsole, err, note, out
from regard.cli.display.progress_bar import LiveProgress
from regard.cli.display.tables import plain_table
from regard.comparison.measurements import Failure
from regard.comparison.plan import ComparisonFolder
from regard.comparison.results import Outcome, Results
from regard.comparison.row_processes import Goal, RowJob
from regard.comparison.rows import is_trained
from regard.errors import RegardError
from regard.json_files import parse_json
from regard.manifest import open_plain

ACTIVITY: dict[Goal, str] = {"time": "timing", "train": "training", "measure": "measuring"}

TAIL_BYTES = 4096  # bytes at the end of a run's metrics that hold its last line
MIN_TABLE_WIDTH = 100  # width of the tables without a terminal


class ComparisonProgress(LiveProgress):
    """Writes to stderr: a line for each finished row, in a terminal also for running ones."""

    def __init__(self, folder: ComparisonFolder) -> None:
        super().__init__(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=20),
            progress.MofNCompleteColumn(),
            progress.TextColumn("[dim]{task.fields[numbers]}[/dim]"),
            console=err,
        )
        self._folder = folder
        self._task_of: dict[str, progress.TaskID] = {}

    def started(self, job: RowJob) -> None:
        name, goal = job.entry.name, job.goal
        if goal != "time":  # a process may train a row and then measure it
            goal = "measure" if is_trained(job.entry, self._folder) else "train"
        if err.is_terminal:
            self._task_of[name] = self.add_task(f"{ACTIVITY[goal]} {name}", total=None, numbers="")
        else:
            note(f"{ACTIVITY[goal]} {name}")

    def polled(self, running: Sequence[RowJob]) -> None:
        names = {job.entry.name for job in running}
        for name in set(self._task_of) - names:
            self.remove_task(self._task_of.pop(name))
        for job in running:
            if job.entry.name in self._task_of:
                self._show(job)

    def ended(self, job: RowJob, outcome: Outcome) -> None:
        if isinstance(outcome, Failure):
            reason = escape(outcome.reason)
            err.print(f"[red]{job.entry.name} failed:[/red] {reason}", soft_wrap=True)
        elif outcome is not None:
            note(f"{job.entry.name}: {outcome.headline()}")
        elif job.goal == "train":
            note(f"{job.entry.name}: trained")

    def _show(self, job: RowJob) -> None:
        """Show the progress of a row's training by its metrics file."""
        task, run = self._task_of[job.entry.name], self._folder.run(job.entry)
        if self.tasks[self.task_ids.index(task)].total is None:
            with suppress(RegardError):
                self.update(task, total=run.load_recipe().training.steps)
        with suppress(OSError, ValueError, LookupError, TypeError):
            last = parse_json(_last_line(run.path / "metrics.jsonl"))
            self.update(task, completed=last["step"], numbers=f"loss {last['loss']:.3f}")


def _last_line(path: Path) -> bytes:
    """The last line of a file that may be long, read from its end."""
    with open_plain(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        return file.read().splitlines()[-1]


def print_results(results: Results) -> None:
    """Print the tables, their notes, and the failures."""
    wide = out
    if not out.is_terminal:
        wide = PipedConsole(file=out.file, width=max(out.width, MIN_TABLE_WIDTH))
    for sheet in results.sheets():
        table = plain_table("", *sheet.columns, title=sheet.title, right=sheet.columns, gap=1)
        for number, cells in enumerate(sheet.lines):
            table.add_row(*map(escape, cells), style="bold" if number == sheet.best else None)
        wide.print(table)
        wide.print()
    for remark in results.notes():
        note(remark)
    for trouble in results.troubles():
        err.print(f"[red]{escape(trouble)}[/red]", soft_wrap=True)
