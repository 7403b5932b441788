"""Rows -> the ladder: seeds put together, quarters of lengths, significance against the best."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.measurements import SCORE_SETTINGS, Failure, MeasuredRow, load_row
from regard.comparison.plan import ComparisonPlan, PlanEntry, SavedRecord
from regard.errors import RunError
from regard.evaluation.bootstrap import BootstrapScores, bootstrap, interval, mean_of_runs
from regard.evaluation.by_length import LengthGroup, LengthSettings, score_by_length
from regard.evaluation.scores import ScoreSettings, build_metrics
from regard.evaluation.significance import p_value
from regard.manifest import check_file
from regard.recipes.auto_settings import WARMUP_SETTING
from regard.recipes.prepared_data import PreparedData
from regard.text.word_units import count_units

BLEU, CHRF = "BLEU", "chrF2"
BLEU_ONLY = ScoreSettings(metrics=("bleu",), resamples=0)
QUARTERS = LengthSettings(groups=4)
SIGNIFICANCE_LEVEL = 0.05
"""A difference that chance makes less often than this is marked."""


class SeedSpread(SavedRecord):
    """A number over the seeds of a system."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self | None:
        """None for no values."""
        if not values:
            return None
        return cls(mean=float(np.mean(values)), low=min(values), high=max(values))


class SystemCosts(SavedRecord):
    """What a system takes: medians over its seeds."""

    parameters: float
    flops: float
    tokens_per_second: float
    sentences_per_second: float
    steps: float
    tokens: float
    seconds: float

    @classmethod
    def of(cls, rows: Sequence[MeasuredRow]) -> Self | None:
        """None for no rows."""
        if not rows:
            return None
        medians = {
            name: float(np.median([getattr(row, name) for row in rows]))
            for name in cls.model_fields
        }
        return cls(**medians)


class MeanInterval(SavedRecord):
    """Where the middle 95% of resamples of the test sentences put the mean BLEU over the seeds."""

    low: float
    high: float


class Significance(SavedRecord):
    """Paired bootstrap of the mean BLEU over all seeds against that of the best system."""

    difference: float
    """In BLEU, from the best."""
    p_value: float


class SystemResult(SavedRecord):
    """A system's place on the ladder: all its seeds."""

    label: str
    rows: tuple[MeasuredRow, ...]
    """Those that were measured."""
    failures: tuple[Failure, ...]
    waiting: int
    """Rows that have not been run to their end yet."""
    bleu: SeedSpread | None
    interval: MeanInterval | None
    """Of the mean of `bleu`."""
    chrf: SeedSpread | None
    perplexity: SeedSpread | None
    """Per word."""
    error_rate: SeedSpread | None
    """Of the alignment."""
    by_length: tuple[float, ...]
    """BLEU of each quarter, mean over the seeds."""
    costs: SystemCosts | None
    significance: Significance | None
    """None for the best."""


class Quarter(SavedRecord):
    """A share of the test sentences, by the words of their source."""

    shortest: int
    longest: int
    sentences: int
    mean_length: float

    def __str__(self) -> str:
        return "–".join(map(str, sorted({self.shortest, self.longest})))


class ComparisonResults(SavedRecord):
    """A comparison as its table shows it."""

    standings: tuple[SystemResult, ...]
    """In the order of the plan."""
    best: str | None
    """The system with the highest mean BLEU."""
    quarters: tuple[Quarter, ...]
    data: str
    """SHA-256 of the cleaned texts that all learned from and were measured on."""
    origin: str
    split: str
    sentences: int
    budget: str
    beam: int
    signatures: dict[str, str]
    rising: tuple[str, ...] = ()
    """Systems whose training ended before their learning rate had risen to its height."""
    at_once: int = 1
    """Rows that were trained at a time, at most: their `seconds` are those of a shared device."""

    @property
    def rows(self) -> list[MeasuredRow]:
        """All that were measured."""
        return [row for one in self.standings for row in one.rows]

    @property
    def machines(self) -> list[str]:
        """What they were measured on: speeds compare only where it is one."""
        return list(dict.fromkeys(str(row.machine) for row in self.rows))


class _RowOutcome(NamedTuple):
    """What became of one row of the plan."""

    row: MeasuredRow | Failure | None
    texts: list[str]
    """Its translations, if it was measured."""


class _System(NamedTuple):
    """A system with all its seeds."""

    standing: SystemResult
    bleu: BootstrapScores | None
    """The mean over its seeds; None: none was measured."""


class _TestSet(NamedTuple):
    """What all were tested on, and how they are scored."""

    sources: list[str]
    references: list[str]
    how: ScoreSettings


