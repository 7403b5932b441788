"""Pairs whose sides do not belong together, found by what translations share: length and words.

A line lost in one of two parallel files moves every line behind it to a wrong partner. Both sides
still count as many lines once another is lost on the other side, and nothing else tells.
"""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.corpora.pairs import Pair

REACH = 3
"""Lines up and down that a partner is looked for."""
WINDOW = 128
"""Lines that are judged together; of a smaller corpus all, from `FEWEST` on."""
FEWEST = 32
CLEARLY = 6.0
"""Evidence, in standard deviations, from which a shift is believed."""
RELATED = 0.3
"""Correlation of lengths below which a window looks like pairs by chance: it is 0.6 and more in
windows of true translations, and within ±0.2 among unrelated lines."""
SPREAD = 0.15
"""Standard deviation of the logarithms of lengths below which they say nothing."""
LASTING = 3
"""Windows in a row from which unrelated lines are no longer chance."""

Floats = NDArray[np.float64]

_WORD, _DIGIT = re.compile(r"\w{3,}|\d+"), re.compile(r"\d")


class Stretch(NamedTuple):
    """Lines that look out of step; both ends belong to it, counted from 1."""

    first: int
    last: int
    shift: int | None
    """Source line n belongs to target line n + shift; None: to none of those near it."""


@dataclass(frozen=True)
class Alignment:
    """How well the two sides of a split go together."""

    correlation: float | None
    """Of the logarithms of the lengths in characters; None where a side's hardly vary."""
    stretches: tuple[Stretch, ...]
    with_numbers: int
    """Pairs with digits on both sides."""
    numbers_unlike: int
    """Those of them whose digits, in any order, are not the same."""


class _Line(NamedTuple):
    """What is kept of a pair until its neighbourhood has been judged."""

    source: float
    target: float
    source_words: frozenset[str]
    target_words: frozenset[str]


@dataclass
class _Run:
    """Lines from `first` on, from 0, with one verdict."""

    first: int
    shift: int | None
    windows: int = 1


