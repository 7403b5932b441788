"""The results of a comparison as tables, for the terminal and for Markdown, and as a report."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from regard.comparison.measurements import AnyRow
from regard.comparison.plan import ComparisonPlan
from regard.comparison.results import (
    ComparisonResults,
    MeanInterval,
    SeedSpread,
    SystemCosts,
    SystemResult,
)
from regard.evaluation.scores import SIGNIFICANCE_LEVEL, UNTESTED_NOTE, format_p_value

EMPTY_CELL = "–"  # without a number


class TableColumn(NamedTuple):
    """A heading, and a function that gives the cell of a measured system."""

    title: str
    cell: Callable[[SystemResult, SystemCosts], str]


class TableSection(NamedTuple):
    """A table; its first column, not listed here, names the system."""

    title: str
    columns: tuple[TableColumn, ...]

    def lines(self, results: ComparisonResults) -> Iterator[tuple[SystemResult, list[str]]]:
        """Each system with its cells; dashes if none of its rows was measured."""
        for system in results.standings:
            cells = [EMPTY_CELL] * len(self.columns)
            if system.costs is not None:
                cells = [column.cell(system, system.costs) for column in self.columns]
            yield system, [system.label, *cells]


def table_sections(results: ComparisonResults) -> tuple[TableSection, TableSection]:
    """Two tables: quality and cost; BLEU by length, seeds and budget."""
    test = f"{results.sentences:,} sentences of {results.split}, beam {results.beam}"
    quarters = (
        TableColumn(str(quarter), _at_length(number))
        for number, quarter in enumerate(results.quarters)
    )
    return (
        TableSection(
            f"Quality and cost ({test})",
            (
                TableColumn("param.", lambda _, costs: format_si(costs.parameters)),
                TableColumn("FLOPs", lambda _, costs: _of_training(costs.flops)),
                TableColumn("tok/s", lambda _, costs: _of_training(costs.tokens_per_second)),
                TableColumn("ppl", lambda one, _: _perplexity(one.perplexity)),
                TableColumn("BLEU", lambda one, _: _mean(one.bleu, ".2f")),
                TableColumn("95%", lambda one, _: _range(one.interval, ".1f")),
                TableColumn("p", lambda one, _: _p_value(one)),
                TableColumn("chrF", lambda one, _: _mean(one.chrf, ".2f")),
                TableColumn("AER", lambda one, _: _mean(one.error_rate, ".1%")),
                TableColumn("sent/s", lambda _, costs: format_si(costs.sentences_per_second)),
            ),
        ),
        TableSection(
            "BLEU by words of the source; seeds and budget",
            (
                *quarters,
                TableColumn("seeds", lambda one, _: str(len(one.rows))),
                TableColumn("lowest…highest", lambda one, _: _seed_range(one)),
                TableColumn("steps", lambda _, costs: _of_training(costs.steps, _whole)),
                TableColumn("tokens", lambda _, costs: _of_training(costs.tokens)),
                TableColumn("seconds", lambda _, costs: _of_training(costs.seconds, _whole)),
            ),
        ),
    )


class Sheet(NamedTuple):
    """A table of text, whose first column names the system."""

    title: str
    columns: tuple[str, ...]  # titles of all but the first
    lines: tuple[Sequence[str], ...]
    best: int | None  # the number of the line of the best system


def sheets(results: ComparisonResults) -> Iterator[Sheet]:
    """The tables, filled."""
    labels = [system.label for system in results.standings]
    best = labels.index(results.best) if results.best is not None else None
    for section in table_sections(results):
        titles = tuple(column.title for column in section.columns)
        lines = tuple(cells for _, cells in section.lines(results))
        yield Sheet(section.title, titles, lines, best)


def table_notes(results: ComparisonResults) -> Iterator[str]:
    """Notes that a reader of the table needs."""
    if results.best is not None:
        yield (
            f"best: {results.best}, by BLEU. *: below it by more than chance explains at p < "
            f"{SIGNIFICANCE_LEVEL}, by a paired bootstrap of the mean BLEU over seeds."
        )
        tested = [one.significance for one in results.standings if one.significance is not None]
        if any(one.p_value is None for one in tested):
            yield UNTESTED_NOTE
        yield (
            "Scores are means over seeds, 95% is the interval of that mean, costs and speeds are "
            "medians over seeds; ppl is per word; FLOPs are those of the whole training, tok/s of "
            "its steps; AER: alignment error rate."
        )
    if results.rows and results.at_once > 1:
        yield (
            f"Up to {results.at_once} rows were trained at a time, so seconds are of a shared "
            "machine; tok/s and sent/s were timed with nothing else running."
        )
    if results.rising:
        yield (
            f"Trained for fewer steps than their warm-up: {', '.join(results.rising)}; their "
            "learning rate was still rising when they ended."
        )
    if len(results.machines) > 1:
        yield (
            "Rows were measured on different machines, so their speeds cannot be compared: "
            + "; ".join(results.machines)
        )


def failure_notes(results: ComparisonResults) -> Iterator[str]:
    """Rows that failed, and why; rows that are still to be run."""
    for system in results.standings:
        for failure in system.failures:
            yield f"{failure.label}, seed {failure.seed}, failed: {failure.reason}"
        if system.waiting:
            yield f"{system.label}: {system.waiting} of its rows not finished yet"


def format_si(number: float) -> str:
    """At most three digits and an SI prefix: 514k, 12.8M, 3.2P."""
    for prefix in ("", "k", "M", "G", "T", "P", "E"):
        if abs(number) < 999.5 or prefix == "E":
            digits = f"{number:.3g}" if abs(number) < 99.95 else f"{number:.0f}"
            return f"{digits}{prefix}"
        number /= 1000
    raise AssertionError


def _whole(number: float) -> str:
    return f"{number:,.0f}"


def _of_training(number: float, form: Callable[[float], str] = format_si) -> str:
    """A number measured in training; empty for a model that was imported."""
    return form(number) if number else EMPTY_CELL


def _at_length(number: int) -> Callable[[SystemResult, SystemCosts], str]:
    return lambda one, _: f"{one.by_length[number]:.2f}"


def _mean(spread: SeedSpread | None, how: str) -> str:
    return EMPTY_CELL if spread is None else f"{spread.mean:{how}}"


def _range(found: MeanInterval | SeedSpread | None, how: str) -> str:
    return EMPTY_CELL if found is None else f"{found.low:{how}}…{found.high:{how}}"


def _seed_range(one: SystemResult) -> str:
    return EMPTY_CELL if one.bleu and one.bleu.low == one.bleu.high else _range(one.bleu, ".2f")


def _perplexity(spread: SeedSpread | None) -> str:
    if spread is None or spread.mean < 100:
        return _mean(spread, ".2f")
    return format_si(spread.mean)


def _p_value(one: SystemResult) -> str:
    if one.significance is None:
        return "best"
    return format_p_value(one.significance.p_value)


def markdown_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table whose first column is text and whose others are numbers."""
    yield f"| {' | '.join(header)} |"
    yield f"|---|{'---:|' * (len(header) - 1)}"
    for line in lines:
        yield f"| {' | '.join(cell.strip().replace('|', chr(92) + '|') for cell in line)} |"


