"""A text and its words, and which words of two texts belong together."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.text.sentences import Span

OPENING = frozenset("([{«“„‘‚‹「『《〈（［【¿¡")
"""Marks that belong to the word behind them, though a space may be between."""
NEARNESS = 0.5
"""What it counts that neighbours stay neighbours, where a whole word on its side counts 1."""
_TOKEN = re.compile(r"\S+")


@dataclass(frozen=True)
class Side:
    """A text and its words, in their order; marks and spaces are between the words."""

    text: str
    words: Sequence[Span]

    @cached_property
    def _firsts(self) -> list[int]:
        return [word.first for word in self.words]

    @cached_property
    def _lasts(self) -> list[int]:
        return [word.last for word in self.words]

    def touched(self, first: int, last: int) -> range:
        """The words that hold any of the characters from `first` to before `last`."""
        return range(bisect_right(self._lasts, first), bisect_left(self._firsts, last))

    def within(self, first: int, last: int) -> range:
        """The words that lie between two places, whole."""
        begin, end = bisect_left(self._firsts, first), bisect_right(self._lasts, last)
        return range(begin, max(begin, end))

    def gap(self, number: int) -> Span:
        """What is between the word `number` and the word before it."""
        first = self._lasts[number - 1] if number else 0
        last = self._firsts[number] if number < len(self.words) else len(self.text)
        return Span(first, last)

    def seam(self, number: int) -> Span:
        """Of that gap the space: what is before it belongs to the word before, the rest behind.

        Each is looked for once: a gap may hold thousands of marks, and markup between all of them.
        """
        if number not in self._seams:
            self._seams[number] = self._find_seam(number)
        return self._seams[number]

    @cached_property
    def _seams(self) -> dict[int, Span]:
        return {}

    def _find_seam(self, number: int) -> Span:
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
        while tokens and (tokens[-1].last == last or OPENING.issuperset(self._read(tokens[-1]))):
            if tokens[-1].first == first:
                break
            begin = tokens.pop().first
        return Span(tokens[-1].last if tokens else first, begin)

    def _read(self, span: Span) -> str:
        return self.text[span.first : span.last]


class Along(NamedTuple):
    """A number for each of some words, or gaps between words, that follow each other."""

    first: int
    """Which of them the first number is for."""
    values: NDArray[np.float64]


class Block(NamedTuple):
    """A sentence and its translation: numbers of words, and what they owe to each other."""

    source: range
    target: range
    owed: NDArray[np.float64]
    """(T, S + 1): what share of a target word comes from the source words before the s-th."""


def block(source: range, target: range, weights: NDArray[np.float64]) -> Block:
    """A block whose rows of weights (T, S) are made to sum to 1."""
    sums = weights.sum(-1, keepdims=True)  # (T, 1)
    even = 1 / max(1, len(source))
    shares = np.where(sums > 0, weights / np.where(sums > 0, sums, 1), even)  # (T, S)
    owed = np.concatenate([np.zeros((len(target), 1)), shares.cumsum(-1)], axis=1)  # (T, S + 1)
    return Block(source, target, owed)


@dataclass(frozen=True)
class Blocks:
    """The sentences of a text, in their order, beside their translations."""

    blocks: Sequence[Block]

    @cached_property
    def _begins(self) -> list[int]:
        return [one.source.start for one in self.blocks]

    @cached_property
    def _ends(self) -> list[int]:
        return [one.source.stop for one in self.blocks]

    def shares(self, source: range, room: range) -> "Along":
        """For words of `room` what share of each comes from the words of `source`.

        Of those that are not told of it is none: they are in other sentences.
        """
        there = self.blocks[
            bisect_right(self._ends, source.start) : bisect_left(self._begins, source.stop)
        ]
        found = [np.zeros(0)]
        for one in there:
            first, last = (
                min(max(place, one.source.start), one.source.stop) - one.source.start
                for place in (source.start, source.stop)
            )
            found.append(one.owed[:, last] - one.owed[:, first])
        begin = there[0].target.start if there else room.start
        values = np.concatenate(found)
        values = values[max(0, room.start - begin) : max(0, room.stop - begin)]
        return Along(max(room.start, begin), values)

    def seams(self, number: int) -> "Along":
        """How well each gap of the translation fits the gap before the source word `number`.

        Fit is what stands on the right side of the gap, each word by its share; and a little more
        where the words next to the source's gap are next to it.
        """
        place = bisect_left(self._ends, number)
        if place == len(self.blocks):
            return Along(self.blocks[-1].target.stop if self.blocks else 0, np.zeros(1))
        one = self.blocks[place]
        column = number - one.source.start
        if column <= 0 or number == one.source.stop:
            return Along(one.target.start if column <= 0 else one.target.stop, np.zeros(1))
        left = one.owed[:, column]  # (T,)
        before = np.concatenate([[0.0], left.cumsum()])  # (T + 1,)
        behind = np.concatenate([(1 - left)[::-1].cumsum()[::-1], [0.0]])  # (T + 1,)
        after = np.concatenate([[0.0], left - one.owed[:, column - 1]])  # (T + 1,)
        ahead = np.concatenate([one.owed[:, column + 1] - left, [0.0]])  # (T + 1,)
        return Along(one.target.start, before + behind + NEARNESS * (after + ahead))