def aggregate_results(
    plan: ComparisonPlan, folder: ComparisonFolder, data: PreparedData
) -> ComparisonResults:
    """The ladder of all rows that are finished."""
    split = data.held_out()
    pairs = list(data.read(split))
    how = BLEU_ONLY.model_copy(update={"tokenize": plan.tokenize})
    test = _TestSet([pair.source for pair in pairs], [pair.target for pair in pairs], how)
    systems: dict[str, list[_RowOutcome]] = {}
    for entry in plan.entries:
        systems.setdefault(entry.label, []).append(_load_outcome(entry, folder, len(pairs)))
    standings = _with_significance(
        [_system(label, found, test) for label, found in systems.items()]
    )
    return ComparisonResults(
        standings=standings,
        best=_best(standings),
        quarters=_quarters(test),
        data=data.digest,
        origin=data.origin,
        split=split,
        sentences=len(pairs),
        budget=plan.budget_text,
        beam=plan.beam,
        signatures={
            score.name: score.signature
            for one in standings
            for row in one.rows[:1]
            for score in row.scores
        },
        rising=_below_warmup(plan, standings),
        at_once=plan.at_once,
    )


def _below_warmup(plan: ComparisonPlan, standings: Sequence[SystemResult]) -> tuple[str, ...]:
    """The systems that took fewer steps than their warm-up has, which one that is chosen never has.

    What is chosen is known to a run alone, which may be gone.
    """
    warmups = {
        entry.label: entry.recipe.training.schedule.warmup
        for entry in plan.entries
        if WARMUP_SETTING not in entry.recipe.auto
    }
    return tuple(
        one.label
        for one in standings
        if any(row.steps < warmups.get(one.label, 0) for row in one.rows)
    )


def _load_outcome(entry: PlanEntry, folder: ComparisonFolder, sentences: int) -> _RowOutcome:
    """What became of a row, and its translations of so many test sentences."""
    row = load_row(folder.row(entry))
    if not isinstance(row, MeasuredRow):
        return _RowOutcome(row, [])
    path = folder.translations(entry)
    check_file(path)
    texts = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    if len(texts) != sentences:
        raise RunError(
            f"{path}: expected {sentences:,} translations, found {len(texts):,}; remove "
            f"{folder.row(entry)} to measure the row again"
        )
    return _RowOutcome(row, texts)


def _system(label: str, found: Sequence[_RowOutcome], test: _TestSet) -> _System:
    rows = [one.row for one in found if isinstance(one.row, MeasuredRow)]
    texts = [one.texts for one in found if isinstance(one.row, MeasuredRow)]
    values = [[group.scores[0].value for group in _by_length(one, test)] for one in texts]
    bleu = mean_of_runs([_resampled_bleu(one, test) for one in texts]) if texts else None
    standing = SystemResult(
        label=label,
        rows=tuple(rows),
        failures=tuple(one.row for one in found if isinstance(one.row, Failure)),
        waiting=sum(one.row is None for one in found),
        bleu=SeedSpread.of([row.value(BLEU) for row in rows]),
        interval=None if bleu is None else MeanInterval(**interval(bleu.drawn)._asdict()),
        chrf=SeedSpread.of([row.value(CHRF) for row in rows]),
        perplexity=SeedSpread.of([row.surprise.per_word for row in rows]),
        error_rate=SeedSpread.of([row.alignment.error_rate for row in rows if row.alignment]),
        by_length=tuple(np.mean(values, axis=0).tolist()) if values else (),
        costs=SystemCosts.of(rows),
        significance=None,
    )
    return _System(standing, bleu)


def _by_length(texts: Sequence[str], test: _TestSet) -> list[LengthGroup]:
    return score_by_length(test.sources, texts, test.references, QUARTERS, test.how)


def _resampled_bleu(texts: Sequence[str], test: _TestSet) -> BootstrapScores:
    """Of one seed; all are resampled on the same sentences, so that their means pair up."""
    (bleu,) = build_metrics(test.how, test.references)
    return bootstrap(
        bleu, bleu.count(texts, test.references), SCORE_SETTINGS.resamples, SCORE_SETTINGS.seed
    )


def _best(standings: Sequence[SystemResult]) -> str | None:
    """The system with the highest mean BLEU; None: none was measured."""
    means = {one.label: one.bleu.mean for one in standings if one.bleu is not None}
    return max(means, key=means.__getitem__, default=None)


def _with_significance(systems: Sequence[_System]) -> tuple[SystemResult, ...]:
    """All standings, each with its significance against the best."""
    label = _best([one.standing for one in systems])
    best = next((one.bleu for one in systems if one.standing.label == label), None)
    standings = []
    for standing, bleu in systems:
        measured = None
        if best is not None and bleu is not None and standing.label != label:
            difference = bleu.value - best.value
            measured = Significance(difference=difference, p_value=p_value(best, bleu))
        standings.append(standing.model_copy(update={"significance": measured}))
    return tuple(standings)


def _quarters(test: _TestSet) -> tuple[Quarter, ...]:
    """The groups that lengths fall into, whatever the translations."""
    lengths = np.array([count_units(source) for source in test.sources])
    quarters = []
    for group in _by_length(test.references, test):
        inside = lengths[(lengths >= group.shortest) & (lengths <= group.longest)]
        quarters.append(
            Quarter(
                shortest=group.shortest,
                longest=group.longest,
                sentences=group.count,
                mean_length=float(inside.mean()),
            )
        )
    return tuple(quarters)