def markdown_sheet(sheet: Sheet) -> Iterator[str]:
    """A table with its title; the best system is bold."""
    yield f"**{sheet.title}**\n"
    lines = [
        [f"**{cells[0]}**" if number == sheet.best else cells[0], *cells[1:]]
        for number, cells in enumerate(sheet.lines)
    ]
    yield from markdown_table(["system", *sheet.columns], lines)
    yield ""


def format_report(results: ComparisonResults, plan: ComparisonPlan) -> str:
    """The results as a page of Markdown; its images are in the same folder."""
    return "\n".join(_report(results, plan)) + "\n"


def _report(results: ComparisonResults, plan: ComparisonPlan) -> Iterator[str]:
    yield "# The ladder\n"
    yield f"{results.origin}\n" if results.origin else ""
    for sheet in sheets(results):
        yield from markdown_sheet(sheet)
    for remark in table_notes(results):
        yield f"{remark}\n"
    for trouble in failure_notes(results):
        yield f"- {' '.join(trouble.split())}\n"
    if results.rows:
        yield "![BLEU by the length of the source](by-length.png)\n"
        yield "![BLEU against the cost of training](quality-cost.png)\n"
    yield from _provenance(results, plan)


def machines_and_dates(rows: Sequence[AnyRow]) -> Iterator[str]:
    """The lines of a receipt that say where and when rows were measured."""
    for machine in dict.fromkeys(str(row.machine) for row in rows):
        yield f"- measured on {machine}"
    dates = sorted({row.date for row in rows})
    yield f"- measured {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}" if dates else ""


def _provenance(results: ComparisonResults, plan: ComparisonPlan) -> Iterator[str]:
    yield "## Receipt\n"
    yield f"- command: `{shlex.join(plan.command)}`"
    seeds = {one.label: [str(row.seed) for row in one.rows] for one in results.standings}
    listed = "; ".join(f"{label} {', '.join(some)}" for label, some in seeds.items() if some)
    yield f"- budget: {results.budget}"
    yield f"- seeds: {listed}"
    if results.at_once > 1:
        yield f"- trained up to {results.at_once} at a time, measured one by one"
    yield f"- data, SHA-256 of the cleaned texts: `{results.data}`"
    yield f"- scored on {results.sentences:,} sentences of {results.split}, beam {results.beam}"
    for name, signature in results.signatures.items():
        yield f"- {name}: `{signature}`"
    yield from machines_and_dates(results.rows)
    for one in results.standings:
        if one.rows and (alignment := one.rows[0].alignment) is not None:
            yield f"- alignment of {one.label}: {alignment.chosen}, chosen on validation pairs"
