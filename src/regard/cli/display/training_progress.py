"""The output of a training run: a live line in a terminal, some plain lines in a pipe."""

import time
from collections.abc import Mapping

import torch
from rich import progress
from rich.console import Console
from rich.markup import escape

from regard.cli.display.console import err, escape_message
from regard.cli.display.progress_bar import LiveProgress
from regard.cli.display.tables import cleaning_table, plain_table
from regard.evaluation.metrics import METRICS, VALIDATION_METRICS
from regard.models.contracts import AnyModel
from regard.recipes.machine_load import OtherWork
from regard.recipes.memory import format_seconds
from regard.recipes.run_folder import count_parameters
from regard.tasks.contracts import AnyTrainableTask
from regard.tasks.translation.auto_settings import format_choices
from regard.training.weight_transfer import WeightTransfer

VALIDATION_DIGITS = {"loss": 3, "perplexity": 2} | {
    name: METRICS[name].digits for name in VALIDATION_METRICS
}
"""Metrics of a validation line, and their decimals."""
SPEED = "_per_second"  # the ending of a speed's name, such as tokens_per_second
NUM_LOG_LINES = 50  # lines of loss in a pipe, approximately


class TerminalReporter(LiveProgress):
    """Writes to stderr; in a terminal, with a live line below."""

    def __init__(self, steps: int, *, console: Console = err) -> None:
        super().__init__(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[numbers]}"),
            progress.TextColumn("[dim]{task.fields[left]}[/dim]"),
            console=console,
        )
        self._task = self.add_task("training", total=steps, numbers="", left="", visible=False)
        self._other_work = OtherWork()
        self._begin(steps)

    def _begin(self, steps: int) -> None:
        """Start to count this many steps."""
        self._steps = steps
        self._next_line = 0.0  # the step at which a pipe gets the next line
        self._estimated = False  # whether the estimate of the time was printed
        self._first_log: tuple[int, float] | None = None  # its step and time
        self.update(self._task, total=steps)

    def _say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)

    def _warn(self, message: str) -> None:
        self._say(f"[bold yellow]warning[/]     {escape_message(message)}")

    def noted(self, message: str) -> None:
        self._say(f"[dim]{escape_message(message)}[/dim]")

    def prepared(self, task: AnyTrainableTask, model: AnyModel) -> None:
        for name, text in task.summary().items():
            self._say(f"{name:<11} {escape_message(text)}")
        self._say(f"parameters  {count_parameters(model):,}")
        report = task.cleaning_report()
        if report is not None and report.dropped:
            self.console.print(cleaning_table(report))
        for number, line in enumerate(format_choices(task.choices())):
            self._say(f"{'' if number else 'chosen':<12}{escape(line)}")
        for warning in task.warnings():
            self._warn(warning)
        self._begin(task.recipe.training.steps)

    def transferred(self, run: str, transfer: WeightTransfer) -> None:
        self._say(f"begun with  {escape(run)}")
        table = plain_table("", "tensors", "numbers", "", right=("tensors", "numbers"))
        for line in transfer.lines():
            cells = line.kind, f"{line.tensors:,}", f"{line.numbers:,}", escape(line.names)
            table.add_row(*cells)
        self.console.print(table)

    def second_stage(self, group: str, steps: int) -> None:
        self._say(f"{group:<11} {steps:,} steps; step 0 is the end of training")
        self.reset(self._task, total=steps, description=group, visible=False)
        self._begin(steps)

    def logged(self, step: int, numbers: Mapping[str, float]) -> None:
        loss = numbers["loss"]
        [(unit, speed)] = (
            (name.removesuffix(SPEED), value)
            for name, value in numbers.items()
            if name.endswith(SPEED)
        )
        shown = f"loss {loss:.{3 if loss >= 0.01 else 2}{'f' if loss >= 0.01 else 'g'}}"
        shown = f"{shown}  {speed:,.0f} {unit}/s"
        left = self._describe_time_left(step)
        self.update(self._task, completed=step, numbers=shown, left=left, visible=True)
        if self.console.is_terminal or step < self._next_line:
            return
        self._next_line = step + self._steps / NUM_LOG_LINES
        self._say(f"step {step:>7,}  {shown}{left and f'  {left}'}")

    def _describe_time_left(self, step: int) -> str:
        """The time left, which is printed in a line of its own when it is first known; or that
        other processes use the cores, while it cannot be known.
        """
        seconds, busy = (
            self._seconds_left(step),
            self._other_work.takes_from(torch.get_num_threads()),
        )
        if not seconds:
            return ""
        if busy:
            return "the machine is busy"
        if not self._estimated:
            self._estimated = True
            steps = f"the {self._steps - step:,} steps left"
            self._say(f"time        about {format_seconds(seconds)} for {steps}")
        return f"{format_seconds(seconds)} left"

    def _seconds_left(self, step: int) -> float | None:
        """Seconds left, by the steps since the first log line, as earlier ones are slower."""
        now = time.monotonic()
        if self._first_log is None:
            self._first_log = step, now
            return None
        first, then = self._first_log
        return (now - then) / max(1, step - first) * (self._steps - step)

    def validated(self, step: int, numbers: Mapping[str, float], *, best: bool) -> None:
        digits = {name: digits for name, digits in VALIDATION_DIGITS.items() if name in numbers}
        values = "  ".join(f"{name} {numbers[name]:.{digits[name]}f}" for name in digits)
        others = (f"{name} {numbers[name]:.4g}" for name in numbers if name not in digits)
        values = "  ".join((values, *others)).strip()
        mark = " [green]best so far[/green]" if best else ""
        self._say(f"step {step:>7,}  {values}{mark}")
