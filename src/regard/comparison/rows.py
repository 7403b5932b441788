"""How the rows of a comparison are trained, measured and shown."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from matplotlib.figure import Figure

from regard.comparison.measurements import ComparedRow, RowScore, TaskRow, this_machine, today
from regard.comparison.plan import ComparisonFolder, ComparisonPlan, PlanEntry, check_finished
from regard.comparison.plots import plot_scores
from regard.comparison.results import Results, aggregate_task_results, corpus_name
from regard.errors import SettingsError
from regard.evaluation.scores import ScoreSettings, bootstrap, confidence_interval
from regard.json_files import load_json
from regard.recipes.finish_run import finish_run
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder, count_parameters
from regard.recipes.train_run import RunReporter, train
from regard.tasks.contracts import Notify, TaskRecipe
from regard.training.checkpoints import last_progress
from regard.training.loop import StopRequested

RESAMPLING = ScoreSettings()  # how many times, and with which seed


class RowContext(NamedTuple):
    """A row of a comparison, with all that its training and measuring needs."""

    entry: PlanEntry
    plan: ComparisonPlan
    folder: ComparisonFolder
    device: torch.device
    reporter: RunReporter

    @property
    def run(self) -> RunFolder:
        return self.folder.run(self.entry)


class ResultFigure(NamedTuple):
    """A figure of results, and its description in the report."""

    about: str
    draw: Callable[[Any], Figure]


class Rows:
    """The rows of tasks that measure examples; a task whose rows need more derives from it."""

    record: ClassVar[type[ComparedRow]] = TaskRow
    without_effect: ClassVar[str] = "tokens minutes beam tokenize"
    """The options of `regard compare` that have no effect on these rows."""
    timed: ClassVar[bool] = False
    """Whether each row is measured while no other process runs."""
    takes_imported: ClassVar[bool] = False
    """Whether an imported run, which has no data, is measured on those of the other rows."""
    figures: ClassVar[Mapping[str, ResultFigure]] = {
        "scores": ResultFigure(
            "Scores of all systems, with their seeds and 95% intervals", plot_scores
        )
    }
    """By file name."""

    def prepare(
        self, plan: ComparisonPlan, folder: ComparisonFolder, note: Notify
    ) -> ComparisonPlan:
        """Read what all rows share; returns the plan with the choices that depend on it."""
        return plan

    def recipe(self, row: RowContext) -> TaskRecipe:
        """The recipe to train; it starts from the run that the comparison trained for it, if
        any.
        """
        entry, start = row.entry, row.plan.start_of(row.entry)
        if start is None:
            return entry.recipe
        run = row.folder.run(start)
        if not run.finished():
            log = row.folder.log(start)
            raise SettingsError(f"its start, {start.label}, was not trained: see {log}")
        return entry.recipe.with_values({"start.run": str(run.path)})

    def time(self, row: RowContext) -> None:
        """Convert the budget of a row to steps, before several rows are trained at once."""

    def train(self, row: RowContext, stop_requested: StopRequested) -> None:
        """Train or resume the row's run, and score it, until a stop is requested; a given run must
        be finished.
        """
        if row.entry.run is not None:
            check_finished(row.run)
        if is_trained(row.entry, row.folder):
            return
        progress = train(
            self.recipe(row),
            row.run,
            device=row.device,
            reporter=row.reporter,
            stop_requested=stop_requested,
        )
        if not stop_requested():
            finish_run(row.run, progress, row.device)

    def measure(self, row: RowContext, *, alone: bool) -> None:
        """Measure the trained run of a row, and save the numbers; `alone`: no other process
        runs.
        """
        if row.entry.is_start:
            return
        run = open_run(row.run.path, tasks=[row.entry.recipe.task], device=row.device)
        split = run.task.held_out()
        row.reporter.noted(f"measuring on {split}")
        metric, counts, digest = run.task.statistics(run.model, split)
        value, drawn, _ = bootstrap(metric, counts, RESAMPLING)
        low, high = confidence_interval(drawn)
        signature = metric.signature(RESAMPLING.resamples, RESAMPLING.seed)
        progress = last_progress(row.run.path)
        assert progress is not None  # a trained run has a checkpoint
        TaskRow(
            label=row.entry.label,
            seed=row.entry.seed,
            corpus=corpus_name(row.entry.recipe),
            family=run.recipe.inner_model().family,
            parameters=count_parameters(run.model),
            steps=progress.step,
            seconds=progress.seconds,
            start_seconds=sum(_start_seconds(row)),
            split=split,
            examples=len(counts),
            digest=digest,
            score=RowScore(name=metric.name, value=value, low=low, high=high, signature=signature),
            lower_is_better=metric.lower_is_better,
            drawn=tuple(drawn.tolist()),
            numbers=_saved_numbers(row.run),
            machine=this_machine(row.device),
            date=today(),
        ).save(row.folder.row(row.entry))

    def results(self, plan: ComparisonPlan, folder: ComparisonFolder) -> Results:
        """The results of all rows that are finished."""
        return aggregate_task_results(plan, folder)


def is_trained(entry: PlanEntry, folder: ComparisonFolder) -> bool:
    """Whether the row's run is finished, or was given as a finished run."""
    return entry.run is not None or folder.run(entry).finished()


def _start_seconds(row: RowContext) -> Iterator[float]:
    """The training seconds of the runs that a row started from, as far as they are in this
    folder.
    """
    entry = row.entry
    while (start := row.plan.start_of(entry)) is not None:
        progress = last_progress(row.folder.run(start).path)
        yield progress.seconds if progress is not None else 0.0
        entry = start


def _saved_numbers(run: RunFolder) -> dict[str, float]:
    """The numbers that were measured at the end of training."""
    advice = "measure it again: regard evaluate"
    saved = load_json(run.scores, dict[str, object], advice=advice)
    return {name: float(x) for name, x in saved.items() if isinstance(x, int | float)}
