"""Rows -> the ladder: seeds put together, quarters of lengths, significance against the best."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from regard.comparison.folder import ComparisonFolder
from regard.comparison.measuring import SCORES, Failure, Row, load_row
from regard.comparison.plan import Entry, Plan, Record
from regard.errors import RunError
from regard.evaluation.by_length import LengthGroup, LengthSettings, score_by_length
from regard.evaluation.scores import ScoreSettings
from regard.evaluation.significance import compare
from regard.recipes.prepare import Data

BLEU, CHRF = "BLEU", "chrF2"
QUARTERS = LengthSettings(groups=4)
LEVEL = 0.05
"""A difference that chance makes less often than this is marked."""


class Spread(Record):
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


class Significance(Record):
    """Paired bootstrap of BLEU against the best system, both by their first seed."""

    difference: float
    """In BLEU, from the best."""
    p_value: float


class Standing(Record):
    """A system's place on the ladder: all its seeds."""

    label: str
    rows: tuple[Row, ...]
    """Those that were measured. Intervals, costs and speeds shown are the first one's."""
    failures: tuple[Failure, ...]
    waiting: int
    """Rows that have not been run to their end yet."""
    bleu: Spread | None
    chrf: Spread | None
    perplexity: Spread | None
    """Per word."""
    error_rate: Spread | None
    """Of the alignment."""
    by_length: tuple[float, ...]
    """BLEU of each quarter, mean over the seeds."""
    significance: Significance | None
    """None for the best."""


class Quarter(Record):
    """A share of the test sentences, by the words of their source."""

    shortest: int
    longest: int
    sentences: int
    mean_length: float

    def __str__(self) -> str:
        return "–".join(map(str, sorted({self.shortest, self.longest})))


class Ladder(Record):
    """A comparison as its table shows it."""

    standings: tuple[Standing, ...]
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

    @property
    def rows(self) -> list[Row]:
        """All that were measured."""
        return [row for one in self.standings for row in one.rows]

    @property
    def machines(self) -> list[str]:
        """What they were measured on: speeds compare only where it is one."""
        return list(dict.fromkeys(str(row.machine) for row in self.rows))


class _Found(NamedTuple):
    """What became of one row of the plan."""

    row: Row | Failure | None
    texts: list[str]
    """Its translations, if it was measured."""


class _Sentences(NamedTuple):
    """What all were tested on."""

    sources: list[str]
    references: list[str]


def build_ladder(plan: Plan, folder: ComparisonFolder, data: Data) -> Ladder:
    """The ladder of all rows that are finished."""
    split = data.held_out()
    pairs = list(data.read(split))
    test = _Sentences([pair.source for pair in pairs], [pair.target for pair in pairs])
    systems: dict[str, list[_Found]] = {}
    for entry in plan.entries:
        systems.setdefault(entry.label, []).append(_find(entry, folder, len(pairs)))
    standings = [_standing(label, found, test) for label, found in systems.items()]
    means = {one.label: one.bleu.mean for one in standings if one.bleu is not None}
    best = max(means, key=means.__getitem__, default=None)
    if best is not None:
        texts = _first_texts(systems[best])
        standings = [
            one
            if one.label == best or one.label not in means
            else _compared(one, texts, _first_texts(systems[one.label]), test)
            for one in standings
        ]
    return Ladder(
        standings=tuple(standings),
        best=best,
        quarters=_quarters(test),
        data=data.digest,
        origin=data.origin,
        split=split,
        sentences=len(pairs),
        budget=plan.terms,
        beam=plan.beam,
        signatures={
            score.name: score.signature
            for one in standings
            for row in one.rows[:1]
            for score in row.scores
        },
        rising=_rising(plan, standings),
    )


def _rising(plan: Plan, standings: Sequence[Standing]) -> tuple[str, ...]:
    """The systems that took fewer steps than their warm-up has."""
    warmups = {entry.label: entry.recipe.training.schedule.warmup for entry in plan.entries}
    return tuple(
        one.label for one in standings if any(row.steps < warmups[one.label] for row in one.rows)
    )


def _find(entry: Entry, folder: ComparisonFolder, sentences: int) -> _Found:
    """What became of a row, and its translations of so many test sentences."""
    row = load_row(folder.row(entry))
    if not isinstance(row, Row):
        return _Found(row, [])
    path = folder.translations(entry)
    texts = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    if len(texts) != sentences:
        raise RunError(
            f"{path}: expected {sentences:,} translations, found {len(texts):,}; remove "
            f"{folder.row(entry)} to measure the row again"
        )
    return _Found(row, texts)


def _first_texts(found: Sequence[_Found]) -> list[str]:
    return next(one.texts for one in found if isinstance(one.row, Row))


def _standing(label: str, found: Sequence[_Found], test: _Sentences) -> Standing:
    rows = [one.row for one in found if isinstance(one.row, Row)]
    groups = [_by_length(one.texts, test) for one in found if isinstance(one.row, Row)]
    values = [[group.scores[0].value for group in one] for one in groups]
    return Standing(
        label=label,
        rows=tuple(rows),
        failures=tuple(one.row for one in found if isinstance(one.row, Failure)),
        waiting=sum(one.row is None for one in found),
        bleu=Spread.of([row.value(BLEU) for row in rows]),
        chrf=Spread.of([row.value(CHRF) for row in rows]),
        perplexity=Spread.of([row.surprise.per_word for row in rows]),
        error_rate=Spread.of([row.alignment.error_rate for row in rows if row.alignment]),
        by_length=tuple(np.mean(values, axis=0).tolist()) if values else (),
        significance=None,
    )


def _by_length(texts: Sequence[str], test: _Sentences) -> list[LengthGroup]:
    plain = ScoreSettings(metrics=("bleu",), resamples=0)
    return score_by_length(test.sources, texts, test.references, QUARTERS, plain)


def _compared(one: Standing, best: Sequence[str], own: Sequence[str], test: _Sentences) -> Standing:
    settings = SCORES.model_copy(update={"metrics": ("bleu",)})
    found = compare(best, own, test.references, settings)[0]
    measured = Significance(difference=found.delta, p_value=found.p_value)
    return one.model_copy(update={"significance": measured})


def _quarters(test: _Sentences) -> tuple[Quarter, ...]:
    """The groups that lengths fall into, whatever the translations."""
    lengths = np.array([len(source.split()) for source in test.sources])
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
