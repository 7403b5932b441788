"""Tensors on disk: written whole or not at all, and recognised when damaged. No pickle."""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.atomic_io import remove_file, remove_part_files, write_atomic
from regard.errors import RunError
from regard.json_files import describe_error, dump_json, parse_json
from regard.manifest import check_file
from regard.training.progress import Progress

CHECKPOINT_NAME = re.compile(r"step-(\d+)-([0-9a-f]{16})\.safetensors")


class Checkpoint(NamedTuple):
    """All that is needed to go on as if nothing had happened."""

    tensors: dict[str, Tensor]
    progress: Progress


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write the weights of a model."""
    write_atomic(path, safetensors.torch.save(_to_cpu(weights)))


def load_weights(path: Path) -> dict[str, Tensor]:
    """The weights of a model, on the CPU; an error if they are not what was written."""
    check_file(path)
    try:
        return safetensors.torch.load_file(path)
    except FileNotFoundError:
        raise RunError(f"{path}: no such file; has the run been trained?") from None
    except (SafetensorError, OSError) as error:
        raise RunError(f"{path}: damaged or not a safetensors file: {error}") from None


def check_finite(path: Path, weights: Mapping[str, Tensor]) -> None:
    """An error if there is a weight that is no number, with which a model says anything."""
    if not all(tensor.sum(dtype=torch.float64).isfinite() for tensor in weights.values()):
        raise RunError(
            f"{path}: holds weights that are not finite numbers, so that nothing it says would "
            "mean anything: its training has diverged; train with a lower learning rate"
        )


def save_checkpoint(folder: Path, step: int, checkpoint: Checkpoint, *, keep: int) -> Path:
    """Write a checkpoint and remove all but those of the newest `keep` steps.

    A digest of the content is part of the file's name, so that a file says of itself whether it
    is whole.
    """
    metadata = {"progress": dump_json(checkpoint.progress.write())}
    content = safetensors.torch.save(_to_cpu(checkpoint.tensors), metadata=metadata)
    path = folder / f"step-{step:09d}-{_digest(content)}.safetensors"
    write_atomic(path, content)
    others = [old for old in list_checkpoints(folder) if old != path]
    same_step = [old for old in others if old.name.startswith(f"step-{step:09d}-")]
    older = [old for old in others if old not in same_step]
    for old in (*same_step, *older[keep - 1 :]):
        remove_file(old)
    remove_part_files(folder)
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints, newest first."""
    found = (p for p in folder.glob("step-*") if CHECKPOINT_NAME.fullmatch(p.name) and p.is_file())
    return sorted(found, reverse=True)


def read_progress(folder: Path) -> list[Progress]:
    """What the checkpoints of a folder say of their progress, without their tensors."""
    found = []
    for path in list_checkpoints(folder):
        gone = FileNotFoundError  # whoever trains there has newer ones by now
        with suppress(SafetensorError, gone), safe_open(path, framework="pt") as file:
            found.append(_parse_progress(path, file.metadata()))
    return found


def last_progress(folder: Path) -> Progress | None:
    """Where a run stands by the newest checkpoint in its `folder`; None: there is no checkpoint."""
    return next(iter(read_progress(folder / "checkpoints")), None)


def _parse_progress(path: Path, metadata: Mapping[str, str] | None) -> Progress:
    """Where a whole checkpoint says that its run stands."""
    try:
        return Progress.read(parse_json((metadata or {}).get("progress", "")))
    except ValueError as error:
        raise RunError(
            f"{path}: the checkpoint was written by another version of regard, or forged "
            f"({describe_error(error)}); train in another folder"
        ) from None


class FoundCheckpoint(NamedTuple):
    """The newest whole checkpoint, and the damaged ones that were passed over."""

    checkpoint: Checkpoint | None
    damaged: list[Path]


def find_checkpoint(folder: Path) -> FoundCheckpoint:
    """Read the newest checkpoint that is whole."""
    damaged: list[Path] = []
    for path in list_checkpoints(folder):
        if not digest_matches(path):
            damaged.append(path)
            continue
        try:
            with safe_open(path, framework="pt") as file:
                progress = _parse_progress(path, file.metadata())
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except SafetensorError:  # the name is of what it holds, which is no checkpoint
            damaged.append(path)
            continue
        return FoundCheckpoint(Checkpoint(tensors, progress), damaged)
    return FoundCheckpoint(None, damaged)


def digest_matches(checkpoint: Path) -> bool:
    """Whether a checkpoint holds what its name says."""
    match = CHECKPOINT_NAME.fullmatch(checkpoint.name)
    return match is not None and _digest(checkpoint.read_bytes()) == match.group(2)


def _to_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
