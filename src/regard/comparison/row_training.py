"""Training one row of a comparison: recipe, shared corpus and budget -> a trained run."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from pydantic import PositiveInt, TypeAdapter

from regard.atomic_io import atomic_file, remove_tree, write_atomic
from regard.comparison.plan import ComparisonFolder, ComparisonPlan, PlanEntry, check_finished
from regard.corpora.pair_texts import PREPARED_FILE, PreparedData
from regard.errors import CorpusError
from regard.json_files import load_json
from regard.manifest import check_file, is_intact
from regard.pipelines.train import measure_run
from regard.recipes.run_folder import RunFolder, load_data
from regard.recipes.train_run import RunReporter, train
from regard.recipes.transfer.start_run import given_tokenizers
from regard.tasks.contracts import Notify, TaskRecipe
from regard.tasks.translation.prepared_data import prepare_data
from regard.tasks.translation.recipe import TranslationRecipe
from regard.tasks.translation.training_inputs import TrainingInputs, prepare
from regard.tasks.translation.trial.dry_run import TimedSteps, time_steps
from regard.training.loop import StopRequested

STEPS_ADAPTER: TypeAdapter[int] = TypeAdapter(PositiveInt)


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

    @property
    def data(self) -> RunFolder:
        """The run with the data that the row is measured on."""
        return self.folder.data(self.entry, self.plan)

    def time_steps(self, inputs: TrainingInputs) -> TimedSteps:
        """The speed of training steps, measured in a temporary folder."""
        with TemporaryDirectory(prefix="regard-timing-") as temporary:
            return time_steps(inputs, RunFolder(Path(temporary)), device=self.device)


def is_trained(entry: PlanEntry, folder: ComparisonFolder) -> bool:
    """Whether the row's run is finished, or was given as a finished run."""
    return entry.run is not None or folder.run(entry).finished()


def train_row(row: RowContext, stop_requested: StopRequested) -> None:
    """Train or resume the row's run, until a stop is requested; a given run must be finished."""
    if row.entry.run is not None:
        check_finished(row.run)
    if is_trained(row.entry, row.folder):
        return
    recipe = apply_budget(row)
    copy_shared_corpus(row.entry, row.folder)
    train_and_measure(row, recipe, stop_requested)


def train_and_measure(row: RowContext, recipe: TaskRecipe, stop_requested: StopRequested) -> None:
    """Train a recipe in the row's folder, and score it unless a stop is requested."""
    progress = train(
        recipe, row.run, device=row.device, reporter=row.reporter, stop_requested=stop_requested
    )
    if not stop_requested():
        measure_run(recipe, row.run, progress, row.device)


def apply_budget(row: RowContext) -> TranslationRecipe:
    """The row's recipe with the number of steps that the budget allows."""
    # Minutes are converted once per system and saved, so that a resumed run keeps its steps.
    recipe, budget, saved = row.entry.translator, row.plan.budget, row.folder.steps(row.entry)
    if budget.tokens is None and budget.minutes is None:
        return recipe
    if budget.minutes is not None and is_intact(saved):
        steps = load_json(saved, STEPS_ADAPTER, advice="remove it to time again")
        return recipe.with_values({"training.steps": steps})
    copy_shared_corpus(row.entry, row.folder)
    inputs = prepare(
        recipe,
        row.run.path,
        row.reporter.noted,
        device=row.device,
        given=given_tokenizers(recipe),
        resumed=row.run.has_checkpoints(),
    )
    if budget.tokens is not None:
        # The seed decides which pairs share a batch; with one seed all rows of a system agree.
        settings = inputs.recipe.training.model_copy(update={"seed": 0})
        steps = max(1, round(budget.tokens / inputs.fitting.tokens_per_step(settings)))
    else:
        assert budget.minutes is not None
        row.reporter.noted("timing some steps")
        steps = max(1, round(60 * budget.minutes / row.time_steps(inputs).seconds))
        write_atomic(saved, json.dumps(steps).encode())
    return recipe.with_values({"training.steps": steps})


def prepare_shared_corpus(
    plan: ComparisonPlan, folder: ComparisonFolder, note: Notify
) -> PreparedData:
    """The data of all rows. Raises an error unless they are the same, including held-out splits."""
    new = not folder.corpora.exists()

    def data_of(entry: PlanEntry) -> PreparedData:
        if entry.run is not None:
            return load_data(folder.data(entry, plan))
        return prepare_data(entry.translator, folder.corpus(entry.translator).data, note)

    first, *others = sorted(plan.entries, key=lambda entry: entry.is_imported)
    shared = data_of(first)
    for entry in others:
        digest = data_of(entry).digest
        if digest != shared.digest:
            if new:
                remove_tree(folder.corpora)
            raise CorpusError(
                f"{first.name} and {entry.name} are not trained on the same corpus: the SHA-256 of "
                f"the cleaned texts begins with {shared.digest[:12]} for one and {digest[:12]} for "
                f"the other; train all of them on one, with --corpus NAME, --data FILE, or "
                "--source FILE and --target FILE"
            )
    return shared


def copy_shared_corpus(entry: PlanEntry, folder: ComparisonFolder) -> None:
    """Copy the shared data into the row's run, unless it has data already."""
    run = folder.run(entry)
    if (run.data / PREPARED_FILE).exists():
        return
    run.create()
    shared = folder.corpus(entry.translator).data
    # prepared.json comes last: it marks the copy as complete
    for file in sorted(shared.iterdir(), key=lambda file: file.name == PREPARED_FILE):
        check_file(file)
        with file.open("rb") as content, atomic_file(run.data / file.name) as copy:
            shutil.copyfileobj(content, copy)
