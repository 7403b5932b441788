"""The training set as a mixture: pairs repeated by weight, and joined with their neighbours."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.corpora.corpus import Pair
from regard.corpora.dedup import HashSet, hash_exact_pairs
from regard.iterate import chunked

CHUNK, WEIGHT_SEED, LENGTH_SEED = 8192, 7, 1
"""Pairs processed together; the seeds that decide which are repeated and how many are joined."""
MAX_MIXTURE_COPIES = 16  # of each pair of the corpus; more copies use more mixed-in pairs


def copy_counts(pairs: Sequence[Pair], weight: float) -> NDArray[np.int64]:
    """How often each of `pairs` is used (N,): `weight`, rounded up or down by the pair's hash."""
    drawn = hash_exact_pairs(pairs, seed=WEIGHT_SEED) / 2.0**64  # (N,) from 0 to 1
    return np.floor(weight + 1 - drawn).clip(int(weight), np.ceil(weight)).astype(np.int64)


class CorpusWeighting:
    """Repeats training pairs by the weight of their part.

    Weights below 1 subsample before pairs are held out, weights above 1 repeat pairs after that.
    """

    def __init__(self) -> None:
        self._oversampled: list[tuple[float, HashSet]] = []

    def subsample(self, pairs: Iterable[Pair], weight: float) -> Iterator[Pair]:
        """The pairs of a part that are used at least once, each once."""
        oversampled = HashSet()
        if weight > 1:
            self._oversampled.append((weight, oversampled))
        for chunk in chunked(pairs, CHUNK):
            if weight > 1:
                oversampled.add_new(hash_exact_pairs(_stripped(chunk)))
            used = copy_counts(chunk, weight) > 0 if weight < 1 else [True] * len(chunk)
            yield from (pair for pair, is_used in zip(chunk, used, strict=True) if is_used)

    def oversample(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs, repeated by the weights of their parts; copies come at the end of a chunk."""
        if not self._oversampled:
            yield from pairs
            return
        for chunk in chunked(pairs, CHUNK):
            hashes = hash_exact_pairs(_stripped(chunk))
            times = np.ones(len(chunk), np.int64)
            for weight, oversampled in reversed(self._oversampled):
                times = np.where(oversampled.contains(hashes), copy_counts(chunk, weight), times)
            for turn in range(int(times.max())):
                yield from (chunk[place] for place in np.flatnonzero(times > turn))


class Mixture(NamedTuple):
    """How often pairs are used in a training set that has shares of mixed-in pairs."""

    copies: int  # of each pair of the corpus itself
    weights: tuple[float, ...]  # of each mixed-in corpus: how often each of its pairs is used

    @classmethod
    def of(cls, pairs: int, mixed: Sequence[int], shares: Sequence[float]) -> "Mixture":
        """The mixture of `pairs` pairs with others, by their shares of the whole.

        The corpus is repeated if there are many others, so that more of them are used.
        """
        own = 1 - sum(shares)
        wanted = [share / own * pairs for share in shares]  # with one copy
        room = min(have / want for have, want in zip(mixed, wanted, strict=True))
        copies = int(min(MAX_MIXTURE_COPIES, max(1, room)))
        weights = (copies * want / have for have, want in zip(mixed, wanted, strict=True))
        return cls(copies, tuple(weights))


def repeat_pairs(pairs: Iterable[Pair], weight: float) -> Iterator[Pair]:
    """Each pair as often as `copy_counts` says."""
    for chunk in chunked(pairs, CHUNK):
        for pair, times in zip(chunk, copy_counts(chunk, weight), strict=True):
            yield from repeat(pair, int(times))


def _stripped(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The pairs as they are written to disk, without spaces at their ends."""
    return (Pair(pair.source.strip(), pair.target.strip()) for pair in pairs)


def concatenate_pairs(pairs: Iterable[Pair], max_pairs: int) -> Iterator[Pair]:
    """The same text in fewer pairs, each of 1 to `max_pairs` neighbours (Kondo et al. 2021)."""
    random, stream = Random(LENGTH_SEED), iter(pairs)
    while group := list(islice(stream, random.randint(1, max_pairs))):
        yield Pair(*(" ".join(side) for side in zip(*group, strict=True)))
