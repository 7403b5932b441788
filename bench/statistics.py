"""Several figures of one thing -> what to print of them."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np


class Summary(NamedTuple):
    """The middle of some figures, and how far they lie apart."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """The distance of the outermost, as a share of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0


def summarise(figures: Sequence[float]) -> Summary:
    """The median, least and greatest of `figures`, of which there is at least one."""
    return Summary(median(figures), min(figures), max(figures))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Summary:
    """How many times theirs ours is, by rounds.

    What slows the machine down for a while slows both figures of a round, and not their ratio.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"rounds do not match: {len(ours)} of ours, {len(theirs)} of theirs")
    return summarise([mine / other for mine, other in zip(ours, theirs, strict=True)])


def percentile(figures: Sequence[float], share: float) -> float:
    """The figure below which `share` of them lie, from 0 to 1."""
    return float(np.quantile(np.asarray(figures, dtype=np.float64), share))


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """k of the power law cost ~ size^k that fits best: 1 is linear, 2 square."""
    if len(sizes) < 2 or min(*sizes, *costs) <= 0:
        raise ValueError(f"a power law needs two sizes and positive costs, got {sizes}, {costs}")
    slope, _ = np.polyfit(np.log(sizes), np.log(costs), 1)
    return float(slope)


def upper_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """How a cost grows where it is no longer small: over the upper half of the sizes."""
    half = len(sizes) // 2
    return exponent(sizes[half:], costs[half:])
