"""Corpora of unlike weight in one training set: pairs repeated, or some of them left out."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.corpora.corpus import Pair
from regard.corpora.dedup import Hashes, HashSet, hash_texts
from regard.iterate import chunked

CHUNK, SEED = 8192, 7
"""Pairs looked at together, and what makes the choice of them unlike that of other hashes."""


def hash_exact_pairs(pairs: Iterable[Pair], *, seed: int = 0) -> Hashes:
    """A hash of both texts of each pair (N,), to the letter."""
    return hash_texts((f"{len(one.source)} {one.source}{one.target}" for one in pairs), seed=seed)


def copy_counts(pairs: Sequence[Pair], weight: float) -> NDArray[np.int64]:
    """How often each of `pairs` is used at this weight (N,): `weight` on average.

    That is a whole number next to the weight, which one a hash of the pair decides: 0.25 keeps a
    quarter of all pairs, 2.5 has half of them twice and half three times. The same pairs are always
    chosen, whatever their order, and a larger weight keeps what a smaller one has.
    """
    drawn = hash_exact_pairs(pairs, seed=SEED) / 2.0**64  # (N,) from 0 to 1
    return np.floor(weight + 1 - drawn).clip(int(weight), np.ceil(weight)).astype(np.int64)


class CorpusWeighting:
    """Repeats training pairs by the weight of the part that they came from.

    A part that weighs less than 1 is thinned before pairs are held out, so that held-out pairs are
    of the same mixture. One that weighs more is repeated after that: held-out pairs come once.
    """

    def __init__(self) -> None:
        self._oversampled: list[tuple[float, HashSet]] = []

    def subsample(self, pairs: Iterable[Pair], weight: float) -> Iterator[Pair]:
        """The pairs of a part that are used at all, each once."""
        oversampled = HashSet()
        if weight > 1:
            self._oversampled.append((weight, oversampled))
        for chunk in chunked(pairs, CHUNK):
            if weight > 1:
                oversampled.add_new(hash_exact_pairs(_stripped(chunk)))
            used = copy_counts(chunk, weight) > 0 if weight < 1 else [True] * len(chunk)
            yield from (pair for pair, is_used in zip(chunk, used, strict=True) if is_used)

    def oversample(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs, each as often as its part weighs.

        Copies follow behind all pairs of their chunk: joined with its neighbours, a pair should
        not meet itself.
        """
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


def _stripped(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The pairs as they lie on disk, without spaces at their ends."""
    return (Pair(pair.source.strip(), pair.target.strip()) for pair in pairs)
