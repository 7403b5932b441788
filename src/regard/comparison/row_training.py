"""One row, from its recipe to a trained run: the part of a comparison that takes long."""

import torch

from regard.comparison.budget import apply_budget
from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.plan import ComparisonPlan, PlanEntry, check_finished
from regard.comparison.shared_corpus import copy_shared_corpus
from regard.pipelines.run_evaluation import finish_run
from regard.recipes.train_run import TrainingReporter, train
from regard.training.loop import StopRequested


def is_trained(entry: PlanEntry, folder: ComparisonFolder) -> bool:
    """Whether there is nothing to train: the row's run is finished, or was when it was given."""
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
    """Train the row's run from where it stands to its end, or until asked to stop.

    A run that was given as finished must still be: since then it may have been trained on.
    """
    if entry.run is not None:
        check_finished(folder.run(entry))
    if is_trained(entry, folder):
        return
    recipe = apply_budget(entry, plan.budget, folder, device=device, reporter=reporter)
    copy_shared_corpus(entry, folder)
    home = folder.run(entry)
    progress = train(recipe, home, device=device, reporter=reporter, stop_requested=stop_requested)
    if not stop_requested():
        finish_run(home, progress, device)
