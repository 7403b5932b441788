"""Which pairs share a batch, and the order of batches; without torch."""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.corpora.token_store import Lengths, TokenPairs, TokenStore
from regard.text.build import Tokenizers
from regard.text.ragged import Ragged

T = TypeVar("T")
RowIndices = NDArray[np.int64]  # row numbers of a token store
SampleSegmentation = Callable[[TokenPairs, int], TokenPairs]
"""Pairs and a seed -> the same texts with sampled segmentations."""


class StreamPosition(NamedTuple):
    """A position in the stream: the next batch is `batch` of `epoch`, from 0."""

    epoch: int
    batch: int


class Shard(NamedTuple):
    """The part of a stream for one of several processes: each `of`-th item, from `number` on."""

    number: int
    of: int

    def take(self, items: Iterator[T]) -> Iterator[T]:
        """The items of this part."""
        return itertools.islice(items, self.number, None, self.of)

    def split(self, count: int) -> "list[Shard]":
        """This part, dealt out to `count` processes in turn."""
        return [Shard(self.number + n * self.of, count * self.of) for n in range(count)]


WHOLE_STREAM = Shard(0, 1)


class SampledPairs(NamedTuple):
    """The pairs of a batch, and the position in the stream after it."""

    pairs: TokenPairs
    next_position: StreamPosition


def sample_batches(
    store: TokenStore,
    start: StreamPosition,
    *,
    budget: int,
    seed: int,
    max_tokens: int,
    sample_segmentation: SampleSegmentation | None = None,
    shard: Shard = WHOLE_STREAM,
) -> Iterator[SampledPairs]:
    """An endless stream of batches from `start` on, determined by the seed; with a `shard`, only
    its batches. Pairs with more than `max_tokens` tokens on either side are left out. With
    `sample_segmentation`, each batch is segmented anew, seeded by its position.
    """
    lengths = store.lengths()
    fitting = np.flatnonzero(within_max_tokens(lengths, max_tokens))
    source, target = lengths.source[fitting] + 1, lengths.target[fitting] + 1  # with EOS or BOS
    epoch, first = start
    batch_numbers = itertools.count()
    while True:
        batches = epoch_batches(source, target, budget=budget, seed=seed, epoch=epoch)
        for number in range(first, len(batches)):
            if next(batch_numbers) % shard.of != shard.number:
                continue
            pairs = store.take(fitting[batches[number]])
            if sample_segmentation is not None:
                segmentation_seed = np.random.default_rng([seed, epoch, number]).integers(1 << 30)
                pairs = sample_segmentation(pairs, int(segmentation_seed))
            behind = (epoch, number + 1) if number + 1 < len(batches) else (epoch + 1, 0)
            yield SampledPairs(pairs, StreamPosition(*behind))
        epoch, first = epoch + 1, 0


def epoch_batches(
    source: NDArray[np.int32], target: NDArray[np.int32], *, budget: int, seed: int, epoch: int
) -> list[RowIndices]:
    """Every row once, in batches of similar lengths, determined by `seed` and `epoch`.

    `source` and `target` (N,) are lengths with EOS or BOS. The rows of a batch times its longest
    side stay within `budget`, unless a single row is longer.
    """
    rng = np.random.default_rng([seed, epoch])
    shuffled = rng.permutation(len(source))  # decides which rows of equal lengths share a batch
    batches = _split_by_budget(shuffled, source, target, budget)
    return [batches[index] for index in rng.permutation(len(batches))]


def length_sorted_batches(
    source: NDArray[np.int32], target: NDArray[np.int32], *, budget: int
) -> list[RowIndices]:
    """Every row once, shortest first: for validation, where order does not matter."""
    return _split_by_budget(np.arange(len(source)), source, target, budget)


def _split_by_budget(
    rows: RowIndices, source: NDArray[np.int32], target: NDArray[np.int32], budget: int
) -> list[RowIndices]:
    """`rows`, stably sorted by their longer side, then the other, in batches as `budget` allows."""
    longer, shorter = np.maximum(source, target)[rows], np.minimum(source, target)[rows]
    rows = rows[np.lexsort((shorter, longer))]
    longest = np.maximum(source, target)[rows].astype(np.int64)  # ascending
    batches, first = [], 0
    while first < len(rows):
        max_rows = max(1, budget // max(1, int(longest[first])))
        some = longest[first : first + max_rows]
        cost = some * np.arange(1, len(some) + 1)
        num_rows = max(1, int(np.searchsorted(cost, budget, side="right")))
        batches.append(rows[first : first + num_rows])
        first += num_rows
    return batches


def within_max_tokens(lengths: Lengths, max_tokens: int) -> NDArray[np.bool_]:
    """Which pairs have at most `max_tokens` tokens on each side, not counting EOS or BOS."""
    return np.maximum(lengths.source, lengths.target) <= max_tokens


def sample_segmentations(tokenizers: Tokenizers, pairs: TokenPairs, seed: int) -> TokenPairs:
    """The same texts with segmentations sampled by `seed`."""
    if tokenizers.source is not tokenizers.target:
        return TokenPairs(
            tokenizers.source.sample_segmentation(pairs.source, seed),
            tokenizers.target.sample_segmentation(pairs.target, seed + 1),
        )
    source, target = pairs
    both = Ragged(
        np.concatenate((source.ids, target.ids)), np.concatenate((source.counts, target.counts))
    )
    ids, counts = tokenizers.source.sample_segmentation(both, seed)  # one call is faster
    rows = len(source.counts)
    num_source = counts[:rows].sum()
    return TokenPairs(
        Ragged(ids[:num_source], counts[:rows]), Ragged(ids[num_source:], counts[rows:])
    )
