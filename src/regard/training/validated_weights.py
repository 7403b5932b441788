"""The weights of a run that validation has kept: where they are, and which are whole."""

from collections.abc import Callable, Sequence
from pathlib import Path

from regard.manifest import is_intact
from regard.training.checkpoints import read_progress


def validated_weights_path(folder: Path, step: int) -> Path:
    """Where a run has the weights of a validated step, while a checkpoint names them as best."""
    return folder / "weights" / f"step-{step:09d}.safetensors"


def best_weights(folder: Path) -> list[Path]:
    """The weights that the newest checkpoint of a run names as best, the best first."""
    newest = read_progress(folder / "checkpoints")[:1]
    return [validated_weights_path(folder, step) for one in newest for _, step in one.best]


def intact_weights(paths: Sequence[Path], note: Callable[[str], None]) -> list[Path]:
    """Those of some weights that are there and as they were written; the others are noted."""
    whole = [path for path in paths if is_intact(path)]
    for path in paths:
        if path not in whole:
            state = "damaged" if path.exists() else "lost"
            note(f"{path} is {state}; the others do without it")
    return whole
