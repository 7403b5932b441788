"""Rows of translators -> results: BLEU by length, costs, and the tables that show them."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from regard.comparison.measurements import ComparedRow, Machine, RowScore, load_row
from regard.comparison.plan import ComparisonFolder, ComparisonPlan, PlanEntry, SavedRecord
from regard.comparison.results import (
    MeanInterval,
    Outcome,
    Ranking,
    Results,
    SeedSpread,
    Significance,
    Standing,
    load_outcomes,
    median,
    split_outcomes,
)
from regard.comparison.table import (
    EMPTY_CELL,
    Sheet,
    TableColumn,
    format_si,
    format_whole,
    p_value_cell,
)
from regard.corpora.pair_texts import PreparedData
from regard.errors import RunError
from regard.evaluation import scores
from regard.manifest import check_file
from regard.tasks.translation.auto_settings import WARMUP_SETTING
from regard.tasks.translation.needed import require_translation
from regard.text.word_units import count_units

BLEU, CHRF = "BLEU", "chrF2"
SCORE_SETTINGS = scores.ScoreSettings(metrics=("bleu", "chrf"))
BLEU_ONLY = scores.ScoreSettings(metrics=("bleu",), resamples=0)


class ReferencePerplexity(SavedRecord):
    """Perplexity of the references, in three units."""

    per_token: float  # for each token of the model's vocabulary, EOS included
    per_word: float
    """For each word, or character in scripts without spaces: comparable across vocabularies."""
    bits_per_character: float


class RowAlignment(SavedRecord):
    """The error of the alignment derived from attention."""

    error_rate: float
    precision: float
    recall: float
    chosen: str  # its layers and heads, selected on validation pairs


class UntimedMeasurements(SavedRecord):
    """Measurements other than speeds: they may be taken while other processes run. Those of
    training are 0 for an imported model.
    """

    family: str
    attends: bool  # whether the model attends to the source
    parameters: int
    steps: int
    tokens: int  # target tokens of training: steps times the mean of a step
    flops: float  # of the whole training (`comparison.flops`)
    seconds: float  # of the training steps, on a machine that may have been shared
    surprise: ReferencePerplexity
    alignment: RowAlignment | None


class MeasuredRow(UntimedMeasurements, ComparedRow):
    """A translator with one seed, measured."""

    label: str
    seed: int
    tokens_per_second: float  # of training steps, on a machine that was not shared
    scores: tuple[RowScore, ...]
    sentences_per_second: float
    """The speed of translating the test set, on a machine that was not shared."""
    machine: Machine
    date: str

    @property
    def main_score(self) -> RowScore:
        return self.scores[0]

    def value(self, name: str) -> float:
        return next(score.value for score in self.scores if score.name == name)


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
        return cls(**{name: median(rows, name) for name in cls.model_fields})


class SystemResult(Standing):
    """The results of a translator."""

    rows: tuple[MeasuredRow, ...]
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


def _of_training(
    name: str, form: Callable[[float], str] = format_si
) -> Callable[[SystemResult], str]:
    """A number measured in training; empty for a model that was imported."""

    def cell(system: SystemResult) -> str:
        number = getattr(system.costs, name)
        return form(number) if number else EMPTY_CELL

    return cell


def _mean(spread: SeedSpread | None, how: str) -> str:
    return EMPTY_CELL if spread is None else f"{spread.mean:{how}}"


def _range(spread: MeanInterval | SeedSpread | None, how: str) -> str:
    return EMPTY_CELL if spread is None else f"{spread.low:{how}}…{spread.high:{how}}"


def _seed_range(one: SystemResult) -> str:
    return EMPTY_CELL if one.bleu and one.bleu.low == one.bleu.high else _range(one.bleu, ".2f")


def _perplexity(one: SystemResult) -> str:
    spread = one.perplexity
    if spread is None or spread.mean < 100:
        return _mean(spread, ".2f")
    return format_si(spread.mean)


def _bleu_at_length(number: int, one: SystemResult) -> str:
    return f"{one.by_length[number]:.2f}"


QUALITY_AND_COST = (
    TableColumn("param.", _of_training("parameters")),
    TableColumn("FLOPs", _of_training("flops")),
    TableColumn("tok/s", _of_training("tokens_per_second")),
    TableColumn("ppl", _perplexity),
    TableColumn("BLEU", lambda one: _mean(one.bleu, ".2f")),
    TableColumn("95%", lambda one: _range(one.interval, ".1f")),
    TableColumn("p", p_value_cell),
    TableColumn("chrF", lambda one: _mean(one.chrf, ".2f")),
    TableColumn("AER", lambda one: _mean(one.error_rate, ".1%")),
    TableColumn("sent/s", _of_training("sentences_per_second")),
)
SEEDS_AND_BUDGET = (
    TableColumn("seeds", lambda one: str(len(one.rows))),
    TableColumn("lowest…highest", _seed_range),
    TableColumn("steps", _of_training("steps", format_whole)),
    TableColumn("tokens", _of_training("tokens")),
    TableColumn("seconds", _of_training("seconds", format_whole)),
)


class ComparisonResults(Results):
    """The results of a comparison of translators."""

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
    def systems(self) -> Sequence[SystemResult]:
        return self.standings

    @property
    def machines(self) -> list[str]:
        """The machines of the measurements; speeds are comparable only on one."""
        return list(dict.fromkeys(str(row.machine) for row in self.rows))

    def sheets(self) -> Iterator[Sheet]:
        """Two tables: quality and cost; BLEU by length, seeds and budget."""
        test = f"{self.sentences:,} sentences of {self.split}, beam {self.beam}"
        quarters = [
            TableColumn(str(quarter), partial(_bleu_at_length, number))
            for number, quarter in enumerate(self.quarters)
        ]
        sheets = {
            f"Quality and cost ({test})": QUALITY_AND_COST,
            "BLEU by words of the source; seeds and budget": (*quarters, *SEEDS_AND_BUDGET),
        }
        for title, columns in sheets.items():
            yield Sheet.of(title, columns, self.standings, self.best)

    def notes(self) -> Iterator[str]:
        if self.best is not None:
            yield (
                f"best: {self.best}, by BLEU. *: below it by more than chance explains at p < "
                f"{scores.SIGNIFICANCE_LEVEL}, by a paired bootstrap of the mean BLEU over seeds."
            )
            if self.untested:
                yield scores.UNTESTED_NOTE
            yield (
                "Scores are means over seeds, 95% is the interval of that mean, costs and speeds "
                "are medians over seeds; ppl is per word; FLOPs are those of the whole training, "
                "tok/s of its steps; AER: alignment error rate."
            )
        if self.rows and self.at_once > 1:
            yield (
                f"Up to {self.at_once} rows were trained at a time, so seconds are of a shared "
                "machine; tok/s and sent/s were timed with nothing else running."
            )
        if self.rising:
            yield (
                f"Trained for fewer steps than their warm-up: {', '.join(self.rising)}; their "
                "learning rate was still rising when they ended."
            )
        if len(self.machines) > 1:
            yield (
                "Rows were measured on different machines, so their speeds cannot be compared: "
                + "; ".join(self.machines)
            )

    def origin_lines(self) -> Iterator[str]:
        yield f"{self.origin}\n" if self.origin else ""

    def receipt(self, plan: ComparisonPlan) -> Iterator[str]:
        seeds = {one.label: [str(row.seed) for row in one.rows] for one in self.standings}
        listed = "; ".join(f"{label} {', '.join(some)}" for label, some in seeds.items() if some)
        yield f"- seeds: {listed}"
        if self.at_once > 1:
            yield f"- trained up to {self.at_once} at a time, measured one by one"
        yield f"- data, SHA-256 of the cleaned texts: `{self.data}`"
        yield f"- scored on {self.sentences:,} sentences of {self.split}, beam {self.beam}"
        for name, signature in self.signatures.items():
            yield f"- {name}: `{signature}`"
        yield from super().receipt(plan)
        for one in self.standings:
            if one.rows and (alignment := one.rows[0].alignment) is not None:
                yield f"- alignment of {one.label}: {alignment.chosen}, chosen on validation pairs"


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
    outcomes, texts = load_outcomes(plan, folder), dict[str, list[list[str]]]()
    for entry in plan.entries:
        some = texts.setdefault(entry.label, [])
        if isinstance(load_row(folder, entry), MeasuredRow):
            some.append(_load_translations(entry, folder, len(pairs)))
    ranking = Ranking.of({label: [test.bleu(one) for one in some] for label, some in texts.items()})
    systems = [
        _system(label, rows, texts[label], ranking, test) for label, rows in outcomes.items()
    ]
    return ComparisonResults(
        standings=tuple(systems),
        best=ranking.best,
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
        if WARMUP_SETTING not in require_translation(entry.recipe, entry.name).auto
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
    outcomes: Sequence[Outcome],
    texts: Sequence[list[str]],
    ranking: Ranking,
    test: _TestSet,
) -> SystemResult:
    rows = [row for row in outcomes if isinstance(row, MeasuredRow)]
    values = [[group.scores[0].value for group in test.by_length(one)] for one in texts]
    return SystemResult(
        **split_outcomes(label, outcomes),
        bleu=SeedSpread.of([row.value(BLEU) for row in rows]),
        interval=ranking.intervals.get(label),
        chrf=SeedSpread.of([row.value(CHRF) for row in rows]),
        perplexity=SeedSpread.of([row.surprise.per_word for row in rows]),
        error_rate=SeedSpread.of([row.alignment.error_rate for row in rows if row.alignment]),
        by_length=tuple(np.mean(values, axis=0).tolist()) if values else (),
        costs=SystemCosts.of(rows),
        significance=ranking.tests.get(label),
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
