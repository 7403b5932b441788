"""One row of a comparison: from its recipe and the budget to a trained run."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from pydantic import PositiveInt, TypeAdapter

from regard.atomic_io import write_atomic
from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.plan import Budget, ComparisonPlan, PlanEntry, check_finished
from regard.comparison.shared_corpus import copy_shared_corpus
from regard.errors import RunError
from regard.json_files import describe_error, read_json
from regard.manifest import is_intact
from regard.pipelines.run_evaluation import finish_run
from regard.recipes.dry_run import time_steps
from regard.recipes.prepared_data import prepare
from regard.recipes.recipe import Recipe
from regard.recipes.run_folder import RunFolder
from regard.recipes.train_run import TrainingReporter, train
from regard.training.loop import Reporter, StopRequested

STEPS_ADAPTER: TypeAdapter[int] = TypeAdapter(PositiveInt)


def is_trained(entry: PlanEntry, folder: ComparisonFolder) -> bool:
    """Whether the row's run is finished, or was given as a finished run."""
    return entry.run is not None or folder.run(entry).finished()


def train_row(
    entry: PlanEntry,
    plan: ComparisonPlan,
    folder: ComparisonFolder,
    *,
    device: torch.device,
    reporter: TrainingReporter,
    stop_requested: StopRequested,
) -> None:
    """Train the row's run from its last checkpoint to its end, or until a stop is requested.

    A run that was given as finished must still be finished.
    """
    run = folder.run(entry)
    if entry.run is not None:
        check_finished(run)
    if is_trained(entry, folder):
        return
    recipe = apply_budget(entry, plan.budget, folder, device=device, reporter=reporter)
    copy_shared_corpus(entry, folder)
    progress = train(recipe, run, device=device, reporter=reporter, stop_requested=stop_requested)
    if not stop_requested():
        finish_run(run, progress, device)


def apply_budget(
    entry: PlanEntry,
    budget: Budget,
    folder: ComparisonFolder,
    *,
    device: torch.device,
    reporter: Reporter,
) -> Recipe:
    """The entry's recipe with the number of steps that the budget allows.

    Minutes are converted to steps once for all seeds of a system, and saved: a run that is resumed
    keeps its number of steps.
    """
    if budget.tokens is None and budget.minutes is None:
        return entry.recipe
    saved = folder.steps(entry)
    if budget.minutes is not None and is_intact(saved):
        return entry.recipe.with_values({"training.steps": _load_steps(saved)})
    copy_shared_corpus(entry, folder)
    inputs = prepare(entry.recipe, folder.run(entry), reporter.noted, device=device)
    if budget.tokens is not None:
        # The seed decides which pairs share a batch; with one seed all of a system agree.
        settings = inputs.recipe.training.model_copy(update={"seed": 0})
        steps = max(1, round(budget.tokens / inputs.fitting.tokens_per_step(settings)))
    else:
        assert budget.minutes is not None
        reporter.noted("timing some steps")
        with TemporaryDirectory(prefix="regard-timing-") as temporary:
            timed = time_steps(inputs, RunFolder(Path(temporary)), device=device)
        steps = max(1, round(60 * budget.minutes / timed.seconds))
        write_atomic(saved, json.dumps(steps).encode())
    return entry.recipe.with_values({"training.steps": steps})


def _load_steps(file: Path) -> int:
    """The saved number of steps of a budget in minutes."""
    try:
        return read_json(file, STEPS_ADAPTER)
    except (OSError, ValueError) as error:
        reason = describe_error(error)
        raise RunError(f"{file}: damaged: {reason}; remove it to time again") from None
