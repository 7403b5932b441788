"""The results of a comparison of a task as tables, and as a page of Markdown."""

import shlex
from collections.abc import Iterator, Sequence

from regard.comparison.plan import ComparisonPlan
from regard.comparison.table import (
    EMPTY_CELL,
    Sheet,
    format_si,
    machines_and_dates,
    markdown_sheet,
)
from regard.comparison.task_results import CorpusResults, TaskResults, TaskSystem
from regard.evaluation.scores import SIGNIFICANCE_LEVEL, UNTESTED_NOTE, format_p_value

COLUMNS = ("95%", "p", "lowest…highest", "seeds", "param.", "steps", "seconds", "before")
"""The columns of a corpus's first table after the score."""


def task_sheets(results: TaskResults) -> Iterator[Sheet]:
    """Two tables for each corpus: the scores with their costs, and all other measurements."""
    for corpus in results.corpora:
        labels = [system.label for system in corpus.systems]
        best = labels.index(corpus.best) if corpus.best is not None else None
        title = f"{corpus.corpus}: {corpus.examples:,} examples of {corpus.split}"
        if not corpus.score:
            title = f"{corpus.corpus}: nothing measured yet"
        elif corpus.against != corpus.best:
            title = f"{title}, tested against {corpus.against}"
        lines = tuple(_cells(corpus, system) for system in corpus.systems)
        yield Sheet(title, (corpus.score or "score", *COLUMNS), lines, best)
        if names := corpus.numbers:
            others = tuple((one.label, *_means(one, names)) for one in corpus.systems)
            titles = tuple(name.replace("_", " ") for name in names)
            yield Sheet(f"{corpus.corpus}: other measurements", titles, others, best)


def _cells(corpus: CorpusResults, system: TaskSystem) -> tuple[str, ...]:
    if system.score is None or system.interval is None:
        return (system.label, *[EMPTY_CELL] * (1 + len(COLUMNS)))
    score, interval = system.score, system.interval
    spread = f"{score.low:.2f}…{score.high:.2f}" if len(system.rows) > 1 else EMPTY_CELL
    return (
        system.label,
        f"{score.mean:.2f}",
        f"{interval.low:.1f}…{interval.high:.1f}",
        _p_value(corpus, system),
        spread,
        str(len(system.rows)),
        format_si(system.median("parameters")),
        f"{system.median('steps'):,.0f}",
        f"{system.median('seconds'):,.0f}",
        f"{system.median('start_seconds'):,.0f}",
    )


def _means(system: TaskSystem, names: Sequence[str]) -> list[str]:
    means = (system.mean(name) for name in names)
    return [EMPTY_CELL if mean is None else f"{mean:.4g}" for mean in means]


def _p_value(corpus: CorpusResults, system: TaskSystem) -> str:
    if system.significance is None:
        return "best" if corpus.against == corpus.best else EMPTY_CELL
    return format_p_value(system.significance.p_value)


def task_notes(results: TaskResults) -> Iterator[str]:
    """Notes that a reader of the tables needs."""
    if not results.rows:
        return
    yield (
        "Scores are means over seeds, 95% is the interval of that mean by resampling the examples; "
        f"p: of a paired bootstrap of it against another system, *: below {SIGNIFICANCE_LEVEL}."
    )
    tested = [one.significance for one in results.systems if one.significance is not None]
    if any(one.p_value is None for one in tested):
        yield UNTESTED_NOTE
    yield (
        "seconds: of training, the median of the seeds; before: of the runs that it started from, "
        "which all seeds share."
    )
    if results.at_once > 1:
        yield f"Up to {results.at_once} rows trained at a time: seconds are of a shared machine."


def task_failures(results: TaskResults) -> Iterator[str]:
    """Rows that failed, and why; rows that are still to be run."""
    for failure in results.failures:
        yield f"{failure.label}, seed {failure.seed}, failed: {failure.reason}"
    for system in results.systems:
        if system.waiting:
            yield f"{system.label}: {system.waiting} of its rows not finished yet"


def format_task_report(results: TaskResults, plan: ComparisonPlan) -> str:
    """The results as a page of Markdown; its image is in the same folder."""
    return "\n".join(_report(results, plan)) + "\n"


def _report(results: TaskResults, plan: ComparisonPlan) -> Iterator[str]:
    yield "# The ladder\n"
    for sheet in task_sheets(results):
        yield from markdown_sheet(sheet)
    yield from (f"{remark}\n" for remark in task_notes(results))
    yield from (f"- {' '.join(trouble.split())}\n" for trouble in task_failures(results))
    if results.rows:
        yield "![Scores of all systems, with their seeds and 95% intervals](scores.png)\n"
    yield "## Receipt\n"
    yield f"- command: `{shlex.join(plan.command)}`"
    yield f"- budget: {results.budget}"
    for start in plan.starts:
        begun = f", which started from a run of {start.start}" if start.start else ""
        yield f"- {start.label}: trained once, seed {start.seed}{begun}"
    for corpus in results.corpora:
        yield f"- {corpus.corpus}: {corpus.score}: `{corpus.signature}`"
    yield from machines_and_dates(results.rows)
