"""Model soups: the mean of the weights of runs that were fine-tuned from the same weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import SettingsError
from regard.recipes.open_run import Run, open_run
from regard.recipes.run_folder import find_weights
from regard.training.checkpoints import average_weights, load_weights
from regard.training.loop import Selection, Validate


class Ingredient(NamedTuple):
    """A run that was tried in a soup."""

    run: Path
    alone: float  # its own score in validation
    mixed: float  # the score of the soup with it
    kept: bool


class Soup(NamedTuple):
    """The mean of the weights of the runs that were kept."""

    weights: Mapping[str, Tensor]
    ingredients: tuple[Ingredient, ...]  # in the order in which they were tried
    selection: Selection  # the validation score that decided


def greedy_soup(paths: Sequence[Path], *, device: torch.device) -> Soup:
    """The greedy soup (Wortsman et al. 2022) of runs: the best one, and each of the others, best
    first, if adding it to the mean does not lower the validation score.

    The scores are those of the first run's validation data.
    """
    runs = [_load(path, device) for path in paths]
    for run in runs[1:]:
        _check_alike(runs[0], run)
    scorer = _ValidationScorer(runs[0])
    files = [find_weights(run.folder, "model") for run in runs]
    alone = [scorer.score(load_weights(file)) for file in files]
    order = sorted(range(len(runs)), key=lambda n: scorer.rank(alone[n]), reverse=True)
    kept, best = [order[0]], alone[order[0]]
    tried = [Ingredient(paths[order[0]], best, best, kept=True)]
    for number in order[1:]:
        mixed = scorer.score(average_weights([files[n] for n in (*kept, number)]))
        helps = scorer.rank(mixed) >= scorer.rank(best)
        tried.append(Ingredient(paths[number], alone[number], mixed, helps))
        if helps:
            kept, best = [*kept, number], mixed
    return Soup(average_weights([files[n] for n in kept]), tuple(tried), scorer.selection)


class _ValidationScorer:
    """Scores of weights on the validation data of a run."""

    def __init__(self, run: Run) -> None:
        self.model, training = run.model, run.task.training(run.model)
        self.validate: Validate = training.validate
        self.selection: Selection = training.selection

    def score(self, weights: Mapping[str, Tensor]) -> float:
        self.model.load_state_dict(weights)
        return float(self.validate(self.model.eval())[self.selection.name])

    def rank(self, score: float) -> float:
        """The higher the better."""
        return -score if self.selection.lower_is_better else score


def _load(path: Path, device: torch.device) -> Run:
    return open_run(path, device=device)


def _check_alike(first: Run, other: Run) -> None:
    """An error unless two runs have the same model and started from the same weights."""
    one, two = first.folder.path, other.folder.path
    begun = [run.recipe.start and run.recipe.start.weights for run in (first, other)]
    if first.recipe.task != other.recipe.task:
        problem = f"a run of {first.recipe.task} and one of {other.recipe.task}"
    elif None in begun or begun[0] != begun[1]:
        problem = "they did not start from the same weights, by `regard train --from RUN`"
    elif first.recipe.model != other.recipe.model:
        problem = "their models have different settings"
    elif first.task.row_names() != other.task.row_names():
        problem = "they have different vocabularies, labels or counts of n-grams"
    else:
        return
    raise SettingsError(
        f"{one} and {two}: {problem}; the mean of their weights would be meaningless: average runs "
        "that were fine-tuned from the same weights"
    )
