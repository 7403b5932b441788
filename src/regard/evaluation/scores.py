"""Scores of translations: with confidence intervals, by source length, and of two systems."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt

from regard.corpora.corpus import UNDETERMINED
from regard.errors import SettingsError
from regard.evaluation.bleu_tokenizer import TokenizerChoice, choose_tokenizer
from regard.evaluation.metrics import (
    Counts,
    Metric,
    MetricName,
    MetricOptions,
    Reference,
    SummedMetric,
    build_metric,
    check_lines,
    reference_texts,
)
from regard.settings import Settings
from regard.text.word_units import count_units

MIN_COMPARED_RESAMPLES = 100
MIN_TESTED_EXAMPLES = 20
"""With fewer examples a difference is not tested: their resamples are too similar, and equal
systems are found different too often (with one example, always).
"""
SIGNIFICANCE_LEVEL = 0.05  # differences with a p-value below this are marked
UNTESTED_NOTE = (
    f"no p-value: a paired bootstrap of fewer than {MIN_TESTED_EXAMPLES} examples says nothing"
)


class ScoreSettings(Settings):
    """How translations are scored."""

    metrics: Annotated[tuple[MetricName, ...], Field(min_length=1)] = ("bleu", "chrf", "ter")
    """The metrics, in the order in which they are reported."""
    tokenize: TokenizerChoice = "auto"
    """The tokenizer of BLEU, GLEU, TER and CIDEr, by sacrebleu's names. `none` splits at spaces;
    `coco` is that of COCO captions; `auto` goes by the language, or if that is unknown by the
    script of the references."""
    language: str = UNDETERMINED
    """The language of the references."""
    lowercase: bool = False
    """Whether case is ignored; TER always ignores it."""
    resamples: NonNegativeInt = 1000
    """Bootstrap resamples for confidence intervals and comparisons; 0: no intervals."""
    warn: bool = True
    """Whether BLEU warns of lines that look tokenized."""
    seed: NonNegativeInt = 12345
    """Seed of the resampling; 12345 is sacrebleu's own."""


class Interval(NamedTuple):
    """A 95% confidence interval."""

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
    drawn: NDArray[np.float64]  # (R,)
    examples: int  # lines


def score(
    hypotheses: Sequence[str],
    references: Sequence[Reference],
    settings: ScoreSettings | None = None,
) -> list[Score]:
    """The scores of `hypotheses` by their references, in the order of the settings."""
    settings = settings or ScoreSettings()
    return [
        score_counts(metric, metric.count(hypotheses, references), settings)
        for metric in build_metrics(settings, references)
    ]


def build_metrics(settings: ScoreSettings, references: Sequence[Reference]) -> list[Metric]:
    """The metrics that the settings name, for text such as `references`."""
    tokenize = settings.tokenize
    if tokenize == "auto":
        tokenize = choose_tokenizer(
            settings.language, list(chain.from_iterable(reference_texts(references)))
        ).name
    options = MetricOptions(tokenize, settings.lowercase, settings.warn)
    return [build_metric(name, options) for name in settings.metrics]


def score_counts(metric: SummedMetric, counts: Counts, settings: ScoreSettings) -> Score:
    """The score of the lines with the statistics `counts` (N, C)."""
    value, drawn, _ = bootstrap(metric, counts, settings)
    interval = confidence_interval(drawn) if settings.resamples else None
    signature = metric.signature(settings.resamples, settings.seed)
    return Score(metric.name, value, signature, interval)


def bootstrap(metric: SummedMetric, counts: Counts, settings: ScoreSettings) -> BootstrapScores:
    """The score of N lines with the statistics `counts` (N, C), and of R resamples with
    replacement, which are sacrebleu's for that seed, and the same for all systems with N lines.
    """
    rng = np.random.default_rng(settings.seed)
    lines = len(counts)
    drawn = np.empty(settings.resamples)
    for number in range(settings.resamples):
        line_counts = np.bincount(rng.choice(lines, size=lines), minlength=lines)  # (N,)
        drawn[number] = metric.value(line_counts @ counts)
    return BootstrapScores(metric.value(counts.sum(0)), drawn, lines)


def mean_of_runs(runs: Sequence[BootstrapScores]) -> BootstrapScores:
    """The mean score of several runs on the same lines, also in each resample."""
    drawn = np.mean([run.drawn for run in runs], axis=0)  # (R,)
    return BootstrapScores(float(np.mean([run.value for run in runs])), drawn, runs[0].examples)


def confidence_interval(values: NDArray[np.float64]) -> Interval:
    """The values (R,) without 2.5% at each end, as sacrebleu rounds it."""
    ordered = np.sort(values)
    cut = len(ordered) // 40
    return Interval(float(ordered[cut]), float(ordered[-1 - cut]))


