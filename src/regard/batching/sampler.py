"""Which pairs come when, as ids: all of a batch that is made without torch.

So a process that makes nothing else starts in no time.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.batching.batch_sampler import epoch_batches
from regard.corpora.token_store import Lengths, TokenPairs, TokenStore
from regard.text.build import Tokenizers
from regard.text.ragged import Ragged

SampleSegmentation = Callable[[TokenPairs, int], TokenPairs]
"""Pairs and a seed -> the same texts, cut at random."""


class StreamPosition(NamedTuple):
    """A place in the stream: what comes next is batch `batch` of epoch `epoch`, from 0."""

    epoch: int
    batch: int


class Shard(NamedTuple):
    """Which batches one of several makers makes: of each `of`, the one numbered `number`."""

    number: int
    of: int


WHOLE_STREAM = Shard(0, 1)


class SampledPairs(NamedTuple):
    """The pairs of a batch, and the position behind it."""

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
    """Batches from `start` on, for ever: the same ones whenever it is asked with the same seed.

    Pairs with a side of more than `max_tokens` tokens are left out. With `resample`, each batch is
    cut afresh; its place in the stream is the seed of that too. With a `turn`, the batches that
    come at these turns alone.
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
                resample_seed = np.random.default_rng([seed, epoch, number]).integers(1 << 30)
                pairs = sample_segmentation(pairs, int(resample_seed))
            last = number + 1 == len(batches)
            yield SampledPairs(
                pairs, StreamPosition(epoch + 1, 0) if last else StreamPosition(epoch, number + 1)
            )
        epoch, first = epoch + 1, 0


def within_max_tokens(lengths: Lengths, max_tokens: int) -> NDArray[np.bool_]:
    """Which pairs have no side of more than `max_tokens` tokens, EOS or BOS not counted."""
    return np.maximum(lengths.source, lengths.target) <= max_tokens


def sample_segmentations(tokenizers: Tokenizers, pairs: TokenPairs, seed: int) -> TokenPairs:
    """The same texts, cut at random by `seed`."""
    if tokenizers.source is not tokenizers.target:
        return TokenPairs(
            tokenizers.source.sample_segmentation(pairs.source, seed),
            tokenizers.target.sample_segmentation(pairs.target, seed + 1),
        )
    source, target = pairs
    both = Ragged(
        np.concatenate((source.ids, target.ids)), np.concatenate((source.counts, target.counts))
    )
    ids, counts = tokenizers.source.sample_segmentation(both, seed)  # in one go, which is quicker
    rows = len(source.counts)
    sources = counts[:rows].sum()
    return TokenPairs(Ragged(ids[:sources], counts[:rows]), Ragged(ids[sources:], counts[rows:]))
