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

from regard.corpora.pairs import Pair
from regard.corpora.trigrams import (
    SMOOTHING,
    UNSEEN,
    Floats,
    Trigrams,
    find_trigrams,
    log_probability,
)
from regard.corpora.words import compared_words

Mask = NDArray[np.bool_]

MIN_PAIRS, ENOUGH_PAIRS = 1000, 20_000
"""Pairs from which languages can be learned, and those that are enough."""
SURE, SWAPPED, PER_GROUP = 8.0, 3.0, 0.35
"""Logarithms of odds from which a line is of another language: over the line, over each side of a
pair where both sides are exchanged, and on average over trigrams."""
MIN_TRIGRAMS = 12
"""Trigrams in a line that can be told to be of a third language."""
ODD, ROUNDS, MIN_ODD_LINES = 0.03, 6, 20
"""The share of lines that are tried as a third language, how often the choice is mended, and the
lines that make one."""
KNOWN = 0.55
"""The share of words that a third language may have in common: two European languages share 0.26 to
0.42 in Tatoeba; kinds of sentences of one language, 0.94 and more."""
TOLD_APART = 0.9
"""The share of lines that must be like their own side, lest both are of one language."""


class Verdicts(NamedTuple):
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
class _Side:
    """Log-odds of each trigram (BUCKETS,) against the side's own language."""

    other: Floats
    third: Floats | None


class LanguageCheck:
    """What the languages of a corpus look like, learned from some of its pairs."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._sides: tuple[_Side, _Side] | None = None
        if len(pairs) < MIN_PAIRS:
            return
        source, target = _trigrams(pairs)
        profiles = log_probability(source.counts()), log_probability(target.counts())
        exchanged = profiles[1] - profiles[0]
        as_other = source.sums(exchanged[source.bucket]), target.sums(-exchanged[target.bucket])
        if any((one < 0).mean() < TOLD_APART for one in as_other):
            return
        self._sides = (
            _Side(exchanged, _third([pair.source for pair in pairs], source, as_other[0])),
            _Side(-exchanged, _third([pair.target for pair in pairs], target, as_other[1])),
        )

    def __bool__(self) -> bool:
        """Whether the two sides can be told apart."""
        return self._sides is not None

    def judge(self, pairs: Sequence[Pair]) -> Verdicts:
        """Which of the pairs have a side in a wrong language."""
        if self._sides is None:
            return Verdicts(*np.zeros((3, len(pairs)), np.bool_))
        trigrams = _trigrams(pairs)
        others = [
            one.sums(side.other[one.bucket])
            for one, side in zip(trigrams, self._sides, strict=True)
        ]
        swapped = (others[0] > SWAPPED) & (others[1] > SWAPPED)
        wrong = [
            (_is_sure(one, odds) | _of_third(one, side)) & ~swapped
            for one, odds, side in zip(trigrams, others, self._sides, strict=True)
        ]
        return Verdicts(swapped, wrong[0], wrong[1])


def learn_languages(pairs: Iterable[Pair]) -> tuple[LanguageCheck, Iterator[Pair]]:
    """A check that is learned from the first pairs, and all of the pairs."""
    stream = iter(pairs)
    first = list(islice(stream, ENOUGH_PAIRS))
    return LanguageCheck(first), chain(first, stream)


def _trigrams(pairs: Sequence[Pair]) -> tuple[Trigrams, Trigrams]:
    return (
        find_trigrams([pair.source for pair in pairs]),
        find_trigrams([pair.target for pair in pairs]),
    )


def _is_sure(lines: Trigrams, odds: Floats) -> Mask:
    sure: Mask = (odds > SURE) & (odds > PER_GROUP * lines.sizes)
    return sure


def _of_third(lines: Trigrams, side: _Side) -> Mask:
    if side.third is None:
        return np.zeros(len(lines.sizes), np.bool_)
    odds = lines.sums(side.third[lines.bucket])
    return _is_sure(lines, odds) & (lines.sizes >= MIN_TRIGRAMS)


def _third(texts: Sequence[str], lines: Trigrams, as_other: Floats) -> Floats | None:
    """The log-odds of trigrams in a third language (BUCKETS,); None where there seems to be none.

    Lines are divided in two by turns: each language is learned from its lines, then each line goes
    where it is likelier, its own trigrams not counted.
    """
    fit = (lines.sizes >= MIN_TRIGRAMS) & (as_other <= SURE)
    likely = lines.sums(_without_own(lines.counts(), lines, 1.0)) / np.maximum(1, lines.sizes)
    odd: Mask = fit & (likely < np.quantile(likely[fit], ODD)) if fit.any() else fit
    for _ in range(ROUNDS):
        if odd.sum() < MIN_ODD_LINES:
            return None
        inside = odd[lines.text].astype(np.float64)  # (G,)
        third, own = lines.counts(odd), lines.counts(~odd)
        gain = _without_own(third, lines, inside) - _without_own(own, lines, 1 - inside)
        odd = fit & _is_sure(lines, lines.sums(gain))
    if odd.sum() < MIN_ODD_LINES or _share_known(texts, odd) > KNOWN:
        return None
    return log_probability(lines.counts(odd)) - log_probability(lines.counts(~odd))


def _share_known(texts: Sequence[str], odd: Mask) -> float:
    """The share of the words of odd lines that others have too: high where only a topic is odd."""
    words = {
        word
        for text, is_odd in zip(texts, odd, strict=True)
        if not is_odd
        for word in compared_words(text)
    }
    inside = [
        word for place in np.flatnonzero(odd).tolist() for word in compared_words(texts[place])
    ]
    return sum(word in words for word in inside) / max(1, len(inside))


def _without_own(counts: Floats, lines: Trigrams, own: Floats | float) -> Floats:
    """Log-probabilities of all trigrams (G,), each with `own` taken from its count."""
    left = np.maximum(0, counts[lines.bucket] - own)
    logs: Floats = np.log((left + SMOOTHING) / (counts.sum() + SMOOTHING * UNSEEN))
    return logs
