"""Logits that another toolkit computed, stored beside its model.

They stand in for the toolkit if it is not installed.
"""

import warnings
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from regard.atomic_io import read_limited, write_atomic
from regard.errors import RunError, RunWarning
from regard.manifest import sha256

ANSWERS = "regard-answers.safetensors"
NUM_POSITIONS = 16  # positions whose logits are stored, spread over a sample


def write_answers(folder: Path, sample: object, logits: Tensor) -> None:
    """Store some of the logits (N, V) of a sample."""
    metadata = {"sample": _digest(sample)}
    stored = {"logits": _chosen(logits).float().contiguous()}
    write_atomic(folder / ANSWERS, safetensors.torch.save(stored, metadata))


def difference_from_answers(
    folder: Path, sample: object, logits: Tensor, columns: tuple[list[int], list[int]]
) -> float | None:
    """The largest difference of our logits (N, V) of a sample from the stored ones; None if none
    are stored, or for another sample. `columns` are our ids, and theirs, of the same tokens.
    """
    path = folder / ANSWERS
    try:
        content = read_limited(path, "array")
        stored = safetensors.torch.load(content)["logits"]
    except (OSError, SafetensorError, KeyError) as error:
        raise RunError(f"{path}: damaged: {error}") from None
    if _digest(sample).encode() not in content[: 1 << 16]:
        warnings.warn(
            f"{path}: not compared: these are answers to other texts, as of another version of "
            "regard, or of other languages",
            RunWarning,
            stacklevel=1,
        )
        return None
    ours, (here, there) = _chosen(logits), columns
    if stored.ndim != 2 or len(stored) != len(ours) or max(there) >= stored.shape[1]:
        raise RunError(f"{path}: its shape {tuple(stored.shape)} does not fit the model")
    found = (ours[:, here] - stored[:, there]).abs().max().nan_to_num(nan=float("inf"))
    return float(found)


def _chosen(logits: Tensor) -> Tensor:
    """The logits of `NUM_POSITIONS` positions, evenly spread."""
    count = min(NUM_POSITIONS, len(logits))
    return logits[torch.linspace(0, len(logits) - 1, count).long()]


def _digest(sample: object) -> str:
    return sha256(repr(sample).encode())
