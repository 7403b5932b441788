"""Scores of classifiers: accuracy, F1, calibration, confusion matrices."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.evaluation.metrics import Counts, SummedMetric
from regard.evaluation.scores import Comparison, Interval, ScoreSettings, compare_counts

NORMAL_QUANTILE = 1.959963984540054  # of a two-sided interval of 95%
CALIBRATION_BINS = 15  # Guo et al. 2017
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0
SEARCH_STEPS = 60  # of the golden-section search: enough for the precision of float64

Logits = NDArray[np.float64]  # (N, V)
LabelIds = NDArray[np.int64]  # (N,)


class Classified(NamedTuple):
    """The logits of a model for N examples, and the right labels."""

    logits: Logits
    labels: LabelIds

    @property
    def answers(self) -> LabelIds:
        """The likeliest class of each example: (N,)."""
        return np.asarray(self.logits.argmax(-1), np.int64)

    def accuracy(self) -> float:
        """The percentage of right answers."""
        return 100 * float((self.answers == self.labels).mean())

    def nll(self, temperature: float = 1.0) -> float:
        """The mean negative log-likelihood in nats, with logits divided by `temperature`."""
        logp = log_softmax(self.logits / temperature)
        return abs(float(logp[np.arange(len(logp)), self.labels].mean()))  # 0, never -0


class Confusion(NamedTuple):
    """A confusion matrix and its labels."""

    labels: tuple[str, ...]  # V
    counts: NDArray[np.int64]  # (V, V) a row for the right class, a column for the answer

    def to_json(self) -> dict[str, Any]:
        """With precision, recall and F1 of each class in percent; null if undefined."""
        right, given, found = class_sums(self.counts)
        rows = zip(self.labels, right.tolist(), given.tolist(), found.tolist(), strict=True)
        return {
            "labels": list(self.labels),
            "counts": self.counts.tolist(),
            "classes": {
                label: {
                    "examples": total,
                    "precision": 100 * hits / answered if answered else None,
                    "recall": 100 * hits / total if total else None,
                    "f1": 200 * hits / (total + answered) if total + answered else None,
                }
                for label, hits, total, answered in rows
            },
        }


class Accuracy(SummedMetric):
    """The percentage of right answers; statistics: right answers, answers."""

    name = "accuracy"

    def count(self, found: Classified) -> Counts:
        """(N, 2)"""
        right = found.answers == found.labels
        return np.stack([right, np.ones_like(right)], axis=1).astype(np.float64)

    def value(self, total: Counts) -> float:
        return 100 * float(total[0] / total[1])

    def signature(self, resamples: int, seed: int) -> str:
        return _signature("percent", resamples, seed)


class MacroF1(SummedMetric):
    """The mean over classes of 2 right / (examples + answers), in percent.

    Statistics: these three numbers of each class. A class without examples and answers is left out.
    """

    name = "macro_f1"

    def count(self, found: Classified) -> Counts:
        """(N, 3 V)"""
        size, (wanted, given) = found.logits.shape[1], (found.labels, found.answers)
        classes = np.eye(size)
        right = classes[wanted] * (wanted == given)[:, None]
        return np.concatenate([right, classes[wanted], classes[given]], axis=1)

    def value(self, total: Counts) -> float:
        right, examples, answers = np.split(total, 3)  # (V,) each
        there = examples + answers > 0
        return 200 * float((right[there] / (examples + answers)[there]).mean())

    def signature(self, resamples: int, seed: int) -> str:
        return _signature("percent, classes weigh the same", resamples, seed)


def _signature(details: str, resamples: int, seed: int) -> str:
    return f"{f'bs:{resamples}|seed:{seed}|' if resamples else ''}{details}"


def confusion_matrix(found: Classified) -> NDArray[np.int64]:
    """(V, V): a row for the right class, a column for the answer."""
    size = found.logits.shape[1]
    cells = np.bincount(found.labels * size + found.answers, minlength=size * size)
    return cells.reshape(size, size).astype(np.int64)


def class_sums(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Right answers, examples and answers of each class of a confusion matrix: (V,) each."""
    return counts.diagonal(), counts.sum(1), counts.sum(0)


def wilson_interval(right: int, total: int) -> Interval:
    """The 95% interval, in percent, of the share `right` / `total` (Wilson 1927):

    (p + z²/2n ± z √(p (1 - p) / n + z²/4n²)) / (1 + z²/n)
    """
    share, z2 = right / total, NORMAL_QUANTILE**2
    middle = share + z2 / (2 * total)
    reach = NORMAL_QUANTILE * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2))
    low, high = ((middle + side * reach) / (1 + z2 / total) for side in (-1, 1))
    return Interval(100 * max(0.0, low), 100 * min(1.0, high))


def log_softmax(logits: Logits) -> Logits:
    """Log-probabilities (N, V)."""
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def mean_log_probs(members: Sequence[Logits]) -> Logits:
    """The logarithm of the mean probabilities of several models, from the logits (N, V) of each."""
    log_probs = [log_softmax(logits) for logits in members]
    return np.asarray(np.logaddexp.reduce(log_probs) - math.log(len(log_probs)))


def calibration_error(found: Classified, temperature: float = 1.0) -> float:
    """The expected calibration error in percent (Guo et al. 2017): the mean
    difference between the probability of answers and the share of right ones, in bins of equal
    width.
    """
    confidence = np.exp(log_softmax(found.logits / temperature)).max(-1)  # (N,)
    right = found.answers == found.labels
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=CALIBRATION_BINS)
    return 100 * float(np.abs(gaps).sum() / len(right))


def fit_temperature(found: Classified) -> float:
    """The temperature, within limits, that makes the labels likeliest (Guo et al. 2017).

    The negative log-likelihood is convex in 1 / T: a golden-section search finds its minimum. If
    every answer is right, there is no minimum, as it falls with T; the result is then 1.
    """
    if (found.answers == found.labels).all():
        return 1.0
    golden = (math.sqrt(5) - 1) / 2
    low, high = math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE)

    def cost(place: float) -> float:
        return found.nll(math.exp(place))

    left, right = high - golden * (high - low), low + golden * (high - low)
    costs = [cost(left), cost(right)]
    for _ in range(SEARCH_STEPS):
        if costs[0] <= costs[1]:
            high, right = right, left
            left = high - golden * (high - low)
            costs = [cost(left), costs[0]]
        else:
            low, left = left, right
            right = low + golden * (high - low)
            costs = [costs[1], cost(right)]
    return math.exp((low + high) / 2)


def compare_classified(
    first: Classified, second: Classified, settings: ScoreSettings
) -> list[Comparison]:
    """Compare two classifiers on the same examples by paired bootstrap resampling."""
    return [
        compare_counts(metric, metric.count(first), metric.count(second), settings)
        for metric in (Accuracy(), MacroF1())
    ]
