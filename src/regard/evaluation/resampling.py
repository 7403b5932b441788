"""Bootstrap resampling: what the score might have been on other lines of the same kind."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.evaluation.metrics import Counts, Metric


class Interval(NamedTuple):
    """Where 95% of the resampled values lie."""

    low: float
    high: float


def resample(metric: Metric, counts: Counts, resamples: int, seed: int) -> NDArray[np.float64]:
    """Scores (R,) of R times N lines drawn with replacement from the N of `counts` (N, C).

    The draws depend on N, `resamples` and `seed` alone: two systems that are resampled alike are
    compared on the same lines. They are the draws of sacrebleu under the same seed.
    """
    draw = np.random.default_rng(seed)
    lines = len(counts)
    values = np.empty(resamples)
    for number in range(resamples):
        times = np.bincount(draw.choice(lines, size=lines), minlength=lines)  # (N,)
        values[number] = metric.value(times @ counts)
    return values


def interval(values: NDArray[np.float64]) -> Interval:
    """The values (R,) without the lowest and the highest fortieth, as sacrebleu cuts them."""
    ordered = np.sort(values)
    cut = len(ordered) // 40
    return Interval(float(ordered[cut]), float(ordered[-1 - cut]))
