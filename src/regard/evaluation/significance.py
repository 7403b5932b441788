"""Significance tests between two systems by paired bootstrap resampling (Koehn 2004)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import SettingsError
from regard.evaluation.metrics import check_lines
from regard.evaluation.scores import (
    BootstrapScores,
    Interval,
    ScoreSettings,
    bootstrap,
    build_metrics,
    confidence_interval,
)


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same lines, by one metric. Swapping them flips signs, not `p_value`."""

    name: str
    signature: str
    first: float
    second: float
    first_mean: float
    """The mean over the resamples, as `second_mean`."""
    second_mean: float
    delta: float
    """`second` - `first`; with TER a negative one is a gain."""
    interval: Interval
    """Of the difference."""
    wins: float
    """The share of resamples in which the second system is better, ties counted half."""
    p_value: float
    """The two-sided probability of a difference at least this large between equal systems."""
    resamples: int
    seed: int


def compare(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    settings: ScoreSettings,
) -> list[Comparison]:
    """Compare two systems' translations of the same lines by each metric.

    Each resample draws lines with replacement and scores both systems on them. For the p-value the
    differences are shifted to mean 0, as if the systems were equal (Efron and Tibshirani 1993,
    section 16.4); the observed difference is one of them, so it is never 0.
    """
    if settings.resamples < 100:
        raise SettingsError(
            f"resamples: a comparison needs at least 100, got {settings.resamples}; 1000 is usual"
        )
    check_lines(first_translations=first, second_translations=second, references=references)
    comparisons = []
    for metric in build_metrics(settings, references):
        one, two = (
            bootstrap(metric, metric.count(lines, references), settings.resamples, settings.seed)
            for lines in (first, second)
        )
        differences = two.drawn - one.drawn  # (R,)
        gains = -differences if metric.lower_is_better else differences
        comparison = Comparison(
            name=metric.name,
            signature=metric.signature(settings.resamples, settings.seed),
            first=one.value,
            second=two.value,
            first_mean=float(one.drawn.mean()),
            second_mean=float(two.drawn.mean()),
            delta=two.value - one.value,
            interval=confidence_interval(differences),
            wins=float((np.sign(gains).mean() + 1) / 2),
            p_value=p_value(one, two),
            resamples=settings.resamples,
            seed=settings.seed,
        )
        comparisons.append(comparison)
    return comparisons


def p_value(first: BootstrapScores, second: BootstrapScores) -> float:
    """The two-sided p-value of two scores resampled on the same lines."""
    differences = second.drawn - first.drawn  # (R,)
    centred = np.abs(differences - differences.mean())
    delta = abs(second.value - first.value)
    return float((np.sum(centred >= delta) + 1) / (len(differences) + 1))
