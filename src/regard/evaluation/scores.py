"""Scores of translations, with signatures and bootstrap confidence intervals."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt

from regard.corpora.corpus import UNDETERMINED
from regard.evaluation.bleu_tokenizer import BleuTokenizer, TokenizerChoice, choose_tokenizer
from regard.evaluation.metrics import Counts, Metric, MetricName, MetricOptions, build_metric
from regard.settings import Settings


class ScoreSettings(Settings):
    """How translations are scored."""

    metrics: Annotated[tuple[MetricName, ...], Field(min_length=1)] = ("bleu", "chrf", "ter")
    """The metrics, in the order in which they are reported."""
    tokenize: TokenizerChoice = "auto"
    """How BLEU, GLEU and TER cut lines into words, by sacrebleu's names; `none`: at spaces. `auto`:
    by the language, or where that is unknown by the script of the references."""
    language: str = UNDETERMINED
    """The language of the references."""
    lowercase: bool = False
    """Whether case is ignored; TER always ignores it."""
    resamples: NonNegativeInt = 1000
    """Bootstrap resamples behind confidence intervals and comparisons; 0: no intervals."""
    warn: bool = True
    """Whether BLEU warns of lines that look as if they had been cut into tokens before."""
    seed: NonNegativeInt = 12345
    """Seed of the resampling; 12345 is sacrebleu's own."""


class Interval(NamedTuple):
    """A 95% confidence interval by bootstrap resampling."""

    low: float
    high: float


class Score(NamedTuple):
    """One number, and how it was computed."""

    name: str
    value: float
    signature: str
    interval: Interval | None = None


class BootstrapScores(NamedTuple):
    """A score, and its values on R resamples of the lines."""

    value: float
    drawn: NDArray[np.float64]
    """(R,)"""


def score(
    hypotheses: Sequence[str], references: Sequence[str], settings: ScoreSettings | None = None
) -> list[Score]:
    """The scores of `hypotheses` against one reference each, in the order of the settings."""
    settings = settings or ScoreSettings()
    return [
        score_counts(metric, metric.count(hypotheses, references), settings)
        for metric in build_metrics(settings, references)
    ]


def build_metrics(settings: ScoreSettings, references: Sequence[str]) -> list[Metric]:
    """The metrics that the settings name, for text such as `references`."""
    tokenize = resolve_tokenizer(settings, references)
    options = MetricOptions(tokenize, settings.lowercase, settings.warn)
    return [build_metric(name, options) for name in settings.metrics]


def resolve_tokenizer(settings: ScoreSettings, references: Sequence[str]) -> BleuTokenizer:
    """The tokenizer that the settings name, or the one that fits the references."""
    if settings.tokenize != "auto":
        return settings.tokenize
    return choose_tokenizer(settings.language, references).name


def score_counts(metric: Metric, counts: Counts, settings: ScoreSettings) -> Score:
    """The score of the lines with the statistics `counts` (N, C)."""
    signature = metric.signature(settings.resamples, settings.seed)
    interval = None
    if settings.resamples:
        values = resample(metric, counts, settings.resamples, settings.seed)
        interval = confidence_interval(values)
    return Score(metric.name, metric.value(counts.sum(0)), signature, interval)


def resample(metric: Metric, counts: Counts, resamples: int, seed: int) -> NDArray[np.float64]:
    """Scores (R,) of R draws of N lines, with replacement, from the N of `counts` (N, C).

    The draws depend only on N, `resamples` and `seed`, so two systems are compared on the same
    lines. They are the draws of sacrebleu with the same seed.
    """
    rng = np.random.default_rng(seed)
    lines = len(counts)
    values = np.empty(resamples)
    for number in range(resamples):
        line_counts = np.bincount(rng.choice(lines, size=lines), minlength=lines)  # (N,)
        values[number] = metric.value(line_counts @ counts)
    return values


def bootstrap(metric: Metric, counts: Counts, resamples: int, seed: int) -> BootstrapScores:
    """The score of the lines with the statistics `counts` (N, C), with its resamples."""
    return BootstrapScores(metric.value(counts.sum(0)), resample(metric, counts, resamples, seed))


def mean_of_runs(runs: Sequence[BootstrapScores]) -> BootstrapScores:
    """The mean score of several runs on the same lines, also in each resample."""
    drawn = np.mean([run.drawn for run in runs], axis=0)  # (R,)
    return BootstrapScores(float(np.mean([run.value for run in runs])), drawn)


def confidence_interval(values: NDArray[np.float64]) -> Interval:
    """The values (R,) without 2.5% at each end, as sacrebleu rounds it."""
    ordered = np.sort(values)
    cut = len(ordered) // 40
    return Interval(float(ordered[cut]), float(ordered[-1 - cut]))
