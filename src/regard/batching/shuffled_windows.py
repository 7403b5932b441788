"""Windows of a running text -> batches of independent windows."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.batching.collate import PositionedBatch
from regard.batching.sampler import WHOLE_STREAM, Shard, StreamPosition
from regard.batching.text_windows import window_batch
from regard.errors import CorpusError
from regard.types import Batch, Padded

TokenIds = NDArray[np.integer[Any]]


class ShuffledFirsts(NamedTuple):
    """Where the windows of a batch begin, and the positions of the batch and of the next one."""

    firsts: NDArray[np.int64]  # (B,)
    position: StreamPosition
    next_position: StreamPosition


def shuffled_windows(
    ids: TokenIds,
    start: StreamPosition,
    shard: Shard = WHOLE_STREAM,
    *,
    rows: int,
    length: int,
    seed: int,
) -> Iterator[PositionedBatch]:
    """An endless stream of batches of `rows` windows of `length` from `start` on, in the order of
    `shuffled_firsts`; with a `shard`, only its batches.
    """
    if len(ids) < 2:
        raise CorpusError(f"a text of {len(ids)} tokens is too short to learn from; give more")
    length = min(length, len(ids) - 1)
    firsts = shuffled_firsts(len(ids) - 1, start, rows=rows, length=length, seed=seed)
    for one in shard.take(firsts):
        yield PositionedBatch(_batch(ids, one.firsts, length), one.next_position)


def shuffled_firsts(
    num_tokens: int,
    start: StreamPosition,
    *,
    rows: int,
    length: int,
    seed: int,
    cycle: int | None = None,
) -> Iterator[ShuffledFirsts]:
    """An endless stream of the beginnings of batches of `rows` windows of `length` ≤ `num_tokens`.

    Seed and epoch determine where the first window of an epoch begins and the order of windows;
    after `cycle` epochs, if given, the same windows come again in another order. A text with fewer
    windows than `rows` gives smaller batches; the last, smaller batch of an epoch is left out.
    """
    for epoch in itertools.count(start.epoch):
        rng = np.random.default_rng([seed, epoch])
        spare = num_tokens - length  # the last place where a window can begin
        draw_offset = rng if cycle is None else np.random.default_rng([seed, epoch % cycle])
        offset = int(draw_offset.integers(min(length, spare + 1)))
        firsts = np.arange(offset, num_tokens - length + 1, length)
        firsts = rng.permutation(firsts)
        size = min(rows, len(firsts))
        num_batches = len(firsts) // size
        begin = start.batch if epoch == start.epoch else 0
        for number in range(begin, num_batches):
            chosen = firsts[number * size : (number + 1) * size]
            last = number + 1 == num_batches
            behind = StreamPosition(epoch + 1, 0) if last else StreamPosition(epoch, number + 1)
            yield ShuffledFirsts(chosen, StreamPosition(epoch, number), behind)


def consecutive_windows(
    ids: TokenIds, *, rows: int, length: int, prefix: Sequence[int] = ()
) -> Iterator[Batch[Padded]]:
    """Windows of at most `length` in which every token of a text is a label once, but for the first
    one if there is no `prefix`: ids that each window begins with.
    """
    start = 0 if prefix else 1  # the first label
    step = length - max(0, len(prefix) - 1)  # labels of a window
    firsts = np.arange(start, len(ids), step)
    whole = firsts[firsts + step <= len(ids)]
    for begin in range(0, len(whole), rows):
        yield _label_batch(ids, whole[begin : begin + rows], step, prefix)
    for first in firsts[len(whole) :]:
        yield _label_batch(ids, np.array([first]), len(ids) - int(first), prefix)


def _label_batch(
    ids: TokenIds, firsts: NDArray[np.int64], count: int, prefix: Sequence[int]
) -> Batch[Padded]:
    """Windows of `count` labels that begin at `firsts` (B,), given the `prefix`, or else the token
    before them.
    """
    if not prefix:
        return _batch(ids, firsts - 1, count)
    before = np.broadcast_to(np.array(prefix), (len(firsts), len(prefix)))
    labels = ids[firsts[:, None] + np.arange(count)]
    batch = window_batch(np.concatenate([before, labels], 1))
    places = torch.arange(batch.num_labels).view(len(firsts), -1)[:, len(prefix) - 1 :].flatten()
    return replace(batch, positions=places, labels=batch.labels[places])


def _batch(ids: TokenIds, firsts: NDArray[np.int64], length: int) -> Batch[Padded]:
    """Windows that begin at `firsts` (B,), in which each token is predicted from those
    before it.
    """
    return window_batch(ids[firsts[:, None] + np.arange(length + 1)])
