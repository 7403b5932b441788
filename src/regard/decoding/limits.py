"""LengthLimits on the length of answers: which fit given pairs, and which pairs do not fit them."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.decoding.settings import RuleSettings

ENOUGH = 0.999
"""Share of the references that fit limits made for them."""
ROOM = 1.25
"""Times the tokens of a reference that its answer may have."""
RATIOS = (2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 30.0, 50.0)
SHORT = 1000.0
"""What it costs when an offset that is given leaves an answer a token too little."""

Numbers = NDArray[np.float64]


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
    needed = np.ceil(ROOM * (np.asarray(target, np.float64) + 1))
    if not len(sources):
        return LengthLimits(**{**DEFAULT_LIMITS._asdict(), **given})
    ratios = (given["max_length_ratio"],) if "max_length_ratio" in given else RATIOS
    lines = [_line(sources, needed, ratio, given) for ratio in ratios]
    _, ratio, offset = min(lines)
    most = max(DEFAULT_LIMITS.max_length, int(needed.max()))
    return LengthLimits(int(given.get("max_length", most)), ratio, offset)


def _line(
    sources: Numbers, needed: Numbers, ratio: float, given: Mapping[str, float]
) -> tuple[float, float, int]:
    """What a ratio costs, the ratio itself, and the offset that it needs."""
    least = float(np.quantile(needed - ratio * sources, ENOUGH, method="higher"))
    offset = int(
        given.get("max_length_offset", max(DEFAULT_LIMITS.max_length_offset, math.ceil(least)))
    )
    return ratio * float(sources.mean()) + offset + SHORT * max(0.0, least - offset), ratio, offset


def count_beyond(source: ArrayLike, target: ArrayLike, rules: RuleSettings) -> int:
    """How many targets are longer than answers may be; lengths (N,) in tokens without EOS."""
    allowed = np.floor(rules.max_length_ratio * (np.asarray(source, np.float64) + 1))
    limits = np.clip(allowed + rules.max_length_offset, 1, rules.max_length)
    return int((np.asarray(target, np.float64) + 1 > limits).sum())


class LengthCuts(NamedTuple):
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
        told = []
        if self.references:
            told.append(
                f"{self.references:,} of {self.pairs:,} references "
                f"({self.references / self.pairs:.1%}) are longer than answers may be"
            )
        if self.answers:
            told.append(f"{self.answers:,} answers were cut at the limit")
        if not told:
            return ""
        advice = f"; decoding.rules of {{{self.fitting}}} would fit them" if self.references else ""
        return f"{' and '.join(told)}{advice}"


def count_cut(
    source: ArrayLike, target: ArrayLike, rules: RuleSettings, answers: int = 0
) -> LengthCuts:
    """What was cut of pairs with these lengths in tokens, where so many answers met their limit."""
    beyond = count_beyond(source, target, rules)
    return LengthCuts(len(np.asarray(target)), beyond, answers, fit_limits(source, target))
