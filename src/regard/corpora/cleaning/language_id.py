"""Sides in a wrong language, by letter trigrams that are learned from the corpus itself.

No language is known beforehand. What most lines of a side have in common is its language; a line
that is far more like the other side is on the wrong one; and the lines that are least like either
are taken as a language of their own if they are like each other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.corpora.cleaning.trigrams import (
    ASSUMED_TRIGRAMS,
    SMOOTHING,
    FloatArray,
    Trigrams,
    find_trigrams,
    log_probability,
)
from regard.corpora.corpus import Pair
from regard.text.word_units import compared_words

Mask = NDArray[np.bool_]

MIN_PAIRS, LEARNING_PAIRS = 1000, 20_000
"""Pairs from which languages can be learned, and those that are enough."""
MIN_LOG_ODDS, MIN_SWAP_LOG_ODDS, MIN_MEAN_LOG_ODDS = 8.0, 3.0, 0.35
"""Logarithms of odds from which a line is of another language: over the line, over each side of a
pair where both sides are exchanged, and on average over trigrams."""
MIN_TRIGRAMS = 12
"""Trigrams in a line that can be told to be of a third language."""
OUTLIER_SHARE, EM_ROUNDS, MIN_OUTLIERS = 0.03, 6, 20
"""The share of lines that are tried as a third language, how often the choice is mended, and the
lines that make one."""
MAX_SHARED_WORDS = 0.55
"""The share of words that a third language may have in common: two European languages share 0.26 to
0.42 in Tatoeba; kinds of sentences of one language, 0.94 and more."""
MIN_SEPARABLE_SHARE = 0.9
"""The share of lines that must be like their own side, lest both are of one language."""


class LanguageErrors(NamedTuple):
    """For N pairs, which are in a wrong language: (N,) each."""

    swapped: Mask
    """Source and target are exchanged."""
    source: Mask
    """The source is in another language, the target's or a third one; not where swapped."""
    target: Mask

    @property
    def wrong(self) -> Mask:
        """Any of them (N,)."""
        return self.swapped | self.source | self.target


@dataclass(frozen=True)
class _SideLogOdds:
    """Log-odds of each trigram (BUCKETS,) against the side's own language."""

    other: FloatArray
    third: FloatArray | None


class LanguageIdentifier:
    """What the languages of a corpus look like, learned from some of its pairs."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._sides: tuple[_SideLogOdds, _SideLogOdds] | None = None
        if len(pairs) < MIN_PAIRS:
            return
        source, target = _trigrams(pairs)
        profiles = log_probability(source.counts()), log_probability(target.counts())
        log_ratio = profiles[1] - profiles[0]
        as_other = source.sums(log_ratio[source.bucket]), target.sums(-log_ratio[target.bucket])
        if any((one < 0).mean() < MIN_SEPARABLE_SHARE for one in as_other):
            return
        self._sides = (
            _SideLogOdds(
                log_ratio, _third_language([pair.source for pair in pairs], source, as_other[0])
            ),
            _SideLogOdds(
                -log_ratio, _third_language([pair.target for pair in pairs], target, as_other[1])
            ),
        )

    def __bool__(self) -> bool:
        """Whether the two sides can be told apart."""
        return self._sides is not None

    def classify(self, pairs: Sequence[Pair]) -> LanguageErrors:
        """Which of the pairs have a side in a wrong language."""
        if self._sides is None:
            return LanguageErrors(*np.zeros((3, len(pairs)), np.bool_))
        trigrams = _trigrams(pairs)
        others = [
            one.sums(side.other[one.bucket])
            for one, side in zip(trigrams, self._sides, strict=True)
        ]
        swapped = (others[0] > MIN_SWAP_LOG_ODDS) & (others[1] > MIN_SWAP_LOG_ODDS)
        wrong = [
            (_is_confident(one, odds) | _is_third_language(one, side)) & ~swapped
            for one, odds, side in zip(trigrams, others, self._sides, strict=True)
        ]
        return LanguageErrors(swapped, wrong[0], wrong[1])


def learn_languages(pairs: Iterable[Pair]) -> tuple[LanguageIdentifier, Iterator[Pair]]:
    """A check that is learned from the first pairs, and all of the pairs."""
    stream = iter(pairs)
    first = list(islice(stream, LEARNING_PAIRS))
    return LanguageIdentifier(first), chain(first, stream)


def _trigrams(pairs: Sequence[Pair]) -> tuple[Trigrams, Trigrams]:
    return (
        find_trigrams([pair.source for pair in pairs]),
        find_trigrams([pair.target for pair in pairs]),
    )


def _is_confident(lines: Trigrams, odds: FloatArray) -> Mask:
    sure: Mask = (odds > MIN_LOG_ODDS) & (odds > MIN_MEAN_LOG_ODDS * lines.sizes)
    return sure


def _is_third_language(lines: Trigrams, side: _SideLogOdds) -> Mask:
    if side.third is None:
        return np.zeros(len(lines.sizes), np.bool_)
    odds = lines.sums(side.third[lines.bucket])
    return _is_confident(lines, odds) & (lines.sizes >= MIN_TRIGRAMS)


def _third_language(
    texts: Sequence[str], lines: Trigrams, as_other: FloatArray
) -> FloatArray | None:
    """The log-odds of trigrams in a third language (BUCKETS,); None where there seems to be none.

    Lines are divided in two by turns: each language is learned from its lines, then each line goes
    where it is likelier, its own trigrams not counted.
    """
    fit = (lines.sizes >= MIN_TRIGRAMS) & (as_other <= MIN_LOG_ODDS)
    likely = lines.sums(_leave_one_out(lines.counts(), lines, 1.0)) / np.maximum(1, lines.sizes)
    outliers: Mask = fit & (likely < np.quantile(likely[fit], OUTLIER_SHARE)) if fit.any() else fit
    for _ in range(EM_ROUNDS):
        if outliers.sum() < MIN_OUTLIERS:
            return None
        inside = outliers[lines.text].astype(np.float64)  # (G,)
        third, own = lines.counts(outliers), lines.counts(~outliers)
        gain = _leave_one_out(third, lines, inside) - _leave_one_out(own, lines, 1 - inside)
        outliers = fit & _is_confident(lines, lines.sums(gain))
    if outliers.sum() < MIN_OUTLIERS or _shared_word_rate(texts, outliers) > MAX_SHARED_WORDS:
        return None
    return log_probability(lines.counts(outliers)) - log_probability(lines.counts(~outliers))


def _shared_word_rate(texts: Sequence[str], outliers: Mask) -> float:
    """The share of the words of odd lines that others have too: high where only a topic is odd."""
    words = {
        word
        for text, is_outlier in zip(texts, outliers, strict=True)
        if not is_outlier
        for word in compared_words(text)
    }
    inside = [
        word for place in np.flatnonzero(outliers).tolist() for word in compared_words(texts[place])
    ]
    return sum(word in words for word in inside) / max(1, len(inside))


def _leave_one_out(counts: FloatArray, lines: Trigrams, own: FloatArray | float) -> FloatArray:
    """Log-probabilities of all trigrams (G,), each with `own` taken from its count."""
    left = np.maximum(0, counts[lines.bucket] - own)
    logs: FloatArray = np.log((left + SMOOTHING) / (counts.sum() + SMOOTHING * ASSUMED_TRIGRAMS))
    return logs
