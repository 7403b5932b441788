"""Misaligned lines of parallel text, detected by the lengths and words that translations share."""

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

MAX_SHIFT = 3  # largest shift tried in either direction
WINDOW_LINES = 128  # lines in a window
MIN_LINES = 32  # a corpus with fewer is not checked
MIN_EVIDENCE = 6.0  # for a shift to be accepted, in standard deviations
MIN_WINDOW_CORRELATION = 0.3  # of lengths: translations have 0.6 and more, others within ±0.2
MIN_LENGTH_SPREAD = 0.15  # standard deviation of log lengths; below it they are no evidence
MIN_UNRELATED_WINDOWS = 3  # consecutive ones for unrelated lines to be reported

FloatArray = NDArray[np.float64]

_WORD, _DIGIT = re.compile(r"\w{3,}|\d+"), re.compile(r"\d")


class MisalignedLines(NamedTuple):
    """A range of lines, both ends inclusive, counted from 1."""

    first: int
    last: int
    shift: int | None
    """Source line n belongs to target line n + shift; None: the lines are unrelated."""


@dataclass(frozen=True)
class LineAlignment:
    """How well the two sides of a split match."""

    correlation: float | None
    """Of the log lengths in characters; None if the lengths of a side hardly vary."""
    stretches: tuple[MisalignedLines, ...]
    with_numbers: int  # pairs with digits on both sides
    numbers_unlike: int  # of these, pairs whose digits differ, ignoring their order


class _LineFeatures(NamedTuple):
    """The features of a pair that are kept until its window has been classified."""

    source: float  # log length
    target: float
    source_words: frozenset[str]
    target_words: frozenset[str]


@dataclass
class _ShiftRun:
    """Consecutive windows with the same shift; `first` is a line, counted from 0."""

    first: int
    shift: int | None
    windows: int = 1


class LineAlignmentScan:
    """Scans the pairs of a split in order; keeps a few windows of them in memory."""

    def __init__(self) -> None:
        self._lines: list[_LineFeatures] = []  # those that are still needed
        self._first = 0  # index of the first of them
        self._next = MAX_SHIFT  # index of the first unclassified line
        self._runs: list[_ShiftRun] = []
        self._total = 0
        self._moments = np.zeros(5)  # sums of x, y, x², y², xy
        self._with_numbers = self._numbers_unlike = 0

    def add(self, pair: Pair) -> None:
        source, target = pair
        if (digits := _digits(source)) and (target_digits := _digits(target)):
            self._with_numbers += 1
            self._numbers_unlike += digits != target_digits
        x, y = math.log1p(len(source)), math.log1p(len(target))
        self._moments += (x, y, x * x, y * y, x * y)
        words = (frozenset(_WORD.findall(text.casefold())) for text in pair)
        self._lines.append(_LineFeatures(x, y, *words))
        self._total += 1
        if self._total == self._next + WINDOW_LINES + MAX_SHIFT:
            self._classify_window(self._next, self._next + WINDOW_LINES)

    def result(self) -> LineAlignment:
        """The alignment of all pairs; none may be added afterwards."""
        last = self._total - MAX_SHIFT
        size = min(WINDOW_LINES, last - MAX_SHIFT)
        if last > self._next and (self._runs or size >= MIN_LINES):
            self._classify_window(last - size, last)
        smooth = _smooth(self._runs[:-1] if self._is_tentative() else self._runs)
        ends = [*(run.first for run in smooth[1:]), self._total]
        stretches = tuple(
            MisalignedLines(run.first + 1, end, run.shift)
            for run, end in zip(smooth, ends, strict=False)
            if run.shift != 0
        )
        correlation = self._correlation()
        return LineAlignment(correlation, stretches, self._with_numbers, self._numbers_unlike)

    def _correlation(self) -> float | None:
        if self._total < MIN_LINES:
            return None
        x, y, xx, yy, xy = self._moments / self._total
        spread = np.sqrt(np.maximum(0, (xx - x * x, yy - y * y)))
        if spread.min() < MIN_LENGTH_SPREAD:
            return None
        return float((xy - x * y) / spread.prod())

    def _classify_window(self, begin: int, end: int) -> None:
        """Find the shift of the lines from `begin` to `end`, and drop lines no longer needed."""
        shift = self._window_shift(begin, end)
        if self._is_tentative() and shift is not None:
            self._runs.pop()  # noise, or the transition between two shifts
        if not self._runs:
            self._runs.append(_ShiftRun(0, shift))
        elif self._runs[-1].shift == shift:
            self._runs[-1].windows += 1
        else:
            first = self._change_point(self._runs[-1].shift, shift, end)
            self._runs.append(_ShiftRun(first, shift))
        self._next = end
        if not self._is_tentative():
            del self._lines[: begin - MAX_SHIFT - self._first]
            self._first = begin - MAX_SHIFT

    def _is_tentative(self) -> bool:
        """Whether the last windows look unrelated, but are too few to be reported."""
        last = self._runs[-1] if self._runs else None
        return last is not None and last.shift is None and last.windows < MIN_UNRELATED_WINDOWS

    def _window_shift(self, begin: int, end: int) -> int | None:
        window = self._window(begin, end)
        lengths, correlation = window.length_evidence()
        evidence = lengths + window.word_evidence()  # (2 * MAX_SHIFT + 1,), relative to no shift
        evidence[MAX_SHIFT] = -np.inf
        best = int(evidence.argmax())
        if evidence[best] > MIN_EVIDENCE:
            return best - MAX_SHIFT
        uncorrelated = correlation is not None and correlation < MIN_WINDOW_CORRELATION
        if uncorrelated and evidence[best] > -MIN_EVIDENCE:
            return None
        if evidence[best] < -1 or not self._runs:
            return 0
        return self._runs[-1].shift  # no evidence: as before

    def _change_point(self, before: int | None, after: int | None, end: int) -> int:
        """The most likely line, of those kept, at which the shift changes."""
        if before is None or after is None:
            return self._next
        begin = self._first + MAX_SHIFT
        window = self._window(begin, end)
        gain = window.cost(before) - window.cost(after)  # (N,) positive where `after` fits better
        gained = np.append(np.cumsum(gain[::-1])[::-1], 0.0)  # (N + 1,) from each line to the end
        return begin + int(gained.argmax())

    def _window(self, begin: int, end: int) -> "_Window":
        start, stop = begin - self._first, end - self._first
        return _Window(self._lines[start - MAX_SHIFT : stop + MAX_SHIFT])


