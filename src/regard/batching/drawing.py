"""Which pairs come when, as ids: all of a batch that is made without torch.

So a process that makes nothing else starts in no time.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.batching.plan import plan_epoch
from regard.corpora.store import Lengths, TokenPairs, TokenStore
from regard.text.build import Tokenizers
from regard.text.flat import Flat

Resample = Callable[[TokenPairs, int], TokenPairs]
"""Pairs and a seed -> the same texts, cut at random."""


class Position(NamedTuple):
    """A place in the stream: what comes next is batch `batch` of epoch `epoch`, from 0."""

    epoch: int
    batch: int


class Turn(NamedTuple):
    """Which batches one of several makers makes: of each `of`, the one numbered `number`."""

    number: int
    of: int


EVERY = Turn(0, 1)


class Drawn(NamedTuple):
    """The pairs of a batch, and the position behind it."""

    pairs: TokenPairs
    after: Position


def draw_pairs(
    store: TokenStore,
    start: Position,
    *,
    budget: int,
    seed: int,
    max_tokens: int,
    resample: Resample | None = None,
    turn: Turn = EVERY,
) -> Iterator[Drawn]:
    """Batches from `start` on, for ever: the same ones whenever it is asked with the same seed.

    Pairs with a side of more than `max_tokens` tokens are left out. With `resample`, each batch is
    cut afresh; its place in the stream is the seed of that too. With a `turn`, the batches that
    come at these turns alone.
    """
    lengths = store.lengths()
    fitting = np.flatnonzero(fits(lengths, max_tokens))
    source, target = lengths.source[fitting] + 1, lengths.target[fitting] + 1  # with EOS or BOS
    epoch, first = start
    turns = itertools.count()
    while True:
        plan = plan_epoch(source, target, budget=budget, seed=seed, epoch=epoch)
        for number in range(first, len(plan)):
            if next(turns) % turn.of != turn.number:
                continue
            pairs = store.take(fitting[plan[number]])
            if resample is not None:
                draw = np.random.default_rng([seed, epoch, number]).integers(1 << 30)
                pairs = resample(pairs, int(draw))
            last = number + 1 == len(plan)
            yield Drawn(pairs, Position(epoch + 1, 0) if last else Position(epoch, number + 1))
        epoch, first = epoch + 1, 0


def fits(lengths: Lengths, max_tokens: int) -> NDArray[np.bool_]:
    """Which pairs have no side of more than `max_tokens` tokens, EOS or BOS not counted."""
    return np.maximum(lengths.source, lengths.target) <= max_tokens


def resample_pairs(tokenizers: Tokenizers, pairs: TokenPairs, seed: int) -> TokenPairs:
    """The same texts, cut at random by `seed`."""
    if tokenizers.source is not tokenizers.target:
        return TokenPairs(
            tokenizers.source.resample(pairs.source, seed),
            tokenizers.target.resample(pairs.target, seed + 1),
        )
    source, target = pairs
    both = Flat(
        np.concatenate((source.ids, target.ids)), np.concatenate((source.counts, target.counts))
    )
    ids, counts = tokenizers.source.resample(both, seed)  # in one go, which is quicker
    rows = len(source.counts)
    sources = counts[:rows].sum()
    return TokenPairs(Flat(ids[:sources], counts[:rows]), Flat(ids[sources:], counts[rows:]))
