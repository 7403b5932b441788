"""How many pairs of a sample are paired by chance, and how many targets are cut short.

A model of words is learned from one half of the sample and judges the other. It judges the pairs as
they are, the same texts paired by chance, and the same pairs with their targets cut: the share of
real pairs that look like each of these tells how many are.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.corpora.corpus import Pair
from regard.corpora.diagnostics.ibm_model1 import (
    FloatArray,
    IbmModel1,
    IndexedTexts,
    IntArray,
    RaggedWords,
    index_words,
)

MIN_PAIRS = 1000
"""Pairs in a sample that can be judged."""
MAX_LINKS = 4_000_000
"""Words beside words that are held at once; of longer texts fewer pairs are taken."""
TRUNCATED_SHARE = (0.3, 0.7)
"""The share of a target's characters that is left where it is cut, at the least and at the most."""
MIN_LENGTH_SPREAD = 0.15
"""Standard deviation of the logarithms of targets' lengths below which lengths say nothing."""
MAX_RANDOM_SHARE = 0.2
"""The share of pairs that may look like chance, lest nothing can be told: as in a dialogue."""


class PairNoise(NamedTuple):
    """What was found in a sample."""

    judged: int
    """Pairs; 0 where nothing can be told."""
    random: float
    """The share that is paired by chance, estimated."""
    truncated: float
    """The share of targets cut short, estimated."""
    random_places: tuple[int, ...]
    """Places in the sample that look most like chance, at most ten."""
    truncated_places: tuple[int, ...]


class _PairFeatures(NamedTuple):
    """What is measured of N pairs."""

    gain: FloatArray  # (N,) mean over all words of both sides
    features: FloatArray  # (N, F) what tells a cut target


def estimate_pair_noise(pairs: Sequence[Pair], *, seed: int = 1) -> PairNoise:
    """The shares of pairs that are paired by chance or cut short, for a sample in any order."""
    nothing = PairNoise(0, 0.0, 0.0, (), ())
    if len(pairs) < MIN_PAIRS:
        return nothing
    rng = np.random.default_rng(seed)
    target = index_words([pair.target for pair in pairs])
    source = index_words([pair.source for pair in pairs])
    links = np.cumsum(source.texts.sizes * target.texts.sizes)
    num = int(np.searchsorted(links, MAX_LINKS))
    if num < MIN_PAIRS:
        return nothing
    sides = _IndexedSample(pairs[:num], source, target)
    real, chance, cut = sides.measure(rng)
    fit = sides.judged()
    random, by_chance = _contaminated_share(-real.gain[fit], -chance.gain[fit])
    if random > MAX_RANDOM_SHARE:
        return nothing
    where = np.flatnonzero(fit)
    related = np.delete(where, by_chance)  # the others are told of already
    if (
        np.log1p([len(pair.target) for pair in sides.pairs]).std() < MIN_LENGTH_SPREAD
        or len(related) < MIN_PAIRS
    ):
        return PairNoise(len(where), random, 0.0, _first_places(where, by_chance), ())
    direction = _fisher_direction(real.features[related], cut.features[related])
    truncated, shortened = _contaminated_share(
        real.features[related] @ direction, cut.features[related] @ direction
    )
    return PairNoise(
        len(where),
        random,
        truncated,
        _first_places(where, by_chance),
        _first_places(related, shortened),
    )


