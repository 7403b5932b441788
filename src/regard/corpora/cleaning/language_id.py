"""Sides in a wrong language, found by character trigrams learned from the corpus itself.

A line that resembles the other side far more than its own is on the wrong side; the lines that
resemble neither side are a third language if they resemble each other.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.corpora.corpus import Pair
from regard.text.ragged import IntArray
from regard.text.word_units import compared_words

FloatArray = NDArray[np.float64]
Mask = NDArray[np.bool_]

BUCKETS = 1 << 18  # hashes of trigrams, of which a language has some ten thousand
MAX_CHARACTERS = 300  # of each text that are read
SMOOTHING, ASSUMED_TRIGRAMS = 0.3, BUCKETS / 8  # Lidstone's constant, and distinct trigrams
MIN_PAIRS, LEARNING_PAIRS = (
    1000,
    20_000,
)  # fewest and most pairs from which the languages are learned
MIN_LOG_ODDS, MIN_SWAP_LOG_ODDS, MIN_MEAN_LOG_ODDS = 8.0, 3.0, 0.35
"""Thresholds of log-odds: of a line, of each side of an exchanged pair, and mean per trigram."""
MIN_TRIGRAMS = 12  # that a line needs to be assigned to a third language
OUTLIER_SHARE, EM_ROUNDS, MIN_OUTLIERS = 0.03, 6, 20
"""Of the third language: the initial share of lines, rounds of EM, and the fewest lines."""
MAX_SHARED_WORDS = 0.55
"""Of two languages. In Tatoeba, European languages share 0.26 to 0.42, two topics of one 0.94."""
MIN_SEPARABLE_SHARE = (
    0.9  # of lines that are likelier on their own side; with fewer, the languages are the same
)

_WORD = re.compile(r"[^\W\d_]+")
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)


class LanguageErrors(NamedTuple):
    """Which of N pairs are in a wrong language: (N,) each."""

    swapped: Mask  # source and target are exchanged
    source: Mask  # the source is in the target's or a third language; not if swapped
    target: Mask

    @property
    def wrong(self) -> Mask:
        """Any of them (N,)."""
        return self.swapped | self.source | self.target


class LanguageIdentifier:
    """The trigram statistics of the two languages of a corpus, learned from some of its pairs."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        # for each side, the log-odds of trigrams (BUCKETS,) of the other and of a third language
        self._sides: list[tuple[FloatArray, FloatArray | None]] = []
        if len(pairs) < MIN_PAIRS:
            return
        texts = [[pair[side] for pair in pairs] for side in (0, 1)]
        trigrams = [find_trigrams(some) for some in texts]
        source, target = (log_probability(some.counts()) for some in trigrams)
        log_odds = target - source, source - target
        as_other = [
            lines.sums(odds[lines.bucket]) for lines, odds in zip(trigrams, log_odds, strict=True)
        ]
        if any((odds < 0).mean() < MIN_SEPARABLE_SHARE for odds in as_other):
            return
        thirds = map(_third_language, texts, trigrams, as_other)
        self._sides = list(zip(log_odds, thirds, strict=True))

    def __bool__(self) -> bool:
        """Whether the two sides can be told apart."""
        return bool(self._sides)

    def classify(self, pairs: Sequence[Pair]) -> LanguageErrors:
        """Which of the pairs have a side in a wrong language."""
        if not self._sides:
            return LanguageErrors(*np.zeros((3, len(pairs)), np.bool_))
        trigrams = [find_trigrams([pair[side] for pair in pairs]) for side in (0, 1)]
        as_other = [
            lines.sums(other[lines.bucket])
            for lines, (other, _) in zip(trigrams, self._sides, strict=True)
        ]
        swapped = (as_other[0] > MIN_SWAP_LOG_ODDS) & (as_other[1] > MIN_SWAP_LOG_ODDS)
        wrong = []
        for lines, odds, (_, third) in zip(trigrams, as_other, self._sides, strict=True):
            is_wrong = _is_confident(lines, odds)
            if third is not None:
                in_third = _is_confident(lines, lines.sums(third[lines.bucket]))
                is_wrong |= in_third & (lines.sizes >= MIN_TRIGRAMS)
            wrong.append(is_wrong & ~swapped)
        return LanguageErrors(swapped, *wrong)


class Trigrams(NamedTuple):
    """The trigrams of N texts, G of them in all."""

    bucket: IntArray  # (G,) the hash of each, from 0 to BUCKETS
    text: IntArray  # (G,) from 0 to N
    sizes: IntArray  # (N,) trigrams of each text

    def counts(self, chosen: Mask | None = None) -> FloatArray:
        """Count of each trigram in the texts that are `chosen` (N,): (BUCKETS,)."""
        buckets = self.bucket if chosen is None else self.bucket[chosen[self.text]]
        return np.bincount(buckets, minlength=BUCKETS).astype(np.float64)

    def sums(self, values: FloatArray) -> FloatArray:
        """The sum over each text (N,) of `values` (G,)."""
        return np.bincount(self.text, weights=values, minlength=len(self.sizes)).astype(np.float64)


def find_trigrams(texts: Sequence[str]) -> Trigrams:
    """All trigrams of letters, lower-cased; other characters separate words."""
    spelled = [f"  {' '.join(_WORD.findall(text[:MAX_CHARACTERS].lower()))} " for text in texts]
    codes = np.frombuffer("".join(spelled).encode("utf-32-le", "surrogatepass"), "<u4")
    letters = codes.astype(np.uint64)
    text = np.repeat(np.arange(len(texts)), np.array([len(one) for one in spelled], np.int64))
    mixed = letters[2:] * _MIX[0] + letters[1:-1] * _MIX[1] + letters[:-2] * _MIX[2]
    bucket = (mixed >> np.uint64(40)) % np.uint64(BUCKETS)
    within = text[2:] == text[:-2]
    owner = text[2:][within]
    sizes = np.bincount(owner, minlength=len(texts))
    return Trigrams(bucket[within].astype(np.int64), owner, sizes)


def log_probability(counts: FloatArray, total: float | None = None) -> FloatArray:
    """Smoothed log-probabilities of trigrams with these counts, out of `total`."""
    total = counts.sum() if total is None else total
    logs: FloatArray = np.log((counts + SMOOTHING) / (total + SMOOTHING * ASSUMED_TRIGRAMS))
    return logs


def _is_confident(lines: Trigrams, odds: FloatArray) -> Mask:
    sure: Mask = (odds > MIN_LOG_ODDS) & (odds > MIN_MEAN_LOG_ODDS * lines.sizes)
    return sure


def _third_language(
    texts: Sequence[str], lines: Trigrams, as_other: FloatArray
) -> FloatArray | None:
    """The log-odds of trigrams in a third language (BUCKETS,), by EM; None if none is found."""
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
    """The share of the outliers' words that other lines have: high if only the topic differs."""
    words = [compared_words(text) for text in texts]
    others = {word for place in np.flatnonzero(~outliers).tolist() for word in words[place]}
    inside = [word for place in np.flatnonzero(outliers).tolist() for word in words[place]]
    return sum(word in others for word in inside) / max(1, len(inside))


def _leave_one_out(counts: FloatArray, lines: Trigrams, own: FloatArray | float) -> FloatArray:
    """Log-probabilities of all trigrams (G,), with `own` subtracted from each count."""
    return log_probability(np.maximum(0, counts[lines.bucket] - own), counts.sum())
