"""The presentation of a comparison's results for any task: tables, notes, figures and a report."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from matplotlib.figure import Figure

from regard.comparison.plan import ComparisonPlan, SavedRecord
from regard.comparison.plots import plot_by_length, plot_quality_cost
from regard.comparison.results import ComparisonResults
from regard.comparison.table import Sheet, failure_notes, format_report, sheets, table_notes
from regard.comparison.task_plots import plot_scores
from regard.comparison.task_results import TaskResults
from regard.comparison.task_table import (
    format_task_report,
    task_failures,
    task_notes,
    task_sheets,
)


class Ladder(NamedTuple):
    """Results, and their presentation."""

    results: SavedRecord
    sheets: tuple[Sheet, ...]
    notes: tuple[str, ...]
    troubles: tuple[str, ...]  # rows that failed or are not finished
    report: str  # a page of Markdown
    figures: Mapping[str, Callable[[], Figure]]  # by file name
    failed: bool  # whether a row failed


def translators_ladder(results: ComparisonResults, plan: ComparisonPlan) -> Ladder:
    """A comparison of translators."""
    draw = {"by-length": plot_by_length, "quality-cost": plot_quality_cost}
    return Ladder(
        results,
        tuple(sheets(results)),
        tuple(table_notes(results)),
        tuple(failure_notes(results)),
        format_report(results, plan),
        {name: partial(plot, results) for name, plot in draw.items() if results.rows},
        any(one.failures for one in results.standings),
    )


def task_ladder(results: TaskResults, plan: ComparisonPlan) -> Ladder:
    """A comparison of runs of another task."""
    return Ladder(
        results,
        tuple(task_sheets(results)),
        tuple(task_notes(results)),
        tuple(task_failures(results)),
        format_task_report(results, plan),
        {"scores": partial(plot_scores, results)} if results.rows else {},
        bool(results.failures),
    )
