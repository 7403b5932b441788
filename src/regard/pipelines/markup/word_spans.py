"""The words of a text, and the alignment shares of the words of two texts."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.text.sentence_splitter import Span

OPENING_PUNCTUATION = frozenset("([{«“„‘‚‹「『《〈（［【¿¡")
"""Punctuation that belongs to the word behind it, even after a space."""
ADJACENCY_WEIGHT = 0.5
"""Weight of neighbours that stay neighbours; a word on the right side of a gap has weight 1."""
_TOKEN = re.compile(r"\S+")


@dataclass(frozen=True)
class WordSpans:
    """A text and its words in order; punctuation and spaces are between words."""

    text: str
    words: Sequence[Span]

    @cached_property
    def _firsts(self) -> list[int]:
        return [word.first for word in self.words]

    @cached_property
    def _lasts(self) -> list[int]:
        return [word.last for word in self.words]

    def overlapping(self, first: int, last: int) -> range:
        """The words with any of the characters from `first` to before `last`."""
        return range(bisect_right(self._lasts, first), bisect_left(self._firsts, last))

    def within(self, first: int, last: int) -> range:
        """The words that are wholly between two positions."""
        begin, end = bisect_left(self._firsts, first), bisect_right(self._lasts, last)
        return range(begin, max(begin, end))

    def gap(self, number: int) -> Span:
        """The span between the word `number` and the word before it."""
        first = self._lasts[number - 1] if number else 0
        last = self._firsts[number] if number < len(self.words) else len(self.text)
        return Span(first, last)

    def space_in_gap(self, number: int) -> Span:
        """The space in that gap: punctuation before it belongs to the word before.

        Cached, as a gap may have thousands of punctuation marks with markup between them.
        """
        if number not in self._spaces:
            self._spaces[number] = self._find_space(number)
        return self._spaces[number]

    @cached_property
    def _spaces(self) -> dict[int, Span]:
        return {}

    def _find_space(self, number: int) -> Span:
        first, last = self.gap(number)
        tokens = [
            Span(first + found.start(), first + found.end())
            for found in _TOKEN.finditer(self.text[first:last])
        ]
        if number == 0:
            return Span(first, tokens[0].first if tokens else last)
        if number == len(self.words):
            return Span(tokens[-1].last if tokens else first, last)
        if tokens == [Span(first, last)]:
            return Span(last, last)
        begin = last
        while tokens and (
            tokens[-1].last == last or OPENING_PUNCTUATION.issuperset(self._read(tokens[-1]))
        ):
            if tokens[-1].first == first:
                break
            begin = tokens.pop().first
        return Span(tokens[-1].last if tokens else first, begin)

    def _read(self, span: Span) -> str:
        return self.text[span.first : span.last]


class OffsetValues(NamedTuple):
    """A number for each of some consecutive words, or of the gaps between words."""

    first: int
    """The index of the word or gap of the first number."""
    values: NDArray[np.float64]


class SentenceLinks(NamedTuple):
    """The words of a sentence and its translation, with cumulative alignment shares."""

    source: range
    target: range
    cumulative_share: NDArray[np.float64]
    """(T, S + 1): the share of a target word aligned with the source words before the s-th."""


def sentence_links(source: range, target: range, weights: NDArray[np.float64]) -> SentenceLinks:
    """The links of a sentence, with rows of weights (T, S) normalised to sum 1."""
    sums = weights.sum(-1, keepdims=True)  # (T, 1)
    even = 1 / max(1, len(source))
    shares = np.where(sums > 0, weights / np.where(sums > 0, sums, 1), even)  # (T, S)
    cumulative_share = np.concatenate(
        [np.zeros((len(target), 1)), shares.cumsum(-1)], axis=1
    )  # (T, S + 1)
    return SentenceLinks(source, target, cumulative_share)


@dataclass(frozen=True)
class TextLinks:
    """The links of the sentences of a text, in order."""

    links: Sequence[SentenceLinks]

    @cached_property
    def _source_starts(self) -> list[int]:
        return [one.source.start for one in self.links]

    @cached_property
    def _source_ends(self) -> list[int]:
        return [one.source.stop for one in self.links]

    def shares(self, source: range, region: range) -> "OffsetValues":
        """The share of each word of `region` that is aligned with the words of `source`.

        Words of other sentences, whose share is 0, are left out.
        """
        sentences = self.links[
            bisect_right(self._source_ends, source.start) : bisect_left(
                self._source_starts, source.stop
            )
        ]
        found = [np.zeros(0)]
        for one in sentences:
            first, last = (
                min(max(place, one.source.start), one.source.stop) - one.source.start
                for place in (source.start, source.stop)
            )
            found.append(one.cumulative_share[:, last] - one.cumulative_share[:, first])
        begin = sentences[0].target.start if sentences else region.start
        values = np.concatenate(found)
        values = values[max(0, region.start - begin) : max(0, region.stop - begin)]
        return OffsetValues(max(region.start, begin), values)

    def gap_scores(self, number: int) -> "OffsetValues":
        """How well each gap of the translation corresponds to the gap before source word `number`.

        The score sums the shares of words that are on the right side of the gap, and adds
        ADJACENCY_WEIGHT for words that are next to both gaps.
        """
        place = bisect_left(self._source_ends, number)
        if place == len(self.links):
            return OffsetValues(self.links[-1].target.stop if self.links else 0, np.zeros(1))
        one = self.links[place]
        column = number - one.source.start
        if column <= 0 or number == one.source.stop:
            return OffsetValues(one.target.start if column <= 0 else one.target.stop, np.zeros(1))
        left = one.cumulative_share[:, column]  # (T,)
        before = np.concatenate([[0.0], left.cumsum()])  # (T + 1,)
        behind = np.concatenate([(1 - left)[::-1].cumsum()[::-1], [0.0]])  # (T + 1,)
        after = np.concatenate([[0.0], left - one.cumulative_share[:, column - 1]])  # (T + 1,)
        ahead = np.concatenate([one.cumulative_share[:, column + 1] - left, [0.0]])  # (T + 1,)
        return OffsetValues(one.target.start, before + behind + ADJACENCY_WEIGHT * (after + ahead))
