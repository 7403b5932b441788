"""The corpus that the translators of a comparison share, and the steps that a budget allows."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import PositiveInt, TypeAdapter

from regard.atomic_io import atomic_file, remove_tree, write_atomic
from regard.comparison.plan import ComparisonFolder, ComparisonPlan, PlanEntry
from regard.comparison.rows import RowContext
from regard.corpora.pair_texts import PREPARED_FILE, PreparedData
from regard.corpora.token_store import fingerprint
from regard.errors import CorpusError, SettingsError
from regard.json_files import load_json
from regard.manifest import check_file, is_intact
from regard.recipes.run_folder import RunFolder, load_data
from regard.recipes.transfer.start_run import given_tokenizers
from regard.tasks.contracts import Notify
from regard.tasks.translation.auto_settings import AUTO_CLEANING
from regard.tasks.translation.needed import require_translation
from regard.tasks.translation.prepared_data import prepare_data
from regard.tasks.translation.recipe import TranslationRecipe
from regard.tasks.translation.training_inputs import TrainingInputs, prepare
from regard.tasks.translation.trial.dry_run import TimedSteps, time_steps

STEPS_ADAPTER: TypeAdapter[int] = TypeAdapter(PositiveInt)


def time_row_steps(row: RowContext, inputs: TrainingInputs) -> TimedSteps:
    """The speed of training steps, measured in a temporary folder."""
    with TemporaryDirectory(prefix="regard-timing-") as temporary:
        return time_steps(inputs, RunFolder(Path(temporary)), device=row.device)


def apply_budget(row: RowContext) -> TranslationRecipe:
    """The row's recipe with the number of steps that the budget allows."""
    # Minutes are converted once per system and saved, so that a resumed run keeps its steps.
    recipe = require_translation(row.entry.recipe, row.entry.name)
    budget, saved = row.plan.budget, row.folder.steps(row.entry)
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
        steps = max(1, round(60 * budget.minutes / time_row_steps(row, inputs).seconds))
        write_atomic(saved, json.dumps(steps).encode())
    return recipe.with_values({"training.steps": steps})


def prepare_shared_corpus(
    plan: ComparisonPlan, folder: ComparisonFolder, note: Notify
) -> PreparedData:
    """The data of all rows. Raises an error unless they are the same, including held-out splits."""
    new = not folder.corpora.exists()

    def data_of(entry: PlanEntry) -> PreparedData:
        if entry.run is not None:
            return load_data(data_run(entry, plan, folder))
        recipe = require_translation(entry.recipe, entry.name)
        return prepare_data(recipe, corpus_run(entry, folder).data, note)

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


def corpus_run(entry: PlanEntry, folder: ComparisonFolder) -> RunFolder:
    """The cleaned corpus of a row's recipe, as a run folder without a model."""
    recipe = require_translation(entry.recipe, entry.name)
    auto = [setting for setting in recipe.auto if setting in AUTO_CLEANING]
    name = fingerprint(recipe.corpus.model_dump_json(), *auto)[:12]
    return RunFolder(folder.corpora / name)


def data_run(entry: PlanEntry, plan: ComparisonPlan, folder: ComparisonFolder) -> RunFolder:
    """The run whose data a row is measured on: its own, or another one for an imported run,
    which has none.
    """
    if not entry.is_imported:
        return folder.run(entry)
    own = next((one for one in plan.entries if not one.is_imported), None)
    if own is None:
        raise SettingsError(
            "all of these runs were imported, and have no data to be compared on: compare them "
            "with a run that has, or use `regard evaluate --against`"
        )
    return folder.run(own) if own.run is not None else corpus_run(own, folder)


def copy_shared_corpus(entry: PlanEntry, folder: ComparisonFolder) -> None:
    """Copy the shared data into the row's run, unless it has data already."""
    run = folder.run(entry)
    if (run.data / PREPARED_FILE).exists():
        return
    run.create()
    shared = corpus_run(entry, folder).data
    # prepared.json comes last: it marks the copy as complete
    for file in sorted(shared.iterdir(), key=lambda file: file.name == PREPARED_FILE):
        check_file(file)
        with file.open("rb") as content, atomic_file(run.data / file.name) as copy:
            shutil.copyfileobj(content, copy)
