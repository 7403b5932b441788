"""How the input of a run is split, also for runs whose recipe does not say."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from regard.corpora.corpus import Pair
from regard.corpora.segmentation_statistics import measure_segmentation
from regard.recipes.auto_settings import AUTO_INPUT
from regard.recipes.paths import train_files
from regard.text.segmentation import InputSettings

if TYPE_CHECKING:  # it imports torch
    from regard.recipes.recipe import Recipe

SAMPLE_PAIRS = 2000
"""Training pairs read to infer settings."""


def run_input_settings(recipe: "Recipe", run: Path) -> InputSettings:
    """The input settings of a run; those that are `auto` are inferred from its training pairs."""
    auto = [setting.rpartition(".")[2] for setting in AUTO_INPUT if setting in recipe.auto]
    if not auto:
        return recipe.input
    inferred = infer_input_settings(run)
    return recipe.input.model_copy(update={name: getattr(inferred, name) for name in auto})


def infer_input_settings(run: Path) -> InputSettings:
    """Settings inferred from the first training pairs of a run; the defaults if they are gone."""
    try:
        source, target = (file.open(encoding="utf-8") for file in train_files(run))
        with source, target:
            pairs = [
                Pair(*sides) for sides in islice(zip(source, target, strict=False), SAMPLE_PAIRS)
            ]
    except (OSError, ValueError):
        return InputSettings()
    return measure_segmentation(pairs).settings()
