"""Rows of tasks -> results of systems, on each corpus: means over seeds, and their significance."""

from collections.abc import Iterable, Sequence

import numpy as np

from regard.comparison.measurements import Failure, TaskRow, load_row
from regard.comparison.plan import ComparisonFolder, ComparisonPlan, SavedRecord
from regard.comparison.results import MeanInterval, SeedSpread, Significance
from regard.comparison.task_rows import corpus_name
from regard.errors import SettingsError
from regard.evaluation.scores import (
    BootstrapScores,
    confidence_interval,
    mean_of_runs,
    p_value,
)


class TaskSystem(SavedRecord):
    """The results of a system on a corpus, over all its seeds."""

    label: str
    rows: tuple[TaskRow, ...]
    failures: tuple[Failure, ...]
    waiting: int  # rows that are not finished
    score: SeedSpread | None
    interval: MeanInterval | None  # of the mean of `score`
    significance: Significance | None  # None for the system that others are tested against

    def median(self, name: str) -> float:
        """The median of a number of its rows."""
        return float(np.median([getattr(row, name) for row in self.rows]))

    def mean(self, name: str) -> float | None:
        """The mean of one of the `numbers` of its rows; None: no row has this number."""
        values = [row.numbers[name] for row in self.rows if name in row.numbers]
        return float(np.mean(values)) if values else None


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


class TaskResults(SavedRecord):
    """The results of a comparison of a task other than translation."""

    task: str
    corpora: tuple[CorpusResults, ...]
    budget: str
    at_once: int

    @property
    def systems(self) -> list[TaskSystem]:
        return [system for corpus in self.corpora for system in corpus.systems]

    @property
    def rows(self) -> list[TaskRow]:
        return [row for system in self.systems for row in system.rows]

    @property
    def failures(self) -> list[Failure]:
        return [failure for system in self.systems for failure in system.failures]


def aggregate_task_results(plan: ComparisonPlan, folder: ComparisonFolder) -> TaskResults:
    """The results of all rows that are finished."""
    corpora: dict[str, dict[str, list[TaskRow | Failure | None]]] = {}
    for entry in plan.entries:
        row = load_row(folder.row(entry))
        assert isinstance(row, TaskRow | Failure | None)
        systems = corpora.setdefault(corpus_name(entry.recipe), {})
        systems.setdefault(entry.label, []).append(row)
    results = [_corpus(name, systems, plan.against) for name, systems in corpora.items()]
    return TaskResults(
        task=plan.entries[0].recipe.task,
        corpora=tuple(results),
        budget=plan.budget_text,
        at_once=plan.at_once,
    )


def _corpus(
    name: str, outcomes: dict[str, list[TaskRow | Failure | None]], chosen: Sequence[str]
) -> CorpusResults:
    rows = [row for some in outcomes.values() for row in some if isinstance(row, TaskRow)]
    _check_same_examples(rows)
    drawn = {
        label: mean_of_runs(
            [BootstrapScores(row.score.value, np.array(row.drawn), row.examples) for row in own]
        )
        for label, some in outcomes.items()
        if (own := [row for row in some if isinstance(row, TaskRow)])
    }
    sign = -1 if rows and rows[0].lower_is_better else 1
    best = max(drawn, key=lambda label: sign * drawn[label].value, default=None)
    against = next((label for label in chosen if label in drawn), best)
    others = {label: drawn.get(against or "") for label in outcomes if label != against}
    systems = [
        _system(label, some, drawn.get(label), others.get(label))
        for label, some in outcomes.items()
    ]
    first = rows[0] if rows else None
    return CorpusResults(
        corpus=name,
        systems=tuple(systems),
        best=best,
        against=against,
        score=first.score.name if first else "",
        signature=first.score.signature if first else "",
        split=first.split if first else "",
        examples=first.examples if first else 0,
    )


def _system(
    label: str,
    outcomes: Iterable[TaskRow | Failure | None],
    own: BootstrapScores | None,
    other: BootstrapScores | None,
) -> TaskSystem:
    """The results of a system whose mean score is `own`, tested against `other` if given."""
    found = list(outcomes)
    measured = (row for row in found if isinstance(row, TaskRow))
    rows = tuple(row.model_copy(update={"drawn": ()}) for row in measured)
    tested = None
    if own is not None and other is not None:
        tested = Significance(difference=own.value - other.value, p_value=p_value(other, own))
    return TaskSystem(
        label=label,
        rows=rows,
        failures=tuple(row for row in found if isinstance(row, Failure)),
        waiting=sum(row is None for row in found),
        score=SeedSpread.of([row.score.value for row in rows]),
        interval=own and MeanInterval(**confidence_interval(own.drawn)._asdict()),
        significance=tested,
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