class AlignmentScan:
    """Takes the pairs of a split in their order; keeps a few windows of them at a time."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._first = 0  # the number of the first of them
        self._next = REACH  # the first line not judged yet
        self._runs: list[_Run] = []
        self._total = 0
        self._moments = np.zeros(5)  # sums of x, y, x², y², xy
        self._with_numbers = self._numbers_unlike = 0

    def add(self, pair: Pair) -> None:
        """Take the next pair."""
        self._count_numbers(pair)
        line = _line(pair)
        x, y = line.source, line.target
        self._moments += (x, y, x * x, y * y, x * y)
        self._lines.append(line)
        self._total += 1
        if self._total == self._next + WINDOW + REACH:
            self._judge(self._next, self._next + WINDOW)

    def result(self) -> Alignment:
        """What the pairs so far amount to; none may be added after."""
        last = self._total - REACH
        size = min(WINDOW, last - REACH)
        if last > self._next and (self._runs or size >= FEWEST):
            self._judge(last - size, last)
        settled = self._runs[:-1] if self._in_doubt() else self._runs
        stretches = _stretches(_smooth(settled), self._total)
        return Alignment(self._correlation(), stretches, self._with_numbers, self._numbers_unlike)

    def _count_numbers(self, pair: Pair) -> None:
        source = _digits(pair.source)
        if source and (target := _digits(pair.target)):
            self._with_numbers += 1
            self._numbers_unlike += source != target

    def _correlation(self) -> float | None:
        if self._total < FEWEST:
            return None
        x, y, xx, yy, xy = self._moments / self._total
        spread = np.sqrt(np.maximum(0, (xx - x * x, yy - y * y)))
        if spread.min() < SPREAD:
            return None
        return float((xy - x * y) / spread.prod())

    def _judge(self, begin: int, end: int) -> None:
        """Find the shift of the lines from `begin` up to `end`, and forget what is settled."""
        shift = self._verdict(begin, end)
        if self._in_doubt() and shift is not None:
            self._runs.pop()  # it was chance, or the place where one shift gives way to another
        if not self._runs:
            self._runs.append(_Run(0, shift))
        elif self._runs[-1].shift == shift:
            self._runs[-1].windows += 1
        else:
            self._runs.append(_Run(self._change(self._runs[-1].shift, shift, end), shift))
        self._next = end
        if not self._in_doubt():
            del self._lines[: begin - REACH - self._first]
            self._first = begin - REACH

    def _in_doubt(self) -> bool:
        """Whether the last lines look unrelated, but have not done so for long."""
        last = self._runs[-1] if self._runs else None
        return last is not None and last.shift is None and last.windows < LASTING

    def _verdict(self, begin: int, end: int) -> int | None:
        view = self._view(begin, end)
        lengths, correlation = view.length_evidence()
        evidence = lengths + view.word_evidence()  # (2 * REACH + 1,), 0 for no shift
        evidence[REACH] = -np.inf
        best = int(evidence.argmax())
        if evidence[best] > CLEARLY:
            return best - REACH
        if correlation is not None and correlation < RELATED and evidence[best] > -CLEARLY:
            return None
        if evidence[best] < -1 or not self._runs:
            return 0
        return self._runs[-1].shift  # it says nothing: as before

    def _change(self, before: int | None, after: int | None, end: int) -> int:
        """The line, of those kept, where one shift most likely gives way to the other."""
        if before is None or after is None:
            return self._next
        begin = self._first + REACH
        view = self._view(begin, end)
        gain = view.cost(before) - view.cost(after)  # (N,) positive where `after` fits better
        gained = np.append(np.cumsum(gain[::-1])[::-1], 0.0)  # (N + 1,) from each line on
        return begin + int(gained.argmax())

    def _view(self, begin: int, end: int) -> "_View":
        start = begin - self._first
        stop = end - self._first
        near = self._lines[start - REACH : stop + REACH]
        return _View(
            np.array([line.source for line in self._lines[start:stop]]),
            np.array([line.target for line in near]),
            [line.source_words for line in self._lines[start:stop]],
            [line.target_words for line in near],
        )


class _View(NamedTuple):
    """N source lines, and the target lines from `REACH` before to `REACH` behind them."""

    source: Floats  # (N,) logarithms of lengths
    target: Floats  # (N + 2 * REACH,)
    source_words: Sequence[frozenset[str]]
    target_words: Sequence[frozenset[str]]

    def length_evidence(self) -> tuple[Floats, float | None]:
        """For each shift, by how much lengths correlate better than unshifted, and how they do so.

        Evidence is the difference of Fisher's z-transforms over its standard deviation, were the
        two unrelated. There is no correlation where one of the sides hardly varies.
        """
        num = len(self.source)
        x = self.source - self.source.mean()  # (N,)
        y = np.lib.stride_tricks.sliding_window_view(self.target, num)  # (2 * REACH + 1, N)
        y = y - y.mean(axis=1, keepdims=True)
        spread = x.std() * y.std(axis=1)  # (2 * REACH + 1,)
        if x.std() < SPREAD or y.std(axis=1).min() < SPREAD:
            return np.zeros(len(spread)), None
        correlations = (y @ x) / num / spread  # (2 * REACH + 1,)
        z = np.arctanh(correlations.clip(-0.99, 0.99))
        return (z - z[REACH]) * np.sqrt((num - 3) / 2), float(correlations[REACH])

    def word_evidence(self) -> Floats:
        """For each shift, by how much more words are shared than unshifted: a paired t."""
        shared = np.array([self.shared(shift) for shift in range(-REACH, REACH + 1)])  # (7, N)
        more = shared - shared[REACH]
        spread = more.std(axis=1, ddof=1) / np.sqrt(len(self.source))
        t: Floats = more.mean(axis=1) / np.where(spread > 0, spread, np.inf)
        return t

    def shared(self, shift: int) -> Floats:
        """How many words each source line shares with the target line `shift` further down."""
        near = self.target_words[REACH + shift :]
        return np.array([len(a & b) for a, b in zip(self.source_words, near, strict=False)], float)

    def cost(self, shift: int) -> Floats:
        """How unlike each source line is to the target line `shift` further down."""
        x, y = (side - side.mean() for side in (self.source, self.target))
        start = REACH + shift
        apart = x - y[start : start + len(x)]
        cost: Floats = np.square(apart / max(SPREAD, x.std())) - 2 * self.shared(shift)
        return cost


def _digits(text: str) -> list[int]:
    """The digits of a text, sorted; those of any script, and full-width ones, by their value."""
    return sorted(unicodedata.digit(digit) for digit in _DIGIT.findall(text))


def _line(pair: Pair) -> _Line:
    source, target = pair
    return _Line(
        math.log1p(len(source)),
        math.log1p(len(target)),
        frozenset(_WORD.findall(source.casefold())),
        frozenset(_WORD.findall(target.casefold())),
    )


def _smooth(runs: Sequence[_Run]) -> list[_Run]:
    """The runs, less what chance shows for some windows among lines that are unrelated."""
    smooth: list[_Run] = []
    for run, after in zip_longest(runs, runs[1:]):
        before = smooth[-1] if smooth else None
        if before and after and before.shift is after.shift is None and run.windows <= LASTING:
            run = replace(run, shift=None)
        if before and before.shift == run.shift:
            smooth[-1] = replace(before, windows=before.windows + run.windows)
        else:
            smooth.append(run)
    return smooth


def _stretches(runs: Sequence[_Run], total: int) -> tuple[Stretch, ...]:
    """The runs that are out of step, from their first line up to where the next begins."""
    ends = [*(run.first for run in runs[1:]), total]
    return tuple(
        Stretch(run.first + 1, end, run.shift)
        for run, end in zip(runs, ends, strict=False)
        if run.shift != 0
    )