class _Window:
    """N source lines, and the target lines from `MAX_SHIFT` before to `MAX_SHIFT` after them."""

    def __init__(self, near: Sequence[_LineFeatures]) -> None:
        lines = near[MAX_SHIFT:-MAX_SHIFT]
        self._source = np.array([line.source for line in lines])  # (N,) log lengths
        self._target = np.array([line.target for line in near])  # (N + 2 * MAX_SHIFT,)
        # words that each source line shares with the target line of each shift
        self._shared = np.array(  # (2 * MAX_SHIFT + 1, N)
            [
                [len(a.source_words & b.target_words) for a, b in zip(lines, shifted, strict=False)]
                for shifted in (near[place:] for place in range(2 * MAX_SHIFT + 1))
            ],
            float,
        )

    def length_evidence(self) -> tuple[FloatArray, float | None]:
        """Evidence of each shift by correlation of lengths, and the correlation unshifted.

        Evidence is the difference of Fisher's z-transforms over its standard deviation under
        independence. The correlation is None if the lengths of a side hardly vary.
        """
        num = len(self._source)
        x = self._source - self._source.mean()  # (N,)
        y = np.lib.stride_tricks.sliding_window_view(self._target, num)  # (2 * MAX_SHIFT + 1, N)
        y = y - y.mean(axis=1, keepdims=True)
        spread = x.std() * y.std(axis=1)  # (2 * MAX_SHIFT + 1,)
        if x.std() < MIN_LENGTH_SPREAD or y.std(axis=1).min() < MIN_LENGTH_SPREAD:
            return np.zeros(len(spread)), None
        correlations = (y @ x) / num / spread  # (2 * MAX_SHIFT + 1,)
        z = np.arctanh(correlations.clip(-0.99, 0.99))
        return (z - z[MAX_SHIFT]) * np.sqrt((num - 3) / 2), float(correlations[MAX_SHIFT])

    def word_evidence(self) -> FloatArray:
        """Evidence of each shift by shared words: a paired t statistic against no shift."""
        more = self._shared - self._shared[MAX_SHIFT]
        spread = more.std(axis=1, ddof=1) / np.sqrt(len(self._source))
        t: FloatArray = more.mean(axis=1) / np.where(spread > 0, spread, np.inf)
        return t

    def cost(self, shift: int) -> FloatArray:
        """Cost (N,) of matching each source line with the target line `shift` further down."""
        x, y = (side - side.mean() for side in (self._source, self._target))
        start = MAX_SHIFT + shift
        apart = x - y[start : start + len(x)]
        squared = np.square(apart / max(MIN_LENGTH_SPREAD, x.std()))
        cost: FloatArray = squared - 2 * self._shared[start]
        return cost


def _digits(text: str) -> list[int]:
    """The values of the digits of a text, of any script, sorted."""
    return sorted(unicodedata.digit(digit) for digit in _DIGIT.findall(text))


def _smooth(runs: Sequence[_ShiftRun]) -> list[_ShiftRun]:
    """The runs, where a few windows between unrelated ones count as unrelated too."""
    smooth: list[_ShiftRun] = []
    for run, after in zip_longest(runs, runs[1:]):
        before = smooth[-1] if smooth else None
        unrelated = [beside is not None and beside.shift is None for beside in (before, after)]
        shift = None if all(unrelated) and run.windows <= MIN_UNRELATED_WINDOWS else run.shift
        if before and before.shift == shift:
            before.windows += run.windows
        else:
            smooth.append(replace(run, shift=shift))
    return smooth
