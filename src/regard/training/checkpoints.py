"""Weights and checkpoints on disk: written whole or not at all, with damage detected. No pickle."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import safetensors.torch
import torch
from pydantic import ConfigDict, NonNegativeInt, TypeAdapter
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.atomic_io import remove_file, remove_part_files, write_atomic
from regard.batching.sampler import StreamPosition
from regard.errors import RunError
from regard.json_files import describe_error, dump_json, parse_json
from regard.manifest import check_file, is_intact

CHECKPOINT_NAME = re.compile(r"step-(\d+)-([0-9a-f]{16})\.safetensors")
ROWS_NAME = re.compile(r"rows-(\d+)-([0-9a-f]{16})\.safetensors")
START = StreamPosition(0, 0)
HALF_TYPES = (torch.float16, torch.bfloat16)
RENAMED_PARAMETERS = {".onward.": ".forward_layer.", ".back.": ".backward_layer."}
"""Parts of parameter names in old weights and checkpoints -> their current names."""


@dataclass(frozen=True)
class Progress:
    """What a checkpoint holds besides its tensors: how far training has got."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", allow_inf_nan=False)

    step: NonNegativeInt = 0
    position: StreamPosition = START
    best: tuple[tuple[float, int], ...] = ()
    """Score and step of the best validations, best first. Higher is better: loss and TER are
    negated."""
    tie_breakers: tuple[float, ...] = ()
    """The tie-breakers of the best scores, in their order; higher is better. Empty: there are
    none."""
    validated: NonNegativeInt = 0  # the step of the last validation
    stale: NonNegativeInt = 0  # validations since the last new best
    seconds: float = 0.0
    threads: int = 0  # of torch: their number decides the order in which sums are taken
    precision: str = ""  # of products; empty in checkpoints of older versions
    ranks: int = 1  # processes that train together
    batches: int = 0  # in a step, of all ranks; 0 in checkpoints of older versions
    history: tuple[float, ...] = ()  # the scores of validations before averaging began
    averaged_from: NonNegativeInt = 0  # the step after which averaging began; 0: it has not

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> "Progress":
        """Parse the progress that `write` wrote. Raises a `ValueError` for anything else."""
        progress = PROGRESS.validate_python(raw)
        if missing := {"step", "position", "best"} - raw.keys():
            raise ValueError(f"it lacks {', '.join(sorted(missing))}")
        if min(progress.position) < 0 or (progress.validated and not progress.best):
            raise ValueError("its numbers contradict each other")
        return progress

    def write(self) -> dict[str, Any]:
        lists = {name: list(getattr(self, name)) for name in ("position", "best", "history")}
        written = {**self.__dict__, **lists, "tie_breakers": list(self.tie_breakers)}
        if not self.tie_breakers:
            del written["tie_breakers"]
        return written

    def resume_notes(self, now: "Progress") -> list[str]:
        """Why a run that is resumed under the circumstances of `now` will not have the same weights
        as an uninterrupted one.
        """
        notes = []
        if self.batches not in (0, now.batches):
            notes.append(
                f"begun with {self.batches} batches a step on {_devices(self.ranks)}, resumed with "
                f"{now.batches} on {_devices(now.ranks)}: steps are larger or smaller from here "
                "on, and the weights will differ from an uninterrupted run's; set "
                "training.accumulate, the batches of each device, to keep the size of a step"
            )
        elif self.ranks != now.ranks:
            notes.append(
                f"begun on {_devices(self.ranks)}, resumed on {_devices(now.ranks)}, with as many "
                "batches a step: the weights will differ from an uninterrupted run's in their last "
                "bits"
            )
        if self.threads != now.threads:
            notes.append(
                f"begun with {self.threads} threads, resumed with {now.threads}: "
                "the weights will differ from an uninterrupted run's in their last bits"
            )
        if self.precision not in ("", now.precision):
            notes.append(
                f"begun in {self.precision}, resumed in {now.precision}: the weights will differ "
                "from an uninterrupted run's; training.precision says which to use"
            )
        return notes


def _devices(count: int) -> str:
    return f"{count} device{'s' if count > 1 else ''}"


PROGRESS = TypeAdapter(Progress)
_NAMES = TypeAdapter(tuple[str, ...])


class Checkpoint(NamedTuple):
    """All that is needed to resume exactly.

    `tensors` has, for each parameter NAME: model.NAME; moving.NAME, its moving average, if there is
    one; and the state of the optimizer: of AdamW step.NAME, exp_avg.NAME, exp_avg_sq.NAME, of Muon
    and of SGD with momentum momentum_buffer.NAME. Then what the loss carries from batch to batch,
    carried.*, and the states of the random generators: rng.cpu and, on a GPU, rng.cuda.
    """

    tensors: Mapping[str, Tensor]
    progress: Progress  # the metadata of the file
    row_files: tuple[str, ...] = ()
    """Files beside it with the rows of sharded tensors, that of rank 0 first."""


