"""BLEU, chrF, TER, GLEU and exact match, with signatures and confidence intervals."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field, NonNegativeInt

from regard.corpora.corpus import UNDETERMINED
from regard.evaluation.bleu_tokenizer import (
    BleuTokenizer,
    TokenizerChoice,
    choose_tokenizer,
)
from regard.evaluation.bootstrap import Interval, interval, resample
from regard.evaluation.metrics import Counts, Metric, MetricName, build_metric
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


class Score(NamedTuple):
    """One number, and how it came about."""

    name: str
    value: float
    signature: str
    interval: Interval | None = None


def score(
    hypotheses: Sequence[str], references: Sequence[str], settings: ScoreSettings | None = None
) -> list[Score]:
    """The scores of `hypotheses` against one reference each, in the order of the settings."""
    settings = settings or ScoreSettings()
    scores = []
    for metric in build_metrics(settings, references):
        scores.append(score_counts(metric, metric.count(hypotheses, references), settings))
    return scores


def build_metrics(settings: ScoreSettings, references: Sequence[str]) -> list[Metric]:
    """The metrics that the settings name, for text such as `references`."""
    tokenize = resolve_tokenizer(settings, references)
    return [
        build_metric(name, tokenize, lowercase=settings.lowercase, warn=settings.warn)
        for name in settings.metrics
    ]


def resolve_tokenizer(settings: ScoreSettings, references: Sequence[str]) -> BleuTokenizer:
    """The tokenizer that the settings name, or the one that fits the references."""
    if settings.tokenize != "auto":
        return settings.tokenize
    return choose_tokenizer(settings.language, references).name


def score_counts(metric: Metric, counts: Counts, settings: ScoreSettings) -> Score:
    """The score of the lines that `counts` (N, C) were taken from."""
    signature = metric.signature(settings.resamples, settings.seed)
    confidence = None
    if settings.resamples:
        confidence = interval(resample(metric, counts, settings.resamples, settings.seed))
    return Score(metric.name, metric.value(counts.sum(0)), signature, confidence)
