"""Rows -> results of systems: means over seeds, their intervals and significance; a report."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from regard.comparison.measurements import ComparedRow, Failure, TaskRow, load_row
from regard.comparison.plan import ComparisonFolder, ComparisonPlan, SavedRecord
from regard.comparison.table import (
    EMPTY_CELL,
    Sheet,
    TableColumn,
    format_si,
    format_whole,
    markdown_sheet,
    p_value_cell,
)
from regard.errors import SettingsError
from regard.evaluation.scores import (
    SIGNIFICANCE_LEVEL,
    UNTESTED_NOTE,
    BootstrapScores,
    confidence_interval,
    mean_of_runs,
    p_value,
)
from regard.json_files import dump_json
from regard.nested_values import Raw
from regard.tasks.contracts import TaskRecipe

Outcome = ComparedRow | Failure | None
"""What became of a row; None: it is not finished."""


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


class MeanInterval(SavedRecord):
    """The 95% bootstrap interval of the mean score over the seeds."""

    low: float
    high: float


class Significance(SavedRecord):
    """Paired bootstrap test of the mean score over all seeds against that of another system."""

    difference: float  # of the mean scores
    p_value: float | None  # None: too few examples for a test


class Standing(SavedRecord):
    """The results of a system, over all its seeds. Those of all tasks have these fields, and
    others.
    """

    label: str
    rows: tuple[ComparedRow, ...]
    failures: tuple[Failure, ...]
    waiting: int  # rows that are not finished
    if TYPE_CHECKING:
        interval: MeanInterval | None  # of the mean score
        significance: Significance | None  # None for the system that others are tested against


class Ranking(NamedTuple):
    """The order of systems by their mean scores."""

    best: str | None
    against: str | None  # the system that others are tested against
    intervals: Mapping[str, MeanInterval]
    tests: Mapping[str, Significance]

    @classmethod
    def of(
        cls,
        drawn: Mapping[str, Sequence[BootstrapScores]],
        *,
        lower_is_better: bool = False,
        chosen: Sequence[str] = (),
    ) -> Self:
        """The ranking of systems by the scores of all their rows; the others are tested against the
        first of the `chosen` ones that was measured, or else against the best.
        """
        means = {label: mean_of_runs(some) for label, some in drawn.items() if some}
        sign = -1 if lower_is_better else 1
        best = max(means, key=lambda label: sign * means[label].value, default=None)
        against = next((label for label in chosen if label in means), best)
        tests = {
            label: Significance(
                difference=own.value - means[against].value, p_value=p_value(means[against], own)
            )
            for label, own in means.items()
            if against is not None and label != against
        }
        intervals = {
            label: MeanInterval(**confidence_interval(own.drawn)._asdict())
            for label, own in means.items()
        }
        return cls(best, against, intervals, tests)


class Results(SavedRecord):
    """The results of a comparison, and how they are shown."""

    if TYPE_CHECKING:
        budget: str
        at_once: int

    @property
    def systems(self) -> Sequence[Standing]:
        raise NotImplementedError

    @property
    def rows(self) -> list[ComparedRow]:
        return [row for system in self.systems for row in system.rows]

    @property
    def failed(self) -> bool:
        """Whether a row failed."""
        return any(system.failures for system in self.systems)

    @property
    def untested(self) -> bool:
        """Whether there were too few examples for a test."""
        tests = [one.significance for one in self.systems if one.significance is not None]
        return any(test.p_value is None for test in tests)

    def sheets(self) -> Iterator[Sheet]:
        """The tables."""
        raise NotImplementedError

    def notes(self) -> Iterator[str]:
        """Notes that a reader of the tables needs."""
        raise NotImplementedError

    def origin_lines(self) -> Iterator[str]:
        """Where the data come from, for the report."""
        yield from ()

    def receipt(self, plan: ComparisonPlan) -> Iterator[str]:
        """The lines of the receipt that say what was compared, and where and when."""
        for machine in dict.fromkeys(str(row.machine) for row in self.rows):
            yield f"- measured on {machine}"
        dates = sorted({row.date for row in self.rows})
        yield f"- measured {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}" if dates else ""

    def troubles(self) -> Iterator[str]:
        """Rows that failed, and why; rows that are still to be run."""
        for system in self.systems:
            for failure in system.failures:
                yield f"{failure.label}, seed {failure.seed}, failed: {failure.reason}"
            if system.waiting:
                yield f"{system.label}: {system.waiting} of its rows not finished yet"

    def report(self, plan: ComparisonPlan, figures: Mapping[str, str]) -> str:
        """The results as a page of Markdown; the `figures`, file names with what they show, are in
        the same folder.
        """
        return "\n".join(self._report(plan, figures)) + "\n"

    def _report(self, plan: ComparisonPlan, figures: Mapping[str, str]) -> Iterator[str]:
        yield "# The ladder\n"
        yield from self.origin_lines()
        for sheet in self.sheets():
            yield from markdown_sheet(sheet)
        yield from (f"{note}\n" for note in self.notes())
        yield from (f"- {' '.join(trouble.split())}\n" for trouble in self.troubles())
        if self.rows:
            yield from (f"![{about}]({name}.png)\n" for name, about in figures.items())
        yield "## Receipt\n"
        yield f"- command: `{shlex.join(plan.command)}`"
        yield f"- budget: {self.budget}"
        yield from self.receipt(plan)


class TaskSystem(Standing):
    """The results of a system on a corpus."""

    rows: tuple[TaskRow, ...]
    score: SeedSpread | None
    interval: MeanInterval | None
    significance: Significance | None


class CorpusResults(SavedRecord):
    """Systems that were trained and tested on one corpus."""

    corpus: str
    systems: tuple[TaskSystem, ...]  # in the order of the plan
    best: str | None
    against: str | None  # the system that others are tested against
    score: str  # the name of the score that ranks them; empty: nothing was measured
    signature: str
    split: str
    examples: int

    @property
    def numbers(self) -> list[str]:
        """The names of all numbers that were measured, except the score."""
        names = (name for system in self.systems for row in system.rows for name in row.numbers)
        return [name for name in dict.fromkeys(names) if name.lower() != self.score.lower()]

    def sheets(self) -> Iterator[Sheet]:
        """Two tables: the scores with their costs, and all other measurements."""
        title = f"{self.corpus}: {self.examples:,} examples of {self.split}"
        if not self.score:
            title = f"{self.corpus}: nothing measured yet"
        elif self.against != self.best:
            title = f"{title}, tested against {self.against}"
        untested = "best" if self.against == self.best else EMPTY_CELL
        columns = (
            TableColumn(self.score or "score", lambda one: f"{one.score.mean:.2f}"),
            TableColumn("95%", lambda one: f"{one.interval.low:.1f}…{one.interval.high:.1f}"),
            TableColumn("p", lambda one: p_value_cell(one, untested)),
            TableColumn("lowest…highest", _seed_range),
            TableColumn("seeds", lambda one: str(len(one.rows))),
            TableColumn("param.", lambda one: format_si(median(one.rows, "parameters"))),
            TableColumn("steps", lambda one: format_whole(median(one.rows, "steps"))),
            TableColumn("seconds", lambda one: format_whole(median(one.rows, "seconds"))),
            TableColumn("before", lambda one: format_whole(median(one.rows, "start_seconds"))),
        )
        yield Sheet.of(title, columns, self.systems, self.best)
        if names := self.numbers:
            others = [TableColumn(name.replace("_", " "), _mean_of(name)) for name in names]
            title = f"{self.corpus}: other measurements"
            yield Sheet.of(title, others, self.systems, self.best)


class TaskResults(Results):
    """The results of a comparison of runs that were measured on the examples of their task."""

    task: str
    corpora: tuple[CorpusResults, ...]
    budget: str
    at_once: int

    @property
    def systems(self) -> list[TaskSystem]:
        return [system for corpus in self.corpora for system in corpus.systems]

    def sheets(self) -> Iterator[Sheet]:
        for corpus in self.corpora:
            yield from corpus.sheets()

    def notes(self) -> Iterator[str]:
        if not self.rows:
            return
        yield (
            "Scores are means over seeds, 95% is the interval of that mean by resampling the "
            "examples; p: of a paired bootstrap of it against another system, *: below "
            f"{SIGNIFICANCE_LEVEL}."
        )
        if self.untested:
            yield UNTESTED_NOTE
        yield (
            "seconds: of training, the median of the seeds; before: of the runs that it started "
            "from, which all seeds share."
        )
        if self.at_once > 1:
            yield f"Up to {self.at_once} rows trained at a time: seconds are of a shared machine."

    def receipt(self, plan: ComparisonPlan) -> Iterator[str]:
        for start in plan.starts:
            begun = f", which started from a run of {start.start}" if start.start else ""
            yield f"- {start.label}: trained once, seed {start.seed}{begun}"
        for corpus in self.corpora:
            yield f"- {corpus.corpus}: {corpus.score}: `{corpus.signature}`"
        yield from super().receipt(plan)


def median(rows: Sequence[ComparedRow], name: str) -> float:
    """The median of a number of some rows."""
    return float(np.median([getattr(row, name) for row in rows]))


def _seed_range(system: TaskSystem) -> str:
    if len(system.rows) == 1 or system.score is None:
        return EMPTY_CELL
    return f"{system.score.low:.2f}…{system.score.high:.2f}"


def _mean_of(name: str) -> Callable[[TaskSystem], str]:
    """The mean of one of the `numbers` of a system's rows."""

    def cell(system: TaskSystem) -> str:
        values = [row.numbers[name] for row in system.rows if name in row.numbers]
        return f"{np.mean(values):.4g}" if values else EMPTY_CELL

    return cell


