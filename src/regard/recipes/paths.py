"""Where in a run's folder things lie, for those who need not read them all."""

from pathlib import Path

RECIPE_FILE = "recipe.yaml"
EXPORT_INFO = "export.json"
"""What the folder of an export holds, and that of a run does not."""
NAMED_WEIGHTS = ("best", "last", "average")
"""Weights that a finished run keeps beside those of its model."""


def weights_file(run: Path, name: str) -> Path:
    """The weights called `name`: model, best, last, average; or those in a file."""
    if name == "model":
        return run / "model.safetensors"
    if name in NAMED_WEIGHTS:
        return run / "weights" / f"{name}.safetensors"
    return Path(name)


def train_files(run: Path) -> tuple[Path, Path]:
    """The cleaned training pairs of a run, source and target, if they are still there."""
    return run / "data" / "train.source.txt", run / "data" / "train.target.txt"