@dataclass(frozen=True)
class LengthGroup:
    """The sentences of a range of lengths, and their scores."""

    shortest: int
    longest: int
    count: int
    scores: tuple[Score, ...]


def score_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Reference],
    settings: ScoreSettings,
    num_groups: int = 5,
) -> list[LengthGroup]:
    """Scores by source length, counted in words (letters in scripts without spaces), shortest
    first. Groups have about the same number of lines; lines of equal length are in one group.
    """
    check_lines(sources=sources, hypotheses=hypotheses, references=references)
    sizes = np.array([count_units(line) for line in sources])  # (N,)
    ordered, last = np.sort(sizes), np.arange(1, num_groups) * len(sizes) // num_groups
    edges = np.unique(ordered[np.maximum(last, 1) - 1])  # the longest of each group except the last
    group_of_line = np.searchsorted(edges, sizes)  # (N,)
    metrics = build_metrics(settings, references)
    counts = [metric.count(hypotheses, references) for metric in metrics]
    groups = []
    for group in np.unique(group_of_line):
        rows = np.flatnonzero(group_of_line == group)
        pairs = zip(metrics, counts, strict=True)
        scores = (score_counts(metric, lines[rows], settings) for metric, lines in pairs)
        shortest, longest = int(sizes[rows].min()), int(sizes[rows].max())
        groups.append(LengthGroup(shortest, longest, len(rows), tuple(scores)))
    return groups


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same lines, by one metric. Swapping them flips signs, not `p_value`."""

    name: str
    signature: str
    first: float
    second: float
    first_mean: float  # the mean over the resamples, as `second_mean`
    second_mean: float
    delta: float  # `second` - `first`; with TER a negative one is a gain
    interval: Interval | None  # of the difference; None if `p_value` is None
    wins: float  # the share of resamples in which the second system is better, ties counted half
    p_value: float | None
    """Two-sided probability of at least this difference between equal systems; None with fewer than
    `MIN_TESTED_EXAMPLES` lines."""
    resamples: int
    seed: int


def compare(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[Reference],
    settings: ScoreSettings,
) -> list[Comparison]:
    """Compare two systems on the same lines by paired bootstrap resampling (Koehn 2004)."""
    if settings.resamples < MIN_COMPARED_RESAMPLES:
        raise SettingsError(
            f"resamples: a comparison needs at least {MIN_COMPARED_RESAMPLES}, "
            f"got {settings.resamples}; 1000 is usual"
        )
    check_lines(first_translations=first, second_translations=second, references=references)
    comparisons = []
    for metric in build_metrics(settings, references):
        one, two = (metric.count(lines, references) for lines in (first, second))
        comparisons.append(compare_counts(metric, one, two, settings))
    return comparisons


def compare_counts(
    metric: SummedMetric, first: Counts, second: Counts, settings: ScoreSettings
) -> Comparison:
    """Compare two systems by one metric, given its statistics (N, C) of the same N lines."""
    one, two = (bootstrap(metric, counts, settings) for counts in (first, second))
    differences = two.drawn - one.drawn  # (R,)
    p = p_value(one, two)
    gains = -differences if metric.lower_is_better else differences
    return Comparison(
        name=metric.name,
        signature=metric.signature(settings.resamples, settings.seed),
        first=one.value,
        second=two.value,
        first_mean=float(one.drawn.mean()),
        second_mean=float(two.drawn.mean()),
        delta=two.value - one.value,
        interval=None if p is None else confidence_interval(differences),
        wins=float((np.sign(gains).mean() + 1) / 2),
        p_value=p,
        resamples=settings.resamples,
        seed=settings.seed,
    )


def p_value(first: BootstrapScores, second: BootstrapScores) -> float | None:
    """The two-sided p-value of two scores resampled on the same lines, never 0; None with fewer
    than `MIN_TESTED_EXAMPLES` lines.

    The differences are shifted to mean 0, as if the systems were equal (Efron and Tibshirani 1993,
    section 16.4).
    """
    if first.examples < MIN_TESTED_EXAMPLES:
        return None
    differences = second.drawn - first.drawn  # (R,)
    centred = np.abs(differences - differences.mean())
    delta = abs(second.value - first.value)
    return float((np.sum(centred >= delta) + 1) / (len(differences) + 1))


def is_significant(p: float | None) -> bool:
    """Whether a difference is marked."""
    return p is not None and p < SIGNIFICANCE_LEVEL


def format_p_value(p: float | None) -> str:
    """A p-value for a table, with its mark; a dash if nothing was tested."""
    return "– " if p is None else f"{p:.3f}{'*' if is_significant(p) else ' '}"
