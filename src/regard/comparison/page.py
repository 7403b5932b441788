"""The ladder as a page of Markdown, with its receipt."""

import shlex
from collections.abc import Iterator

from regard.comparison.ladder import Ladder
from regard.comparison.plan import Plan
from regard.comparison.table import markdown_table, remarks, sheets, troubles


def write_page(ladder: Ladder, plan: Plan) -> str:
    """The page; its pictures lie beside it."""
    return "\n".join(_page(ladder, plan)) + "\n"


def _page(ladder: Ladder, plan: Plan) -> Iterator[str]:
    yield "# The ladder\n"
    yield f"{ladder.origin}\n" if ladder.origin else ""
    for sheet in sheets(ladder):
        yield f"**{sheet.title}**\n"
        header = ["system", *(column.title for column in sheet.columns)]
        lines = []
        for standing, cells in sheet.lines(ladder):
            best = standing.label == ladder.best
            lines.append([f"**{cells[0]}**" if best else cells[0], *cells[1:]])
        yield from markdown_table(header, lines)
        yield ""
    for remark in remarks(ladder):
        yield f"{remark}\n"
    for trouble in troubles(ladder):
        yield f"- {' '.join(trouble.split())}\n"
    if ladder.rows:
        yield "![BLEU by the length of the source](by-length.png)\n"
        yield "![BLEU against the cost of training](quality-cost.png)\n"
    yield from _receipt(ladder, plan)


def _receipt(ladder: Ladder, plan: Plan) -> Iterator[str]:
    yield "## Receipt\n"
    yield f"- command: `{shlex.join(plan.command)}`"
    seeds = {one.label: [str(row.seed) for row in one.rows] for one in ladder.standings}
    listed = "; ".join(f"{label} {', '.join(some)}" for label, some in seeds.items() if some)
    yield f"- budget: {ladder.budget}"
    yield f"- seeds: {listed}"
    if ladder.at_once > 1:
        yield f"- trained up to {ladder.at_once} at a time, measured one by one"
    yield f"- data, SHA-256 of the cleaned texts: `{ladder.data}`"
    yield f"- scored on {ladder.sentences:,} sentences of {ladder.split}, beam {ladder.beam}"
    for name, signature in ladder.signatures.items():
        yield f"- {name}: `{signature}`"
    for machine in ladder.machines:
        yield f"- measured on {machine}"
    dates = sorted({row.date for row in ladder.rows})
    yield f"- measured {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}" if dates else ""
    aligned = [(one.label, one.rows[0].alignment) for one in ladder.standings if one.rows]
    for label, alignment in aligned:
        if alignment is not None:
            yield f"- alignment of {label}: {alignment.chosen}, chosen on validation pairs"
