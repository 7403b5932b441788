"""Length limits of translations, fitted to given sentence pairs."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.decoding.settings import RuleSettings

COVERED_SHARE = 0.999  # share of the references within fitted limits
LENGTH_MARGIN = 1.25  # fitted limits allow this many times the tokens of a reference
RATIOS = (2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 30.0, 50.0)
SHORTFALL_COST = 1000.0  # cost of each token by which a given offset is too small

FloatArray = NDArray[np.float64]


class LengthLimits(NamedTuple):
    """The limits of `RuleSettings`."""

    max_length: int
    max_length_ratio: float
    max_length_offset: int

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value:g}" for name, value in self._asdict().items())


DEFAULT_LIMITS = LengthLimits(*(getattr(RuleSettings(), name) for name in LengthLimits._fields))


def fit_limits(
    source: ArrayLike, target: ArrayLike, given: Mapping[str, float] | None = None
) -> LengthLimits:
    """The limits that fit the targets with a margin and allow the fewest tokens on average, but no
    fewer than the defaults; `given` limits are kept. Lengths (N,) are in tokens without EOS.
    """
    given = given or {}
    sources = np.asarray(source, np.float64) + 1  # with EOS, as limits count them
    required = np.ceil(LENGTH_MARGIN * (np.asarray(target, np.float64) + 1))
    if not len(sources):
        return LengthLimits(**{**DEFAULT_LIMITS._asdict(), **given})
    ratios = (given["max_length_ratio"],) if "max_length_ratio" in given else RATIOS
    _, ratio, offset = min(_fit_offset(sources, required, ratio, given) for ratio in ratios)
    longest = max(DEFAULT_LIMITS.max_length, int(required.max()))
    return LengthLimits(int(given.get("max_length", longest)), ratio, offset)


def _fit_offset(
    sources: FloatArray, required: FloatArray, ratio: float, given: Mapping[str, float]
) -> tuple[float, float, int]:
    """The cost of a ratio, the ratio, and the offset that it needs."""
    least = float(np.quantile(required - ratio * sources, COVERED_SHARE, method="higher"))
    fitted = max(DEFAULT_LIMITS.max_length_offset, math.ceil(least))
    offset = int(given.get("max_length_offset", fitted))
    cost = ratio * float(sources.mean()) + offset + SHORTFALL_COST * max(0.0, least - offset)
    return cost, ratio, offset


def count_too_long(source: ArrayLike, target: ArrayLike, rules: RuleSettings) -> int:
    """How many targets exceed the limits; lengths (N,) are in tokens without EOS."""
    allowed = np.floor(rules.max_length_ratio * (np.asarray(source, np.float64) + 1))
    limits = np.clip(allowed + rules.max_length_offset, 1, rules.max_length)
    return int((np.asarray(target, np.float64) + 1 > limits).sum())


class TruncationReport(NamedTuple):
    """How many references and translations the limits truncate."""

    pairs: int
    references: int  # references beyond the limit
    answers: int  # translations that reached the limit
    fitting: LengthLimits  # limits that the references would fit

    def __str__(self) -> str:
        """A message with advice; empty if nothing was truncated."""
        sentences = []
        if self.references:
            sentences.append(
                f"{self.references:,} of {self.pairs:,} references "
                f"({self.references / self.pairs:.1%}) are longer than answers may be"
            )
        if self.answers:
            cut = "1 answer was" if self.answers == 1 else f"{self.answers:,} answers were"
            sentences.append(f"{cut} cut at the limit")
        if not sentences:
            return ""
        advice = f"; decoding.rules of {{{self.fitting}}} would fit them" if self.references else ""
        return f"{' and '.join(sentences)}{advice}"


def report_truncation(
    source: ArrayLike, target: ArrayLike, rules: RuleSettings, answers: int = 0
) -> TruncationReport:
    """The report for pairs of these lengths, of which `answers` translations reached the limit."""
    beyond = count_too_long(source, target, rules)
    return TruncationReport(len(np.asarray(target)), beyond, answers, fit_limits(source, target))
