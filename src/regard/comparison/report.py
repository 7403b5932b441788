"""The ladder as a page of Markdown, with its receipt."""

import shlex
from collections.abc import Iterator

from regard.comparison.plan import ComparisonPlan
from regard.comparison.results import ComparisonResults
from regard.comparison.table import failure_notes, markdown_table, table_notes, table_sections


def format_report(results: ComparisonResults, plan: ComparisonPlan) -> str:
    """The page; its pictures lie beside it."""
    return "\n".join(_report(results, plan)) + "\n"


def _report(results: ComparisonResults, plan: ComparisonPlan) -> Iterator[str]:
    yield "# The ladder\n"
    yield f"{results.origin}\n" if results.origin else ""
    for sheet in table_sections(results):
        yield f"**{sheet.title}**\n"
        header = ["system", *(column.title for column in sheet.columns)]
        lines = []
        for standing, cells in sheet.lines(results):
            best = standing.label == results.best
            lines.append([f"**{cells[0]}**" if best else cells[0], *cells[1:]])
        yield from markdown_table(header, lines)
        yield ""
    for remark in table_notes(results):
        yield f"{remark}\n"
    for trouble in failure_notes(results):
        yield f"- {' '.join(trouble.split())}\n"
    if results.rows:
        yield "![BLEU by the length of the source](by-length.png)\n"
        yield "![BLEU against the cost of training](quality-cost.png)\n"
    yield from _provenance(results, plan)


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
    for machine in results.machines:
        yield f"- measured on {machine}"
    dates = sorted({row.date for row in results.rows})
    yield f"- measured {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}" if dates else ""
    aligned = [(one.label, one.rows[0].alignment) for one in results.standings if one.rows]
    for label, alignment in aligned:
        if alignment is not None:
            yield f"- alignment of {label}: {alignment.chosen}, chosen on validation pairs"
