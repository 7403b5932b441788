"""How the lines of a run are taken apart, also of one from before its recipe said so."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from regard.corpora.corpus import Pair
from regard.corpora.segmentation_statistics import measure_segmentation
from regard.recipes.auto_settings import AUTO_INPUT
from regard.recipes.paths import train_files
from regard.text.segmentation import InputSettings

if TYPE_CHECKING:  # which stands on torch
    from regard.recipes.recipe import Recipe

SAMPLE_PAIRS = 2000
"""Training pairs that are read where the recipe does not say."""


def run_input_settings(recipe: "Recipe", run: Path) -> InputSettings:
    """What the recipe of a run says, or where it still says `auto` what its training pairs show."""
    unsaid = [place.rpartition(".")[2] for place in AUTO_INPUT if place in recipe.auto]
    if not unsaid:
        return recipe.input
    learned = infer_input_settings(run)
    return recipe.input.model_copy(update={name: getattr(learned, name) for name in unsaid})


def infer_input_settings(run: Path) -> InputSettings:
    """What the first training pairs of a run show; the defaults where they are gone."""
    try:
        source, target = (file.open(encoding="utf-8") for file in train_files(run))
        with source, target:
            pairs = [
                Pair(*sides) for sides in islice(zip(source, target, strict=False), SAMPLE_PAIRS)
            ]
    except (OSError, ValueError):
        return InputSettings()
    return measure_segmentation(pairs).settings()
