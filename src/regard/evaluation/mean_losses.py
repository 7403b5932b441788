"""Paired tests of two models by their losses on the same examples."""

import math

import numpy as np
from numpy.typing import NDArray

from regard.evaluation.metrics import Counts, SummedMetric
from regard.evaluation.perplexity import MAX_NATS
from regard.evaluation.scores import Comparison, ScoreSettings, compare_counts

Losses = NDArray[np.float64]

BLOCK = 64  # tokens of a text that are resampled together, as neighbours depend on each other


class MeanLoss(SummedMetric):
    """The mean of losses; statistics: their sum, their number."""

    lower_is_better = True

    def __init__(self, name: str, unit: str) -> None:
        self.name, self.unit = name, unit

    def value(self, total: Counts) -> float:
        return float(total[0] / total[1])

    def signature(self, resamples: int, seed: int) -> str:
        drawn = f"|bs:{resamples}|seed:{seed}" if resamples else ""
        return f"per:{self.unit}{drawn}"


class MeanPerplexity(MeanLoss):
    """exp of the mean of losses in nats."""

    def value(self, total: Counts) -> float:
        return math.exp(min(super().value(total), MAX_NATS))


def compare_losses(
    first: Losses, second: Losses, metric: MeanLoss, *, block: int = 1
) -> Comparison:
    """Compare two models by their losses (N,) on the same examples, by paired bootstrap resampling
    of blocks of neighbours.
    """
    one, two = (_block_counts(losses, block) for losses in (first, second))
    return compare_counts(metric, one, two, ScoreSettings())


def _block_counts(losses: Losses, block: int) -> Counts:
    """The sum and the number of the losses of each block: (blocks, 2)."""
    starts = np.arange(0, len(losses), block)
    sizes = np.diff(np.append(starts, len(losses)))
    return np.stack([np.add.reduceat(losses, starts), sizes.astype(np.float64)], axis=1)
