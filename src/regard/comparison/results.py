"""Rows -> results of systems: means over seeds, BLEU by length, significance against the best."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from regard.comparison.measurements import (
    BLEU,
    SCORE_SETTINGS,
    AnyRow,
    Failure,
    MeasuredRow,
    load_row,
)
from regard.comparison.plan import ComparisonFolder, ComparisonPlan, PlanEntry, SavedRecord
from regard.corpora.pair_texts import PreparedData
from regard.errors import RunError
from regard.evaluation import scores
from regard.manifest import check_file
from regard.tasks.translation.auto_settings import WARMUP_SETTING
from regard.text.word_units import count_units

CHRF = "chrF2"
BLEU_ONLY = scores.ScoreSettings(metrics=("bleu",), resamples=0)


class SeedSpread(SavedRecord):
    """Mean and range of a number over the seeds of a system."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self | None:
        if not values:
            return None
        return cls(mean=float(np.mean(values)), low=min(values), high=max(values))


class SystemCosts(SavedRecord):
    """The costs of a system: medians over its seeds."""

    parameters: float
    flops: float
    tokens_per_second: float
    sentences_per_second: float
    steps: float
    tokens: float
    seconds: float

    @classmethod
    def of(cls, rows: Sequence[MeasuredRow]) -> Self | None:
        if not rows:
            return None
        columns = {name: [getattr(row, name) for row in rows] for name in cls.model_fields}
        return cls(**{name: float(np.median(values)) for name, values in columns.items()})


class MeanInterval(SavedRecord):
    """The 95% bootstrap interval of the mean score over the seeds."""

    low: float
    high: float


class Significance(SavedRecord):
    """Paired bootstrap test of the mean score over all seeds against that of another system."""

    difference: float  # of the mean scores
    p_value: float | None  # None: too few examples for a test


class SystemResult(SavedRecord):
    """The results of a system, over all its seeds."""

    label: str
    rows: tuple[MeasuredRow, ...]
    failures: tuple[Failure, ...]
    waiting: int  # rows that are not finished
    bleu: SeedSpread | None
    interval: MeanInterval | None  # of the mean of `bleu`
    chrf: SeedSpread | None
    perplexity: SeedSpread | None  # per word
    error_rate: SeedSpread | None  # of the alignment
    by_length: tuple[float, ...]  # BLEU of each quarter, mean over the seeds
    costs: SystemCosts | None
    significance: Significance | None  # None for the best


class Quarter(SavedRecord):
    """A quarter of the test sentences, by the number of words in their source."""

    shortest: int
    longest: int
    sentences: int
    mean_length: float

    def __str__(self) -> str:
        return "–".join(map(str, sorted({self.shortest, self.longest})))


class ComparisonResults(SavedRecord):
    standings: tuple[SystemResult, ...]  # in the order of the plan
    best: str | None  # the system with the highest mean BLEU
    quarters: tuple[Quarter, ...]
    data: str  # SHA-256 of the cleaned texts
    origin: str
    split: str
    sentences: int
    budget: str
    beam: int
    signatures: dict[str, str]
    rising: tuple[str, ...] = ()  # systems that were trained for fewer steps than their warm-up
    at_once: int = 1
    """The most rows that were trained at a time; if several, their `seconds` are of a shared
    machine."""

    @property
    def rows(self) -> list[MeasuredRow]:
        return [row for system in self.standings for row in system.rows]

    @property
    def machines(self) -> list[str]:
        """The machines of the measurements; speeds are comparable only on one."""
        return list(dict.fromkeys(str(row.machine) for row in self.rows))


class _TestSet(NamedTuple):
    """The test set, and how translations of it are scored."""

    sources: list[str]
    references: list[str]
    settings: scores.ScoreSettings

    def bleu(self, texts: Sequence[str]) -> scores.BootstrapScores:
        """BLEU, and BLEU of resamples; all seeds and systems share the resampled sentences."""
        (bleu,) = scores.build_metrics(self.settings, self.references)
        return scores.bootstrap(bleu, bleu.count(texts, self.references), SCORE_SETTINGS)

    def by_length(self, texts: Sequence[str]) -> list[scores.LengthGroup]:
        return scores.score_by_length(self.sources, texts, self.references, self.settings, 4)


