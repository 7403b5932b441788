"""One row, from its recipe to a trained run: the part of a comparison that takes long."""

import torch

from regard.comparison.budget import recipe_within
from regard.comparison.corpus import give_data
from regard.comparison.folder import ComparisonFolder
from regard.comparison.plan import Entry, Plan, check_finished
from regard.recipes.assemble import TrainingReporter, train
from regard.serving.scoring import finish_run
from regard.training.loop import StopAsked


def trained(entry: Entry, folder: ComparisonFolder) -> bool:
    """Whether there is nothing to train: the row's run is finished, or was when it was given."""
    return entry.run is not None or folder.run(entry).finished()


def train_row(
    entry: Entry,
    plan: Plan,
    folder: ComparisonFolder,
    *,
    device: torch.device,
    reporter: TrainingReporter,
    stop_asked: StopAsked,
) -> None:
    """Train the row's run from where it stands to its end, or until asked to stop.

    A run that was given as finished must still be: since then it may have been trained on.
    """
    if entry.run is not None:
        check_finished(folder.run(entry))
    if trained(entry, folder):
        return
    recipe = recipe_within(entry, plan.budget, folder, device=device, reporter=reporter)
    give_data(entry, folder)
    home = folder.run(entry)
    progress = train(recipe, home, device=device, reporter=reporter, stop_asked=stop_asked)
    if not stop_asked():
        finish_run(home, progress, device)
