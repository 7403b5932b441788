"""Noise in a sample of pairs: a wrong language, random pairings, truncated targets.

For pairings, a word translation model is learned from one half of the sample and scores the other:
the pairs as they are, pairs matched at random, and pairs with truncated targets. The share of real
pairs that score like one of the two controls estimates how many are of its kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.corpora.cleaning.language_id import LanguageIdentifier
from regard.corpora.corpus import Pair
from regard.corpora.diagnostics.ibm_model1 import FloatArray, IbmModel1, IndexedTexts, index_words
from regard.text.ragged import IntArray

NOISE_SAMPLE, PAIRING_SAMPLE = 20_000, 10_000  # pairs whose languages and pairings are checked
MAX_EXAMPLE_LINES = 3
MIN_PAIRS = 1000  # fewest pairs of a sample whose pairings are judged
MAX_LINKS = 4_000_000  # word pairs held at once; if texts are longer, fewer pairs are used
TRUNCATED_SHARE = (0.3, 0.7)  # of a target's characters that the truncated control keeps: from, to
MIN_LENGTH_SPREAD = 0.15  # standard deviation of targets' log lengths; less is no evidence
MAX_RANDOM_SHARE = 0.2  # above it nothing is reported: it may be a dialogue
LATE_SHARE = 0.6  # from here on a word belongs to the tail of its source


class NumberedPair(NamedTuple):
    """A pair, and its line in the split, from 1."""

    line: int
    pair: Pair


class NoiseRate(NamedTuple):
    """How many pairs of a sample have one kind of noise."""

    share: float  # of the sample, from 0 to 1
    pairs: int  # their number; estimated for pairings
    lines: tuple[int, ...] = ()  # some of them


ZERO_RATE = NoiseRate(0.0, 0)


@dataclass(frozen=True)
class NoiseReport:
    sampled: int = 0
    languages_known: bool = False  # whether the languages of the two sides can be told apart
    swapped: NoiseRate = ZERO_RATE
    source_language: NoiseRate = ZERO_RATE
    target_language: NoiseRate = ZERO_RATE
    paired: int = 0  # pairs whose pairing was judged; 0 if it could not be
    random: NoiseRate = ZERO_RATE
    truncated: NoiseRate = ZERO_RATE


def measure_noise(sample: Sequence[NumberedPair]) -> NoiseReport:
    """All noise of a sample, whose order must be random."""
    pairs = [numbered.pair for numbered in sample]
    identifier = LanguageIdentifier(pairs)
    errors = identifier.classify(pairs)
    swapped, source, target = (
        _noise_rate(sample, mask.mean() if len(mask) else 0.0, np.flatnonzero(mask))
        for mask in errors
    )
    right = [sample[place] for place in np.flatnonzero(~errors.wrong)[:PAIRING_SAMPLE]]
    pairing = _pairing_noise(right)
    return NoiseReport(len(sample), bool(identifier), swapped, source, target, *pairing)


def _noise_rate(sample: Sequence[NumberedPair], share: float, places: IntArray) -> NoiseRate:
    """The rate with the lowest line numbers of `places`."""
    lines = sorted(sample[place].line for place in places)[:MAX_EXAMPLE_LINES]
    return NoiseRate(float(share), round(share * len(sample)), tuple(lines))


class _PairFeatures(NamedTuple):
    """Scores of N pairs."""

    gain: FloatArray  # (N,) mean over all words of both sides
    truncation: FloatArray  # (N, F) features of a truncated target


def _pairing_noise(
    sample: Sequence[NumberedPair], *, seed: int = 1
) -> tuple[int, NoiseRate, NoiseRate]:
    """The number of pairs judged, and the rates of random pairings and truncated targets."""
    nothing = 0, ZERO_RATE, ZERO_RATE
    source, target = (index_words([one.pair[side] for one in sample]) for side in (0, 1))
    links = np.cumsum(source.texts.sizes * target.texts.sizes)
    num = int(np.searchsorted(links, MAX_LINKS))
    judged = np.flatnonzero((source.texts.sizes[:num] >= 2) & (target.texts.sizes[:num] >= 2))
    if len(judged) < MIN_PAIRS:  # also of a list of single words
        return nothing
    lengths = np.array([[len(side) for side in one.pair] for one in sample[:num]])  # (N, 2)
    real, random, short = _features(source, target, lengths, np.random.default_rng(seed))
    random_share, by_chance = _contaminated_share(-real.gain[judged], -random.gain[judged])
    if random_share > MAX_RANDOM_SHARE:
        return nothing
    random_rate = _noise_rate(sample, random_share, judged[by_chance][:MAX_EXAMPLE_LINES])
    related = np.delete(judged, by_chance)
    if np.log1p(lengths[:, 1]).std() < MIN_LENGTH_SPREAD or len(related) < MIN_PAIRS:
        return len(judged), random_rate, ZERO_RATE
    features = real.truncation[related], short.truncation[related]
    direction = _fisher_direction(*features)
    share, places = _contaminated_share(*(some @ direction for some in features))
    truncated_rate = _noise_rate(sample, share, related[places][:MAX_EXAMPLE_LINES])
    return len(judged), random_rate, truncated_rate


def _features(
    source: IndexedTexts, target: IndexedTexts, lengths: IntArray, rng: np.random.Generator
) -> list[_PairFeatures]:
    """Features of the pairs as is, paired at random, and truncated, by models of the other half."""
    num = len(lengths)
    kept = rng.uniform(*TRUNCATED_SHARE, num)
    source_log, target_log = np.log1p(lengths).T
    ratio, short_ratio = target_log - source_log, np.log1p(lengths[:, 1] * kept) - source_log
    features = [_PairFeatures(np.zeros(num), np.zeros((num, 2))) for _ in range(3)]
    for half in (0, 1):
        learned, judged = (np.arange(first, num, 2) for first in (half, 1 - half))
        sources, targets = source.texts.take(learned), target.texts.take(learned)
        forward = IbmModel1(sources, targets, len(source.share))
        backward = IbmModel1(targets, sources, len(target.share))
        sources, targets = source.texts.take(judged), target.texts.take(judged)
        random = targets.take(_length_matched(targets.sizes, rng))
        short = targets.keep(
            targets.position < np.maximum(1, kept[judged] * targets.sizes)[targets.owner]
        )
        late = (sources.position >= LATE_SHARE * sources.sizes[sources.owner]).astype(np.float64)
        for scored, partners, log_ratio in zip(
            features, (targets, random, short), (ratio, ratio, short_ratio), strict=True
        ):
            gains = forward.log_gains(sources, partners, source.share)
            back_gains = backward.log_gains(partners, sources, target.share)
            total = sources.sums(gains) + partners.sums(back_gains)
            scored.gain[judged] = total / np.maximum(1, sources.sizes + partners.sizes)
            tail = sources.sums(gains * late) / np.maximum(1.0, sources.sums(late))
            scored.truncation[judged] = np.stack([tail, log_ratio[judged]], axis=1)
    return features


def _length_matched(sizes: IntArray, rng: np.random.Generator) -> IntArray:
    """For each text, another one with about as many words."""
    order = np.lexsort((rng.random(len(sizes)), sizes))
    other = np.empty(len(sizes), np.int64)
    other[order] = np.roll(order, 1)
    return other


def _fisher_direction(real: FloatArray, cut: FloatArray) -> FloatArray:
    """The direction (F,) that separates two sets of features best: Fisher's discriminant."""
    within = np.cov(real, rowvar=False) + np.cov(cut, rowvar=False)
    gap = cut.mean(axis=0) - real.mean(axis=0)
    direction: FloatArray = np.linalg.solve(within + 1e-3 * np.eye(len(gap)), gap)
    return direction


def _contaminated_share(real: FloatArray, control: FloatArray) -> tuple[float, IntArray]:
    """The share of `real` that is like `control`, and its indices, highest score first."""
    # half of the control lies above its median, as does half of what is like it, and little else
    above = np.flatnonzero(real > np.median(control))
    share = min(1.0, 2 * len(above) / len(real))
    return share, above[np.argsort(-real[above], kind="stable")]