class FoundCheckpoint(NamedTuple):
    """The newest intact checkpoint, and the damaged ones that are newer."""

    path: Path | None
    damaged: list[Path]


def save_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write the weights of a model."""
    write_atomic(path, safetensors.torch.save(_to_cpu(weights)))


def load_weights(path: Path) -> dict[str, Tensor]:
    """The weights of a model, on the CPU. Raises an error if the file is damaged.

    Weights stored in 16 bits are converted to float32, in which models are built.
    """
    check_file(path)
    try:
        stored = safetensors.torch.load_file(path)
        in_float32 = {
            name: tensor.float() if tensor.dtype in HALF_TYPES else tensor
            for name, tensor in stored.items()
        }
        return _rename_parameters(in_float32)
    except FileNotFoundError:
        raise RunError(f"{path}: no such file; has the run been trained?") from None
    except (SafetensorError, OSError) as error:
        raise RunError(f"{path}: damaged or not a safetensors file: {error}") from None


def _rename_parameters(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of parameters under their current names."""
    renamed = {}
    for name, tensor in tensors.items():
        for old, new in RENAMED_PARAMETERS.items():
            name = name.replace(old, new)
        renamed[name] = tensor
    return renamed


DIVERGED = "its training has diverged; train with a lower learning rate"


def check_finite(path: Path, weights: Mapping[str, Tensor], advice: str = DIVERGED) -> None:
    """Raise an error with `advice` if a weight is not a finite number."""
    if not all(tensor.sum(dtype=torch.float64).isfinite() for tensor in weights.values()):
        raise RunError(
            f"{path}: holds weights that are not finite numbers, so that none of its outputs would "
            f"mean anything: {advice}"
        )


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in several files, taken in float64."""
    if not paths:
        raise RunError("averaging needs at least one file of weights, got none")
    first = load_weights(paths[0])
    total = {name: tensor.double() for name, tensor in first.items()}
    for path in paths[1:]:
        other = load_weights(path)
        if {n: t.shape for n, t in other.items()} != {n: t.shape for n, t in first.items()}:
            raise RunError(f"{path}: the names or shapes of its weights differ from {paths[0]}")
        for name, tensor in other.items():
            total[name] += tensor
    return {name: (total[name] / len(paths)).to(first[name].dtype) for name in first}


def validated_weights_path(folder: Path, step: int) -> Path:
    """The file with the weights of a validated step, which exists while a checkpoint names it as
    best.
    """
    return folder / validated_weights_name(step)


def validated_weights_name(step: int) -> str:
    """The name of this file in the run's folder."""
    return f"weights/step-{step:09d}.safetensors"


def best_weights(folder: Path) -> list[Path]:
    """The files of weights that the newest checkpoint of a run names as best, the best first."""
    newest = last_progress(folder)
    return [validated_weights_path(folder, step) for _, step in (newest.best if newest else ())]


def intact_weights(paths: Sequence[Path], note: Callable[[str], None]) -> list[Path]:
    """The files of weights that exist and are undamaged; `note` is called for each of the
    others.
    """
    intact = [path for path in paths if is_intact(path)]
    for path in paths:
        if path not in intact:
            state = "damaged" if path.exists() else "lost"
            note(f"{path} is {state}; the others are used without it")
    return intact


def save_checkpoint(folder: Path, step: int, checkpoint: Checkpoint, *, keep: int) -> Path:
    """Write a checkpoint and remove all but those of the newest `keep` steps.

    Its name has a digest of its content, which reveals damage.
    """
    metadata = {"progress": dump_json(checkpoint.progress.write())}
    if checkpoint.row_files:
        metadata["row_files"] = dump_json(checkpoint.row_files)
    content = safetensors.torch.save(_to_cpu(checkpoint.tensors), metadata=metadata)
    path = folder / f"step-{step:09d}-{_digest(content)}.safetensors"
    write_atomic(path, content)
    others = [old for old in list_checkpoints(folder) if old != path]
    same_step = [old for old in others if old.name.startswith(f"step-{step:09d}-")]
    older = [old for old in others if old not in same_step]
    for old in (*same_step, *older[keep - 1 :]):
        remove_file(old)
    needed = {name for one in list_checkpoints(folder) for name in _row_files(one)}
    for rows in folder.glob("rows-*.safetensors"):
        if rows.name not in needed:
            remove_file(rows)
    remove_part_files(folder)
    return path


