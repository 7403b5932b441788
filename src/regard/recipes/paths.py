"""Paths in a run's folder, for modules that must not import torch."""

from pathlib import Path

RECIPE_FILE = "recipe.yaml"
EXPORT_INFO = "export.json"  # found in the folder of an export, but not of a run
NAMED_WEIGHTS = ("best", "last", "average")  # weights that a finished run keeps beside its model


def weights_file(run: Path, name: str) -> Path:
    """The weights called `name`: model, best, last, average; or those in a file."""
    if name == "model":
        return run / "model.safetensors"
    if name in NAMED_WEIGHTS:
        return run / "weights" / f"{name}.safetensors"
    return Path(name)
