"""LengthLimits on the length of answers: which fit given pairs, and which pairs do not fit them."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.decoding.settings import RuleSettings

COVERED_SHARE = 0.999
"""Share of the references that fit limits made for them."""
LENGTH_MARGIN = 1.25
"""Times the tokens of a reference that its answer may have."""
RATIOS = (2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 30.0, 50.0)
SHORTFALL_COST = 1000.0
"""What it costs when an offset that is given leaves an answer a token too little."""

FloatArray = NDArray[np.float64]


class LengthLimits(NamedTuple):
    """How long answers may be: fields of `RuleSettings`."""

    max_length: int
    max_length_ratio: float
    max_length_offset: int

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value:g}" for name, value in self._asdict().items())


DEFAULT_LIMITS = LengthLimits(*(getattr(RuleSettings(), name) for name in LengthLimits._fields))


def fit_limits(
    source: ArrayLike, target: ArrayLike, given: Mapping[str, float] | None = None
) -> LengthLimits:
    """Limits that targets fit with room to spare, where lengths (N,) are in tokens without EOS.

    They are never below the usual ones. Of the lines of ratio and offset that leave enough, it is
    the one that allows least on average. What is `given`, by name, stays as it is.
    """
    given = given or {}
    sources = np.asarray(source, np.float64) + 1  # with EOS, as limits count them
    required = np.ceil(LENGTH_MARGIN * (np.asarray(target, np.float64) + 1))
    if not len(sources):
        return LengthLimits(**{**DEFAULT_LIMITS._asdict(), **given})
    ratios = (given["max_length_ratio"],) if "max_length_ratio" in given else RATIOS
    fits = [_fit_offset(sources, required, ratio, given) for ratio in ratios]
    _, ratio, offset = min(fits)
    longest = max(DEFAULT_LIMITS.max_length, int(required.max()))
    return LengthLimits(int(given.get("max_length", longest)), ratio, offset)


def _fit_offset(
    sources: FloatArray, required: FloatArray, ratio: float, given: Mapping[str, float]
) -> tuple[float, float, int]:
    """What a ratio costs, the ratio itself, and the offset that it needs."""
    least = float(np.quantile(required - ratio * sources, COVERED_SHARE, method="higher"))
    offset = int(
        given.get("max_length_offset", max(DEFAULT_LIMITS.max_length_offset, math.ceil(least)))
    )
    return (
        ratio * float(sources.mean()) + offset + SHORTFALL_COST * max(0.0, least - offset),
        ratio,
        offset,
    )


def count_too_long(source: ArrayLike, target: ArrayLike, rules: RuleSettings) -> int:
    """How many targets are longer than answers may be; lengths (N,) in tokens without EOS."""
    allowed = np.floor(rules.max_length_ratio * (np.asarray(source, np.float64) + 1))
    limits = np.clip(allowed + rules.max_length_offset, 1, rules.max_length)
    return int((np.asarray(target, np.float64) + 1 > limits).sum())


class TruncationReport(NamedTuple):
    """What the limits on answers cost a score."""

    pairs: int
    references: int
    """That are longer than an answer may be."""
    answers: int
    """That reached the limit."""
    fitting: LengthLimits
    """That the references would fit."""

    def __str__(self) -> str:
        """What to say of it, and what to set; empty where nothing was cut."""
        sentences = []
        if self.references:
            sentences.append(
                f"{self.references:,} of {self.pairs:,} references "
                f"({self.references / self.pairs:.1%}) are longer than answers may be"
            )
        if self.answers:
            sentences.append(f"{self.answers:,} answers were cut at the limit")
        if not sentences:
            return ""
        advice = f"; decoding.rules of {{{self.fitting}}} would fit them" if self.references else ""
        return f"{' and '.join(sentences)}{advice}"


def report_truncation(
    source: ArrayLike, target: ArrayLike, rules: RuleSettings, answers: int = 0
) -> TruncationReport:
    """What was cut of pairs with these lengths in tokens, where so many answers met their limit."""
    beyond = count_too_long(source, target, rules)
    return TruncationReport(len(np.asarray(target)), beyond, answers, fit_limits(source, target))
