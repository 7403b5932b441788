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

from regard.corpora.corpus import Pair

MAX_SHIFT = 3
"""Lines up and down that a partner is looked for."""
WINDOW_LINES = 128
"""Lines that are judged together; of a smaller corpus all, from `FEWEST` on."""
MIN_LINES = 32
MIN_EVIDENCE = 6.0
"""Evidence, in standard deviations, from which a shift is believed."""
MIN_WINDOW_CORRELATION = 0.3
"""Correlation of lengths below which a window looks like pairs by chance: it is 0.6 and more in
windows of true translations, and within ±0.2 among unrelated lines."""
MIN_LENGTH_SPREAD = 0.15
"""Standard deviation of the logarithms of lengths below which they say nothing."""
MIN_UNRELATED_WINDOWS = 3
"""Windows in a row from which unrelated lines are no longer chance."""

FloatArray = NDArray[np.float64]

_WORD, _DIGIT = re.compile(r"\w{3,}|\d+"), re.compile(r"\d")


class MisalignedLines(NamedTuple):
    """Lines that look out of step; both ends belong to it, counted from 1."""

    first: int
    last: int
    shift: int | None
    """Source line n belongs to target line n + shift; None: to none of those near it."""


@dataclass(frozen=True)
class LineAlignment:
    """How well the two sides of a split go together."""

    correlation: float | None
    """Of the logarithms of the lengths in characters; None where a side's hardly vary."""
    stretches: tuple[MisalignedLines, ...]
    with_numbers: int
    """Pairs with digits on both sides."""
    numbers_unlike: int
    """Those of them whose digits, in any order, are not the same."""


class _LineFeatures(NamedTuple):
    """What is kept of a pair until its neighbourhood has been judged."""

    source: float
    target: float
    source_words: frozenset[str]
    target_words: frozenset[str]


@dataclass
class _ShiftRun:
    """Lines from `first` on, from 0, with one verdict."""

    first: int
    shift: int | None
    windows: int = 1


class LineAlignmentScan:
    """Takes the pairs of a split in their order; keeps a few windows of them at a time."""

    def __init__(self) -> None:
        self._lines: list[_LineFeatures] = []
        self._first = 0  # the number of the first of them
        self._next = MAX_SHIFT  # the first line not judged yet
        self._runs: list[_ShiftRun] = []
        self._total = 0
        self._moments = np.zeros(5)  # sums of x, y, x², y², xy
        self._with_numbers = self._numbers_unlike = 0

    def add(self, pair: Pair) -> None:
        """Take the next pair."""
        self._count_numbers(pair)
        line = _line_features(pair)
        x, y = line.source, line.target
        self._moments += (x, y, x * x, y * y, x * y)
        self._lines.append(line)
        self._total += 1
        if self._total == self._next + WINDOW_LINES + MAX_SHIFT:
            self._classify_window(self._next, self._next + WINDOW_LINES)

    def result(self) -> LineAlignment:
        """What the pairs so far amount to; none may be added after."""
        last = self._total - MAX_SHIFT
        size = min(WINDOW_LINES, last - MAX_SHIFT)
        if last > self._next and (self._runs or size >= MIN_LINES):
            self._classify_window(last - size, last)
        settled = self._runs[:-1] if self._is_tentative() else self._runs
        stretches = _misaligned_lines(_smooth(settled), self._total)
        return LineAlignment(
            self._correlation(), stretches, self._with_numbers, self._numbers_unlike
        )

    def _count_numbers(self, pair: Pair) -> None:
        source = _digits(pair.source)
        if source and (target := _digits(pair.target)):
            self._with_numbers += 1
            self._numbers_unlike += source != target

    def _correlation(self) -> float | None:
        if self._total < MIN_LINES:
            return None
        x, y, xx, yy, xy = self._moments / self._total
        spread = np.sqrt(np.maximum(0, (xx - x * x, yy - y * y)))
        if spread.min() < MIN_LENGTH_SPREAD:
            return None
        return float((xy - x * y) / spread.prod())

    def _classify_window(self, begin: int, end: int) -> None:
        """Find the shift of the lines from `begin` up to `end`, and forget what is settled."""
        shift = self._window_shift(begin, end)
        if self._is_tentative() and shift is not None:
            self._runs.pop()  # it was chance, or the place where one shift gives way to another
        if not self._runs:
            self._runs.append(_ShiftRun(0, shift))
        elif self._runs[-1].shift == shift:
            self._runs[-1].windows += 1
        else:
            self._runs.append(
                _ShiftRun(self._change_point(self._runs[-1].shift, shift, end), shift)
            )
        self._next = end
        if not self._is_tentative():
            del self._lines[: begin - MAX_SHIFT - self._first]
            self._first = begin - MAX_SHIFT

    def _is_tentative(self) -> bool:
        """Whether the last lines look unrelated, but have not done so for long."""
        last = self._runs[-1] if self._runs else None
        return last is not None and last.shift is None and last.windows < MIN_UNRELATED_WINDOWS

    def _window_shift(self, begin: int, end: int) -> int | None:
        view = self._window(begin, end)
        lengths, correlation = view.length_evidence()
        evidence = lengths + view.word_evidence()  # (2 * REACH + 1,), 0 for no shift
        evidence[MAX_SHIFT] = -np.inf
        best = int(evidence.argmax())
        if evidence[best] > MIN_EVIDENCE:
            return best - MAX_SHIFT
        if (
            correlation is not None
            and correlation < MIN_WINDOW_CORRELATION
            and evidence[best] > -MIN_EVIDENCE
        ):
            return None
        if evidence[best] < -1 or not self._runs:
            return 0
        return self._runs[-1].shift  # it says nothing: as before

    def _change_point(self, before: int | None, after: int | None, end: int) -> int:
        """The line, of those kept, where one shift most likely gives way to the other."""
        if before is None or after is None:
            return self._next
        begin = self._first + MAX_SHIFT
        view = self._window(begin, end)
        gain = view.cost(before) - view.cost(after)  # (N,) positive where `after` fits better
        gained = np.append(np.cumsum(gain[::-1])[::-1], 0.0)  # (N + 1,) from each line on
        return begin + int(gained.argmax())

    def _window(self, begin: int, end: int) -> "_Window":
        start = begin - self._first
        stop = end - self._first
        near = self._lines[start - MAX_SHIFT : stop + MAX_SHIFT]
        return _Window(
            np.array([line.source for line in self._lines[start:stop]]),
            np.array([line.target for line in near]),
            [line.source_words for line in self._lines[start:stop]],
            [line.target_words for line in near],
        )


