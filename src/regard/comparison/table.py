"""The ladder in columns, for a terminal and for Markdown alike."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from regard.comparison.ladder import LEVEL, Costs, Ladder, MeanInterval, Spread, Standing

NOTHING = "–"
"""In a cell that has no number."""


class Column(NamedTuple):
    """A heading, and what stands below it for a system that was measured."""

    title: str
    cell: Callable[[Standing, Costs], str]
    """Of the standing and its costs."""


class Sheet(NamedTuple):
    """Columns that fit side by side; the first names the system."""

    title: str
    columns: tuple[Column, ...]

    def lines(self, ladder: Ladder) -> Iterator[tuple[Standing, list[str]]]:
        """Each standing with its cells; dashes for one without a measured row."""
        for standing in ladder.standings:
            cells = (
                [column.cell(standing, standing.costs) for column in self.columns]
                if standing.costs is not None
                else [NOTHING] * len(self.columns)
            )
            yield standing, [standing.label, *cells]


def sheets(ladder: Ladder) -> tuple[Sheet, Sheet]:
    """What it is worth and what it costs; and by length, seed and budget."""
    test = f"{ladder.sentences:,} sentences of {ladder.split}, beam {ladder.beam}"
    quarters = (
        Column(str(quarter), _at_length(number)) for number, quarter in enumerate(ladder.quarters)
    )
    return (
        Sheet(
            f"Quality and cost ({test})",
            (
                Column("param.", lambda _, costs: brief(costs.parameters)),
                Column("FLOPs", lambda _, costs: brief(costs.flops)),
                Column("tok/s", lambda _, costs: brief(costs.tokens_per_second)),
                Column("ppl", lambda one, _: _perplexity(one.perplexity)),
                Column("BLEU", lambda one, _: _mean(one.bleu, ".2f")),
                Column("95%", lambda one, _: _interval(one.interval)),
                Column("p", lambda one, _: _p_value(one)),
                Column("chrF", lambda one, _: _mean(one.chrf, ".2f")),
                Column("AER", lambda one, _: _mean(one.error_rate, ".1%")),
                Column("sent/s", lambda _, costs: brief(costs.sentences_per_second)),
            ),
        ),
        Sheet(
            "BLEU by words of the source; seeds and budget",
            (
                *quarters,
                Column("seeds", lambda one, _: str(len(one.rows))),
                Column("lowest…highest", lambda one, _: _range(one.bleu)),
                Column("steps", lambda _, costs: f"{costs.steps:,.0f}"),
                Column("tokens", lambda _, costs: brief(costs.tokens)),
                Column("seconds", lambda _, costs: f"{costs.seconds:,.0f}"),
            ),
        ),
    )


def remarks(ladder: Ladder) -> Iterator[str]:
    """What a reader of the table must know."""
    if ladder.best is not None:
        yield (
            f"best: {ladder.best}, by BLEU. *: below it by more than chance explains at p < "
            f"{LEVEL}, by a paired bootstrap of the mean BLEU over seeds."
        )
        yield (
            "Scores are means over seeds, 95% is the interval of that mean, costs and speeds are "
            "medians over seeds; ppl is per word; FLOPs are those of the whole training, tok/s of "
            "its steps; AER: alignment error rate."
        )
    if ladder.rows and ladder.at_once > 1:
        yield (
            f"Trained up to {ladder.at_once} at a time, so that seconds are those of runs that "
            "shared a machine; tok/s and sent/s were timed with nothing beside them."
        )
    if ladder.rising:
        yield (
            f"Trained for fewer steps than their warm-up has: {', '.join(ladder.rising)}; their "
            "learning rate was still rising when they ended."
        )
    if len(ladder.machines) > 1:
        yield (
            "Rows were measured on unlike machines, so that their speeds do not compare: "
            + "; ".join(ladder.machines)
        )


def troubles(ladder: Ladder) -> Iterator[str]:
    """Rows that failed, and why; rows that are still to be run."""
    for standing in ladder.standings:
        for failure in standing.failures:
            yield f"{failure.label}, seed {failure.seed}, failed: {failure.reason}"
        if standing.waiting:
            yield f"{standing.label}: {standing.waiting} of its rows not finished yet"


def brief(number: float) -> str:
    """At most three digits, and a letter: 514k, 12.8M, 3.2P."""
    for letter in ("", "k", "M", "G", "T", "P", "E"):
        if abs(number) < 999.5 or letter == "E":
            digits = f"{number:.3g}" if abs(number) < 99.95 else f"{number:.0f}"
            return f"{digits}{letter}"
        number /= 1000
    raise AssertionError


def _at_length(number: int) -> Callable[[Standing, Costs], str]:
    return lambda one, _: f"{one.by_length[number]:.2f}"


def _mean(spread: Spread | None, how: str) -> str:
    return NOTHING if spread is None else f"{spread.mean:{how}}"


def _interval(found: MeanInterval | None) -> str:
    return NOTHING if found is None else f"{found.low:.1f}…{found.high:.1f}"


def _perplexity(spread: Spread | None) -> str:
    if spread is None:
        return NOTHING
    return f"{spread.mean:.2f}" if spread.mean < 100 else brief(spread.mean)


def _range(spread: Spread | None) -> str:
    if spread is None or spread.low == spread.high:
        return NOTHING
    return f"{spread.low:.2f}…{spread.high:.2f}"


def _p_value(one: Standing) -> str:
    if one.significance is None:
        return "best"
    p_value = one.significance.p_value
    return f"{p_value:.3f}{'*' if p_value < LEVEL else ' '}"


def markdown_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table whose first column is text and whose others are numbers."""
    yield f"| {' | '.join(header)} |"
    yield f"|---|{'---:|' * (len(header) - 1)}"
    for line in lines:
        yield f"| {' | '.join(cell.strip().replace('|', chr(92) + '|') for cell in line)} |"