def load_outcomes(plan: ComparisonPlan, folder: ComparisonFolder) -> dict[str, list[Outcome]]:
    """What became of the rows of each system."""
    outcomes: dict[str, list[Outcome]] = {}
    for entry in plan.entries:
        outcomes.setdefault(entry.label, []).append(load_row(folder, entry))
    return outcomes


def split_outcomes(label: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The fields of a system that all tasks have."""
    return {
        "label": label,
        "rows": tuple(row for row in outcomes if isinstance(row, ComparedRow)),
        "failures": tuple(row for row in outcomes if isinstance(row, Failure)),
        "waiting": outcomes.count(None),
    }


def corpus_name(recipe: TaskRecipe) -> str:
    """The name of a recipe's corpus in tables: its name, or its files."""
    raw: Raw = recipe.model_dump(mode="json")["corpus"]
    files = raw.get("train")
    if raw.get("name"):
        return str(raw["name"])
    if isinstance(files, list) and all(isinstance(file, str) for file in files):
        return ", ".join(files)
    return dump_json({key: value for key, value in raw.items() if value})


def aggregate_task_results(plan: ComparisonPlan, folder: ComparisonFolder) -> TaskResults:
    """The results of all rows that are finished."""
    corpora: dict[str, dict[str, list[Outcome]]] = {}
    for entry in plan.entries:
        systems = corpora.setdefault(corpus_name(entry.recipe), {})
        systems.setdefault(entry.label, []).append(load_row(folder, entry))
    return TaskResults(
        task=plan.entries[0].recipe.task,
        corpora=tuple(_corpus(name, some, plan.against) for name, some in corpora.items()),
        budget=plan.budget_text,
        at_once=plan.at_once,
    )


def _corpus(
    name: str, outcomes: Mapping[str, Sequence[Outcome]], chosen: Sequence[str]
) -> CorpusResults:
    rows = {
        label: [row for row in some if isinstance(row, TaskRow)] for label, some in outcomes.items()
    }
    every = [row for some in rows.values() for row in some]
    _check_same_examples(every)
    drawn = {
        label: [BootstrapScores(x.score.value, np.array(x.drawn), x.examples) for x in some]
        for label, some in rows.items()
    }
    lower_is_better = bool(every) and every[0].lower_is_better
    ranking = Ranking.of(drawn, lower_is_better=lower_is_better, chosen=chosen)
    systems = tuple(
        TaskSystem(
            **split_outcomes(label, some)
            | {"rows": tuple(row.model_copy(update={"drawn": ()}) for row in rows[label])},
            score=SeedSpread.of([row.score.value for row in rows[label]]),
            interval=ranking.intervals.get(label),
            significance=ranking.tests.get(label),
        )
        for label, some in outcomes.items()
    )
    first = every[0] if every else None
    return CorpusResults(
        corpus=name,
        systems=systems,
        best=ranking.best,
        against=ranking.against,
        score=first.score.name if first else "",
        signature=first.score.signature if first else "",
        split=first.split if first else "",
        examples=first.examples if first else 0,
    )


def _check_same_examples(rows: Sequence[TaskRow]) -> None:
    """Raise an error unless all rows of a corpus were tested on the same examples."""
    for row in rows[1:]:
        first = rows[0]
        if (row.digest, row.score.name) != (first.digest, first.score.name):
            raise SettingsError(
                f"{first.label} (seed {first.seed}) and {row.label} (seed {row.seed}) were not "
                f"tested in the same way: one by {first.score.name} on examples with the digest "
                f"{first.digest[:12]}, the other by {row.score.name} on {row.digest[:12]}; train "
                "both on one corpus as it is now"
            )
