"""Which pairs share a batch, and in what order the batches come."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

RowIndices = NDArray[np.int64]
"""Row numbers of a token store."""


def epoch_batches(
    source: NDArray[np.int32], target: NDArray[np.int32], *, budget: int, seed: int, epoch: int
) -> list[RowIndices]:
    """Every row once, in batches of like lengths; `seed` and `epoch` alone decide how.

    `source` and `target` (N,) are the lengths in tokens, with the EOS or BOS that collation adds.
    Rows times the longest side of a batch stay within `budget`, unless one row alone is longer.
    """
    rng = np.random.default_rng([seed, epoch])
    shuffled = rng.permutation(len(source))  # decides which of equally long rows meet
    batches = list(_split_by_budget(_by_length(source, target, shuffled), source, target, budget))
    return [batches[place] for place in rng.permutation(len(batches))]


def length_sorted_batches(
    source: NDArray[np.int32], target: NDArray[np.int32], *, budget: int
) -> list[RowIndices]:
    """Every row once, shortest first: for validation, where order does not matter."""
    rows = np.arange(len(source))
    return list(_split_by_budget(_by_length(source, target, rows), source, target, budget))


def _by_length(
    source: NDArray[np.int32], target: NDArray[np.int32], rows: RowIndices
) -> RowIndices:
    """`rows` by their longer side, then by the other; rows of equal lengths keep their order."""
    longer = np.maximum(source, target)[rows]
    shorter = np.minimum(source, target)[rows]
    return rows[np.lexsort((shorter, longer))]


def _split_by_budget(
    rows: RowIndices, source: NDArray[np.int32], target: NDArray[np.int32], budget: int
) -> Iterator[RowIndices]:
    """Consecutive stretches of `rows`, each as long as the budget allows."""
    longest = np.maximum(source, target)[rows].astype(np.int64)  # ascending
    first = 0
    while first < len(rows):
        max_rows = max(1, budget // max(1, int(longest[first])))
        cost = longest[first : first + max_rows] * np.arange(
            1, len(longest[first : first + max_rows]) + 1
        )
        num_rows = max(1, int(np.searchsorted(cost, budget, side="right")))
        yield rows[first : first + num_rows]
        first += num_rows
