"""Examples of any kind -> batches of equally many examples of similar lengths."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from regard.batching.collate import PositionedBatch
from regard.batching.sampler import WHOLE_STREAM, Shard, StreamPosition
from regard.types import AnyBatch

POOL_BATCHES = 50
"""The number of batches whose examples are sorted by length together: a batch then has similar
lengths, yet other examples in each epoch."""

Rows = NDArray[np.intp]  # numbers of examples


def example_batches(
    lengths: NDArray[np.intp],
    size: int,
    seed: int,
    make_batch: Callable[[Rows], AnyBatch],
    start: StreamPosition,
    shard: Shard = WHOLE_STREAM,
) -> Iterator[PositionedBatch]:
    """An endless stream of batches of `size` examples from `start` on, determined by the seed; with
    a `shard`, only its batches.

    `lengths` (N,) are the lengths of the examples, all equal if they have none. An epoch leaves out
    the examples that do not fill its last batch.
    """
    for rows, behind in shard.take(_positioned_rows(lengths, size, seed, start)):
        yield PositionedBatch(make_batch(rows), behind)


def _positioned_rows(
    lengths: NDArray[np.intp], size: int, seed: int, start: StreamPosition
) -> Iterator[tuple[Rows, StreamPosition]]:
    """The rows of each batch, and the position after it."""
    epoch, first = start
    while True:
        batches = epoch_batches(lengths, size, seed, epoch)
        for number in range(first, len(batches)):
            behind = (epoch, number + 1) if number + 1 < len(batches) else (epoch + 1, 0)
            yield batches[number], StreamPosition(*behind)
        epoch, first = epoch + 1, 0


def epoch_batches(lengths: NDArray[np.intp], size: int, seed: int, epoch: int) -> list[Rows]:
    """Rows in batches of `size` of similar `lengths` (N,), determined by `seed` and `epoch`."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    size = min(size, len(order))
    order = order[: len(order) // size * size]
    pool = size * POOL_BATCHES
    pools = (order[first : first + pool] for first in range(0, len(order), pool))
    ordered = np.concatenate([rows[np.argsort(lengths[rows], kind="stable")] for rows in pools])
    batches = ordered.reshape(-1, size)
    return [batches[number] for number in rng.permutation(len(batches))]


def shortest_first(lengths: NDArray[np.intp], size: int) -> Iterator[Rows]:
    """Every row once, in batches of `size`: for evaluation."""
    order = np.argsort(lengths, kind="stable")
    return (order[first : first + size] for first in range(0, len(order), size))
