"""Rows of numbers, all of one shape, computed once and kept on disk in parts.

A part is a .npy file that is written whole or not at all, so that a computation that was stopped
can continue. An index with the digests of all parts is written last.
"""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.atomic_io import remove_file, write_atomic
from regard.errors import CorpusError
from regard.iterate import chunked
from regard.json_files import dump_json, read_json
from regard.manifest import digest_or_none, sha256
from regard.settings import Settings

INDEX = "index.json"
PART_ROWS = 250

Array = NDArray[np.generic]
ComputeRows = Callable[[range], Array]  # rows first to last - 1 -> (last - first, ...)


class ArrayIndex(Settings):
    """What a complete store holds."""

    rows: int
    digests: tuple[str, ...]
    """The SHA-256 of each part."""


class ArrayStore:
    """Rows (N, ...) that are read from memory-mapped files."""

    def __init__(self, folder: Path, index: ArrayIndex) -> None:
        self._parts = [
            np.load(_part_file(folder, number), mmap_mode="r", allow_pickle=False)
            for number in range(len(index.digests))
        ]
        self._starts = np.cumsum([0, *(len(part) for part in self._parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def row_shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self._parts[0].shape[1:]
        return shape

    def rows(self, numbers: NDArray[np.intp]) -> Array:
        """The rows of these numbers (B,), which may repeat: (B, ...)."""
        parts = np.searchsorted(self._starts, numbers, side="right") - 1
        picked = np.empty((len(numbers), *self.row_shape), self._parts[0].dtype)
        for part in np.unique(parts):
            here = parts == part
            picked[here] = self._parts[part][numbers[here] - self._starts[part]]
        return picked

    def read_all(self) -> Array:
        """All rows, in memory: (N, ...)."""
        return np.concatenate(self._parts)


def prepare_array_store(
    folder: Path,
    num_rows: int,
    compute: ComputeRows,
    progress: Callable[[int], None] = lambda done: None,
) -> ArrayStore:
    """The store in `folder`, whose name must change whenever the rows would.

    Parts that are missing or damaged are computed; `progress` gets the number of rows done.
    """
    index = _read_index(folder, num_rows)
    if index is None:
        index = _compute_parts(folder, num_rows, compute, progress)
    return ArrayStore(folder, index)


def _compute_parts(
    folder: Path, num_rows: int, compute: ComputeRows, progress: Callable[[int], None]
) -> ArrayIndex:
    if not num_rows:
        raise CorpusError(f"{folder}: there are no rows to compute")
    digests = []
    for number, rows in enumerate(chunked(range(num_rows), PART_ROWS)):
        path, span = _part_file(folder, number), range(rows[0], rows[-1] + 1)
        if not _is_part(path, len(span)):
            values = compute(span)
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise CorpusError(
                    f"rows {span[0]} to {span[-1]} have numbers outside the range of {values.dtype}"
                )
            content = io.BytesIO()
            np.save(content, values, allow_pickle=False)
            write_atomic(path, content.getvalue())
        digests.append(sha256(path.read_bytes()))
        progress(span[-1] + 1)
    index = ArrayIndex(rows=num_rows, digests=tuple(digests))
    write_atomic(folder / INDEX, dump_json(index.model_dump()).encode())
    return index


def _read_index(folder: Path, num_rows: int) -> ArrayIndex | None:
    """The index of a complete store, or None if it is incomplete; damaged parts are removed."""
    try:
        index = read_json(folder / INDEX, ArrayIndex)
    except (OSError, ValueError):
        return None
    complete = index.rows == num_rows
    for number, digest in enumerate(index.digests):
        path = _part_file(folder, number)
        if digest_or_none(path) != digest:
            remove_file(path)
            complete = False
    return index if complete else None


def _is_part(path: Path, num_rows: int) -> bool:
    try:
        return len(np.load(path, mmap_mode="r", allow_pickle=False)) == num_rows
    except (OSError, ValueError, EOFError):
        return False


def _part_file(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npy"
