"""A budget in tokens or minutes -> the steps that a schedule needs to know beforehand."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from pydantic import PositiveInt, TypeAdapter

from regard.atomic_io import write_atomic
from regard.batching.batch_sampler import epoch_batches
from regard.batching.sampler import within_max_tokens
from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.plan import Budget, PlanEntry
from regard.comparison.shared_corpus import copy_shared_corpus
from regard.corpora.token_store import TokenStore
from regard.errors import RunError
from regard.json_files import describe_error, read_json
from regard.manifest import is_intact
from regard.recipes.dry_run import time_steps
from regard.recipes.prepared_data import prepare
from regard.recipes.recipe import Recipe
from regard.recipes.run_folder import RunFolder
from regard.training.loop import Reporter, TrainingSettings

STEPS_ADAPTER: TypeAdapter[int] = TypeAdapter(PositiveInt)


def tokens_per_step(store: TokenStore, settings: TrainingSettings) -> float:
    """Target tokens, EOS included, of a step of training, on average over the first epoch."""
    lengths = store.lengths()
    fitting = np.flatnonzero(within_max_tokens(lengths, settings.max_tokens))
    source, target = lengths.source[fitting] + 1, lengths.target[fitting] + 1  # with EOS or BOS
    plan = epoch_batches(source, target, budget=settings.batch_tokens, seed=settings.seed, epoch=0)
    return float(target.sum()) / len(plan) * settings.accumulate


def apply_budget(
    entry: PlanEntry,
    budget: Budget,
    folder: ComparisonFolder,
    *,
    device: torch.device,
    reporter: Reporter,
) -> Recipe:
    """The entry's recipe with as many steps as the budget allows.

    Minutes are timed once for all seeds of a system, and remembered: a run that is taken up again
    must end where it was to end.
    """
    if budget.tokens is None and budget.minutes is None:
        return entry.recipe
    known = folder.steps(entry)
    if budget.minutes is not None and is_intact(known):
        return _with_steps(entry.recipe, _load_steps(known))
    copy_shared_corpus(entry, folder)
    prepared = prepare(entry.recipe, folder.run(entry), reporter.noted, device=device)
    if budget.tokens is not None:
        # The seed decides which pairs share a batch, and so the mean: one for all of a system.
        settings = prepared.recipe.training.model_copy(update={"seed": 0})
        steps = round(budget.tokens / tokens_per_step(prepared.train, settings))
        return _with_steps(entry.recipe, steps)
    assert budget.minutes is not None
    reporter.noted("timing some steps")
    with TemporaryDirectory(prefix="regard-timing-") as temporary:
        timed = time_steps(prepared, RunFolder(Path(temporary)), device=device)
    steps = max(1, round(60 * budget.minutes / timed.seconds))
    write_atomic(known, json.dumps(steps).encode())
    return _with_steps(entry.recipe, steps)


def _load_steps(file: Path) -> int:
    """The steps that were timed before."""
    try:
        return read_json(file, STEPS_ADAPTER)
    except (OSError, ValueError) as error:
        raise RunError(
            f"{file}: damaged: {describe_error(error)}; remove it to time again"
        ) from None


def _with_steps(recipe: Recipe, steps: int) -> Recipe:
    return recipe.with_values({"training.steps": max(1, steps)})