class _IndexedSample:
    """The words of both sides of some pairs."""

    def __init__(self, pairs: Sequence[Pair], source: IndexedTexts, target: IndexedTexts) -> None:
        self.pairs, self._source, self._target = pairs, source, target
        self._all = np.arange(len(pairs))

    def judged(self) -> NDArray[np.bool_]:
        """Pairs with two known words or more on each side (N,)."""
        sizes = self._source.texts.take(self._all).sizes, self._target.texts.take(self._all).sizes
        enough: NDArray[np.bool_] = (sizes[0] >= 2) & (sizes[1] >= 2)
        return enough

    def measure(
        self, rng: np.random.Generator
    ) -> tuple[_PairFeatures, _PairFeatures, _PairFeatures]:
        """The pairs as they are, by chance, and cut short."""
        kept = rng.uniform(*TRUNCATED_SHARE, len(self.pairs))
        found = [_empty(len(self.pairs)) for _ in range(3)]
        for half in (0, 1):
            learned, judged = (self._all[self._all % 2 == place] for place in (half, 1 - half))
            models = self._models(learned)
            source, target = (side.texts.take(judged) for side in (self._source, self._target))
            chance = target.take(_length_matched(target.sizes, rng))
            short = _truncate(target, kept[judged])
            for marks, partner, cut in zip(
                found, (target, chance, short), (None, None, kept[judged]), strict=True
            ):
                one = self._features(models, source, partner, judged, cut)
                marks.gain[judged], marks.features[judged] = one
        return found[0], found[1], found[2]

    def _models(self, places: IntArray) -> tuple[IbmModel1, IbmModel1]:
        source, target = (side.texts.take(places) for side in (self._source, self._target))
        return (
            IbmModel1(source, target, len(self._source.share)),
            IbmModel1(target, source, len(self._target.share)),
        )

    def _features(
        self,
        models: tuple[IbmModel1, IbmModel1],
        source: RaggedWords,
        target: RaggedWords,
        places: IntArray,
        kept: FloatArray | None,
    ) -> _PairFeatures:
        forward = models[0].log_gains(source, target, self._source.share)
        backward = models[1].log_gains(target, source, self._target.share)
        total = _sums(source, forward) + _sums(target, backward)
        gain = total / np.maximum(1, source.sizes + target.sizes)
        place = np.arange(len(source.words)) - source.starts[:-1][source.owner]
        late = (place >= 0.6 * source.sizes[source.owner]).astype(np.float64)
        tail = _sums(source, forward * late) / np.maximum(1.0, _sums(source, late))
        lengths = np.array([[len(side) for side in self.pairs[one]] for one in places.tolist()])
        short = lengths[:, 1] if kept is None else lengths[:, 1] * kept
        ratio = np.log1p(short) - np.log1p(lengths[:, 0])
        return _PairFeatures(gain, np.stack([tail, ratio], axis=1))


def _empty(num: int) -> _PairFeatures:
    return _PairFeatures(np.zeros(num), np.zeros((num, 2)))


def _sums(texts: RaggedWords, values: FloatArray) -> FloatArray:
    sums = np.bincount(texts.owner, weights=values, minlength=len(texts.sizes))
    return sums.astype(np.float64)


def _length_matched(sizes: IntArray, rng: np.random.Generator) -> IntArray:
    """For each text another one of about as many words."""
    order = np.lexsort((rng.random(len(sizes)), sizes))
    other = np.empty(len(sizes), np.int64)
    other[order] = np.roll(order, 1)
    return other


def _truncate(texts: RaggedWords, kept: FloatArray) -> RaggedWords:
    """The beginnings of the texts."""
    place = np.arange(len(texts.words)) - texts.starts[:-1][texts.owner]
    return texts.keep(place < np.maximum(1, kept * texts.sizes)[texts.owner])


def _fisher_direction(real: FloatArray, cut: FloatArray) -> FloatArray:
    """What tells the cut ones from the real ones best (F,): Fisher's discriminant."""
    within = np.cov(real, rowvar=False) + np.cov(cut, rowvar=False)
    gap = cut.mean(axis=0) - real.mean(axis=0)
    direction: FloatArray = np.linalg.solve(within + 1e-3 * np.eye(len(gap)), gap)
    return direction


def _contaminated_share(real: FloatArray, control: FloatArray) -> tuple[float, IntArray]:
    """Which share of `real` is like `control`, and the places that are most, highest first.

    Half of the control lies above its median; so does half of what is like it, and little else.
    """
    above = np.flatnonzero(real > np.median(control))
    share = min(1.0, 2 * len(above) / len(real))
    return share, above[np.argsort(-real[above], kind="stable")]


def _first_places(where: IntArray, chosen: IntArray, most: int = 10) -> tuple[int, ...]:
    return tuple(int(place) for place in where[chosen[:most]])
