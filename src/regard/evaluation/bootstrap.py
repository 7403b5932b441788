"""Bootstrap resampling: what the score might have been on other lines of the same kind."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.evaluation.metrics import Counts, Metric


class Interval(NamedTuple):
    """Where 95% of the resampled values lie."""

    low: float
    high: float


class BootstrapScores(NamedTuple):
    """A score, and what it is on each of R resamples of the lines."""

    value: float
    drawn: NDArray[np.float64]
    """(R,)"""


def resample(metric: Metric, counts: Counts, resamples: int, seed: int) -> NDArray[np.float64]:
    """Scores (R,) of R times N lines drawn with replacement from the N of `counts` (N, C).

    The draws depend on N, `resamples` and `seed` alone: two systems that are resampled alike are
    compared on the same lines. They are the draws of sacrebleu under the same seed.
    """
    rng = np.random.default_rng(seed)
    lines = len(counts)
    values = np.empty(resamples)
    for number in range(resamples):
        line_counts = np.bincount(rng.choice(lines, size=lines), minlength=lines)  # (N,)
        values[number] = metric.value(line_counts @ counts)
    return values


def bootstrap(metric: Metric, counts: Counts, resamples: int, seed: int) -> BootstrapScores:
    """The score of the lines that `counts` (N, C) were taken from, with its resamples."""
    return BootstrapScores(metric.value(counts.sum(0)), resample(metric, counts, resamples, seed))


def mean_of_runs(runs: Sequence[BootstrapScores]) -> BootstrapScores:
    """The mean score of several runs on the same lines: in each resample, the mean of theirs."""
    drawn = np.mean([run.drawn for run in runs], axis=0)  # (R,)
    return BootstrapScores(float(np.mean([run.value for run in runs])), drawn)


def interval(values: NDArray[np.float64]) -> Interval:
    """The values (R,) without the lowest and the highest fortieth, as sacrebleu cuts them."""
    ordered = np.sort(values)
    cut = len(ordered) // 40
    return Interval(float(ordered[cut]), float(ordered[-1 - cut]))