def aggregate_results(
    plan: ComparisonPlan, folder: ComparisonFolder, data: PreparedData
) -> ComparisonResults:
    """The results of all rows that are finished."""
    split = data.held_out()
    pairs = list(data.read(split))
    settings = BLEU_ONLY.model_copy(update={"tokenize": plan.tokenize})
    test = _TestSet([pair.source for pair in pairs], [pair.target for pair in pairs], settings)
    outcomes: dict[str, list[AnyRow | Failure | None]] = {}
    texts: dict[str, list[list[str]]] = {}
    for entry in plan.entries:
        row = load_row(folder.row(entry))
        outcomes.setdefault(entry.label, []).append(row)
        if isinstance(row, MeasuredRow):
            lines = _load_translations(entry, folder, len(pairs))
            texts.setdefault(entry.label, []).append(lines)
    bleu = {
        label: scores.mean_of_runs([test.bleu(one) for one in some])
        for label, some in texts.items()
    }
    systems = [
        _system(label, rows, texts.get(label, []), bleu.get(label), test)
        for label, rows in outcomes.items()
    ]
    means = {system.label: system.bleu.mean for system in systems if system.bleu is not None}
    best = max(means, key=means.__getitem__, default=None)
    for number, system in enumerate(systems):
        if best is not None and system.label in bleu and system.label != best:
            own, top = bleu[system.label], bleu[best]
            found = Significance(difference=own.value - top.value, p_value=scores.p_value(top, own))
            systems[number] = system.model_copy(update={"significance": found})
    return ComparisonResults(
        standings=tuple(systems),
        best=best,
        quarters=_quarters(test),
        data=data.digest,
        origin=data.origin,
        split=split,
        sentences=len(pairs),
        budget=plan.budget_text,
        beam=plan.beam,
        signatures={
            score.name: score.signature
            for system in systems
            for row in system.rows[:1]
            for score in row.scores
        },
        rising=_below_warmup(plan, systems),
        at_once=plan.at_once,
    )


def _below_warmup(plan: ComparisonPlan, systems: Sequence[SystemResult]) -> tuple[str, ...]:
    """The systems trained for fewer steps than their warm-up; an `auto` warm-up is never
    that long.
    """
    warmups = {
        entry.label: entry.recipe.training.schedule.warmup_steps
        for entry in plan.entries
        if WARMUP_SETTING not in entry.translator.auto
    }
    return tuple(
        system.label
        for system in systems
        if any(row.steps < warmups.get(system.label, 0) for row in system.rows)
    )


def _load_translations(entry: PlanEntry, folder: ComparisonFolder, sentences: int) -> list[str]:
    """A row's translations of the test set, which must have `sentences` lines."""
    path = folder.translations(entry)
    check_file(path)
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    texts = text.splitlines()
    if len(texts) != sentences:
        raise RunError(
            f"{path}: expected {sentences:,} translations, found {len(texts):,}; remove "
            f"{folder.row(entry)} to measure the row again"
        )
    return texts


def _system(
    label: str,
    outcomes: Sequence[AnyRow | Failure | None],
    texts: Sequence[list[str]],
    bleu: scores.BootstrapScores | None,
    test: _TestSet,
) -> SystemResult:
    rows = [row for row in outcomes if isinstance(row, MeasuredRow)]
    values = [[group.scores[0].value for group in test.by_length(one)] for one in texts]
    return SystemResult(
        label=label,
        rows=tuple(rows),
        failures=tuple(row for row in outcomes if isinstance(row, Failure)),
        waiting=sum(row is None for row in outcomes),
        bleu=SeedSpread.of([row.value(BLEU) for row in rows]),
        interval=bleu and MeanInterval(**scores.confidence_interval(bleu.drawn)._asdict()),
        chrf=SeedSpread.of([row.value(CHRF) for row in rows]),
        perplexity=SeedSpread.of([row.surprise.per_word for row in rows]),
        error_rate=SeedSpread.of([row.alignment.error_rate for row in rows if row.alignment]),
        by_length=tuple(np.mean(values, axis=0).tolist()) if values else (),
        costs=SystemCosts.of(rows),
        significance=None,
    )


def _quarters(test: _TestSet) -> tuple[Quarter, ...]:
    """The groups of source lengths, which do not depend on the translations."""
    lengths = np.array([count_units(source) for source in test.sources])
    groups = test.by_length(test.references)
    inside = [lengths[(lengths >= g.shortest) & (lengths <= g.longest)].mean() for g in groups]
    return tuple(
        Quarter(shortest=g.shortest, longest=g.longest, sentences=g.count, mean_length=float(mean))
        for g, mean in zip(groups, inside, strict=True)
    )