class _Window(NamedTuple):
    """N source lines, and the target lines from `REACH` before to `REACH` behind them."""

    source: FloatArray  # (N,) logarithms of lengths
    target: FloatArray  # (N + 2 * REACH,)
    source_words: Sequence[frozenset[str]]
    target_words: Sequence[frozenset[str]]

    def length_evidence(self) -> tuple[FloatArray, float | None]:
        """For each shift, by how much lengths correlate better than unshifted, and how they do so.

        Evidence is the difference of Fisher's z-transforms over its standard deviation, were the
        two unrelated. There is no correlation where one of the sides hardly varies.
        """
        num = len(self.source)
        x = self.source - self.source.mean()  # (N,)
        y = np.lib.stride_tricks.sliding_window_view(self.target, num)  # (2 * REACH + 1, N)
        y = y - y.mean(axis=1, keepdims=True)
        spread = x.std() * y.std(axis=1)  # (2 * REACH + 1,)
        if x.std() < MIN_LENGTH_SPREAD or y.std(axis=1).min() < MIN_LENGTH_SPREAD:
            return np.zeros(len(spread)), None
        correlations = (y @ x) / num / spread  # (2 * REACH + 1,)
        z = np.arctanh(correlations.clip(-0.99, 0.99))
        return (z - z[MAX_SHIFT]) * np.sqrt((num - 3) / 2), float(correlations[MAX_SHIFT])

    def word_evidence(self) -> FloatArray:
        """For each shift, by how much more words are shared than unshifted: a paired t."""
        shared = np.array(
            [self.shared(shift) for shift in range(-MAX_SHIFT, MAX_SHIFT + 1)]
        )  # (7, N)
        more = shared - shared[MAX_SHIFT]
        spread = more.std(axis=1, ddof=1) / np.sqrt(len(self.source))
        t: FloatArray = more.mean(axis=1) / np.where(spread > 0, spread, np.inf)
        return t

    def shared(self, shift: int) -> FloatArray:
        """How many words each source line shares with the target line `shift` further down."""
        near = self.target_words[MAX_SHIFT + shift :]
        return np.array([len(a & b) for a, b in zip(self.source_words, near, strict=False)], float)

    def cost(self, shift: int) -> FloatArray:
        """How unlike each source line is to the target line `shift` further down."""
        x, y = (side - side.mean() for side in (self.source, self.target))
        start = MAX_SHIFT + shift
        apart = x - y[start : start + len(x)]
        cost: FloatArray = np.square(apart / max(MIN_LENGTH_SPREAD, x.std())) - 2 * self.shared(
            shift
        )
        return cost


def _digits(text: str) -> list[int]:
    """The digits of a text, sorted; those of any script, and full-width ones, by their value."""
    return sorted(unicodedata.digit(digit) for digit in _DIGIT.findall(text))


def _line_features(pair: Pair) -> _LineFeatures:
    source, target = pair
    return _LineFeatures(
        math.log1p(len(source)),
        math.log1p(len(target)),
        frozenset(_WORD.findall(source.casefold())),
        frozenset(_WORD.findall(target.casefold())),
    )


def _smooth(runs: Sequence[_ShiftRun]) -> list[_ShiftRun]:
    """The runs, less what chance shows for some windows among lines that are unrelated."""
    smooth: list[_ShiftRun] = []
    for run, after in zip_longest(runs, runs[1:]):
        before = smooth[-1] if smooth else None
        if (
            before
            and after
            and before.shift is after.shift is None
            and run.windows <= MIN_UNRELATED_WINDOWS
        ):
            run = replace(run, shift=None)
        if before and before.shift == run.shift:
            smooth[-1] = replace(before, windows=before.windows + run.windows)
        else:
            smooth.append(run)
    return smooth


def _misaligned_lines(runs: Sequence[_ShiftRun], total: int) -> tuple[MisalignedLines, ...]:
    """The runs that are out of step, from their first line up to where the next begins."""
    ends = [*(run.first for run in runs[1:]), total]
    return tuple(
        MisalignedLines(run.first + 1, end, run.shift)
        for run, end in zip(runs, ends, strict=False)
        if run.shift != 0
    )
