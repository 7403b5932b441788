"""Whether one system beats another, or the test set was merely kind (Koehn 2004)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import SettingsError
from regard.evaluation.bootstrap import BootstrapScores, Interval, bootstrap, interval
from regard.evaluation.metrics import Metric, check_lines
from regard.evaluation.scores import ScoreSettings, build_metrics


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same lines, by one metric. Swapping them flips every sign, not `p_value`.

    An interval holds 95% of the resampled values.
    """

    name: str
    signature: str
    first: float
    second: float
    first_mean: float
    """Over the resamples, as `second_mean`."""
    second_mean: float
    delta: float
    """`second` - `first`; under TER a negative one is a gain."""
    interval: Interval
    """Of the difference."""
    wins: float
    """The share of resamples that the second system wins, ties counted half (Koehn 2004)."""
    p_value: float
    """How often a difference at least this large would come about between equals; two-sided."""
    resamples: int
    seed: int


def compare(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    settings: ScoreSettings,
) -> list[Comparison]:
    """Paired bootstrap resampling of two systems' translations of the same lines, by each metric.

    Each resample draws lines with replacement and scores both systems on them. For the p-value the
    differences are shifted to mean 0, as if the systems were equal (Efron and Tibshirani 1993,
    section 16.4); it counts the real difference as one of them, so it is never 0.
    """
    if settings.resamples < 100:
        raise SettingsError(
            f"resamples: a comparison needs at least 100, got {settings.resamples}; 1000 is usual"
        )
    check_lines(first_translations=first, second_translations=second, references=references)
    return [
        _compare(metric, (first, second), references, settings)
        for metric in build_metrics(settings, references)
    ]


def _compare(
    metric: Metric,
    systems: tuple[Sequence[str], Sequence[str]],
    references: Sequence[str],
    settings: ScoreSettings,
) -> Comparison:
    counts = [metric.count(system, references) for system in systems]  # each (N, C)
    first, second = (
        bootstrap(metric, lines, settings.resamples, settings.seed) for lines in counts
    )
    differences = second.drawn - first.drawn  # (R,)
    gains = -differences if metric.lower_is_better else differences
    return Comparison(
        name=metric.name,
        signature=metric.signature(settings.resamples, settings.seed),
        first=first.value,
        second=second.value,
        first_mean=float(first.drawn.mean()),
        second_mean=float(second.drawn.mean()),
        delta=second.value - first.value,
        interval=interval(differences),
        wins=float((np.sign(gains).mean() + 1) / 2),
        p_value=p_value(first, second),
        resamples=settings.resamples,
        seed=settings.seed,
    )


def p_value(first: BootstrapScores, second: BootstrapScores) -> float:
    """How often chance makes a difference as large, of two scores resampled on the same lines."""
    differences = second.drawn - first.drawn  # (R,)
    centred = np.abs(differences - differences.mean())
    delta = abs(second.value - first.value)
    return float((np.sum(centred >= delta) + 1) / (len(differences) + 1))