def save_rows(folder: Path, step: int, tensors: Mapping[str, Tensor]) -> str:
    """Write this rank's rows of sharded tensors; returns the digest in the name of the file."""
    content = safetensors.torch.save(_to_cpu(tensors))
    digest = _digest(content)
    write_atomic(folder / rows_name(step, digest), content)
    return digest


def rows_name(step: int, digest: str) -> str:
    """The name of a file of rows, which belongs to the checkpoint that names it."""
    return f"rows-{step:09d}-{digest}.safetensors"


def _row_files(checkpoint: Path) -> list[str]:
    """The names of the files of rows that belong to a checkpoint."""
    # ValueError: the checkpoint is forged
    with suppress(SafetensorError, OSError, ValueError), safe_open(checkpoint, "pt") as file:
        listed = (file.metadata() or {}).get("row_files", "[]")
        return [name for name in _NAMES.validate_json(listed) if ROWS_NAME.fullmatch(name)]
    return []


def list_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints, newest first."""
    found = (p for p in folder.glob("step-*") if CHECKPOINT_NAME.fullmatch(p.name) and p.is_file())
    return sorted(found, reverse=True)


def read_progress(folder: Path) -> list[Progress]:
    """The progress of each checkpoint of a folder, newest first; tensors are not read."""
    found = []
    for path in list_checkpoints(folder):
        # FileNotFoundError: a training process has removed it meanwhile
        with suppress(SafetensorError, FileNotFoundError), safe_open(path, "pt") as file:
            found.append(_parse_progress(path, file.metadata()))
    return found


def last_progress(folder: Path) -> Progress | None:
    """The progress of a run according to its newest checkpoint; None: there is no checkpoint."""
    return next(iter(read_progress(folder / "checkpoints")), None)


def _parse_progress(path: Path, metadata: Mapping[str, str] | None) -> Progress:
    try:
        return Progress.read(parse_json((metadata or {}).get("progress", "")))
    except ValueError as error:
        raise RunError(
            f"{path}: the checkpoint was written by another version of regard, or forged "
            f"({describe_error(error)}); train in another folder"
        ) from None


def find_checkpoint(folder: Path) -> FoundCheckpoint:
    """The newest intact checkpoint."""
    damaged: list[Path] = []
    for path in list_checkpoints(folder):
        with suppress(SafetensorError):  # the name is forged, and the content not a checkpoint
            if digest_matches(path):
                with safe_open(path, framework="pt") as file:
                    _parse_progress(path, file.metadata())
                return FoundCheckpoint(path, damaged)
        damaged.append(path)
    return FoundCheckpoint(None, damaged)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint that `find_checkpoint` has found."""
    try:
        with safe_open(path, framework="pt") as file:
            progress = _parse_progress(path, file.metadata())
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        names = _row_files(path)
        rows = [safe_open(path.parent / name, "pt") for name in names]
    except FileNotFoundError:
        raise RunError(
            f"{path}: not found here: the run's folder must be one that all devices share"
        ) from None
    whole = _rename_parameters(tensors)
    return Checkpoint(_JoinedRows(whole, rows) if rows else whole, progress, tuple(names))


class _JoinedRows(Mapping[str, Tensor]):
    """The tensors of a checkpoint, some of which are sharded. These are read and joined on access,
    since all of them together may not fit into a host's memory.
    """

    def __init__(self, whole: Mapping[str, Tensor], files: Sequence[Any]) -> None:
        self._whole, self._files = whole, files
        self._sharded = set(files[0].keys())

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._sharded:
            return self._whole[name]
        return torch.cat([file.get_tensor(name) for file in self._files])

    def __contains__(self, name: object) -> bool:
        return name in self._sharded or name in self._whole

    def __iter__(self) -> Iterator[str]:
        return iter((*self._whole, *self._sharded))

    def __len__(self) -> int:
        return len(self._whole) + len(self._sharded)


def digest_matches(checkpoint: Path) -> bool:
    """Whether the contents of a checkpoint and of its files of rows match the digests in their
    names.
    """
    match = CHECKPOINT_NAME.fullmatch(checkpoint.name)
    if match is None or _digest(checkpoint.read_bytes()) != match.group(2):
        return False
    rows = [checkpoint.parent / name for name in _row_files(checkpoint)]
    return all(file.is_file() and _rows_match(file) for file in rows)


def _rows_match(rows: Path) -> bool:
    match = ROWS_NAME.fullmatch(rows.name)
    return match is not None and _digest(rows.read_bytes()) == match.group(2)


def _to_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
