"""The output of a training run: a live line in a terminal, some plain lines in a pipe."""

import time
from collections.abc import Mapping

from rich import progress
from rich.console import Console
from rich.markup import escape

from regard.cli.display.console import err, escape_message
from regard.cli.display.progress_bar import LiveProgress
from regard.cli.display.tables import cleaning_table, plain_table
from regard.corpora.diagnostics.findings import advise_dropped
from regard.evaluation.metrics import METRICS, VALIDATION_METRICS
from regard.models.contracts import AnyModel
from regard.recipes.auto_settings import format_choices
from regard.recipes.memory import format_seconds
from regard.recipes.prepared_data import TrainingInputs
from regard.recipes.run_folder import count_parameters
from regard.training.weight_transfer import WeightTransfer

VALIDATION_DIGITS = {"loss": 3, "perplexity": 2} | {
    name: METRICS[name].digits for name in VALIDATION_METRICS
}
"""Metrics of a validation line, and their decimals."""
SPEED = "_per_second"  # the ending of a speed's name, such as tokens_per_second
NUM_LOG_LINES = 50  # lines of loss in a pipe, approximately


class TerminalReporter(LiveProgress):
    """Writes to stderr; in a terminal with a live line below, in a pipe without."""

    def __init__(self, steps: int, *, console: Console = err) -> None:
        super().__init__(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[numbers]}"),
            progress.TextColumn("[dim]left[/dim]"),
            progress.TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
        )
        self._task = self.add_task("training", total=steps, numbers="", visible=False)
        self._begin(steps)

    def _begin(self, steps: int) -> None:
        """Expect so many steps from now on."""
        self._steps = steps
        self._next_line = 0.0  # the step from which on a pipe gets the next line
        self._estimated = False  # whether the estimate of the time was printed
        self._first_log: tuple[int, float] | None = None  # its step and time
        self.update(self._task, total=steps)

    def _say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)

    def _warn(self, message: str) -> None:
        self._say(f"[bold yellow]warning[/]     {escape_message(message)}")

    def noted(self, message: str) -> None:
        self._say(f"[dim]{escape_message(message)}[/dim]")

    def prepared(self, inputs: TrainingInputs, model: AnyModel) -> None:
        data, (source, target) = inputs.data, inputs.tokenizers
        counts = ", ".join(f"{count:,} {split}" for split, count in data.pairs.items())
        self._say(f"pairs       {counts}")
        if data.report.dropped:
            self.console.print(cleaning_table(data.report))
        if advice := advise_dropped(data.report):
            self._warn(advice)
        if inputs.num_too_long:
            self._say(f"            {inputs.num_too_long:,} with too many tokens left out")
        other = "shared" if source is target else f"and {target.size:,}"
        self._say(f"vocabulary  {source.size:,} {other}")
        self._say(f"parameters  {count_parameters(model):,}")
        for number, line in enumerate(format_choices(inputs.choices)):
            self._say(f"{'' if number else 'chosen':<12}{escape(line)}")
        if truncated := str(inputs.truncation):
            self._warn(truncated)
        self._begin(inputs.recipe.training.steps)

    def described(self, summary: dict[str, str], model: AnyModel) -> None:
        for name, text in summary.items():
            self._say(f"{name:<11} {escape_message(text)}")
        self._say(f"parameters  {count_parameters(model):,}")

    def transferred(self, run: str, transfer: WeightTransfer) -> None:
        self._say(f"begun with  {escape(run)}")
        table = plain_table("", "tensors", "numbers", "", right=("tensors", "numbers"))
        for line in transfer.lines():
            cells = line.kind, f"{line.tensors:,}", f"{line.numbers:,}", escape(line.names)
            table.add_row(*cells)
        self.console.print(table)

    def refining(self, steps: int) -> None:
        self._say(f"refinement  {steps:,} steps; step 0 is what training ended with")
        self.reset(self._task, total=steps, description="refining", visible=False)
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
        self.update(self._task, completed=step, numbers=shown, visible=True)
        left = self._seconds_left(step)
        if left and not self._estimated:
            self._estimated = True
            steps = f"the {self._steps - step:,} steps left"
            self._say(f"time        about {format_seconds(left)} for {steps}")
        if self.console.is_terminal or step < self._next_line:
            return
        self._next_line = step + self._steps / NUM_LOG_LINES
        time_left = f"  {format_seconds(left)} left" if left else ""
        self._say(f"step {step:>7,}  {shown}{time_left}")

    def _seconds_left(self, step: int) -> float | None:
        """Seconds left, by the steps since the first log line: those before it are slower."""
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
