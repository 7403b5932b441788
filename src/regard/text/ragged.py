"""Rows of unequal length, laid end to end in one array."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = Sequence[int] | NDArray[np.int32]
IntArray = NDArray[np.int64]


class Ragged(NamedTuple):
    """B rows of N ids in all."""

    ids: NDArray[np.int32]  # (N,)
    counts: IntArray  # (B,) how many of them are in each row

    def rows(self) -> list[NDArray[np.int32]]:
        """Each row by itself."""
        return np.split(self.ids, np.cumsum(self.counts)[:-1]) if len(self.counts) else []


def flatten(rows: Sequence[Ids]) -> Ragged:
    """The same rows, end to end."""
    counts = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    if any(isinstance(row, np.ndarray) for row in rows):
        arrays: Any = rows
        return Ragged(np.concatenate(arrays, dtype=np.int32, casting="unsafe"), counts)
    return Ragged(np.fromiter(chain.from_iterable(rows), np.int32, int(counts.sum())), counts)


def row_starts(counts: IntArray) -> IntArray:
    """Where each of B rows of `counts` ids begins when they are laid end to end: (B,)."""
    return np.cumsum(counts) - counts


def ragged_arange(first: IntArray, counts: IntArray) -> IntArray:
    """For each of B rows its count of numbers `first`, `first` + 1, …, end to end: (N,)."""
    return np.arange(counts.sum()) + np.repeat(first - row_starts(counts), counts)
