"""`regard heads`."""

from typing import Annotated, Literal

import torch
import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from torch import Tensor

from regard.cli import options, score_options
from regard.cli.bars import progress_bar
from regard.cli.console import out, print_json
from regard.cli.held_out import read_held_out
from regard.cli.pictures import draw_all, name_pictures
from regard.cli.tables import STARRED, SURE, plain_table
from regard.evaluation.scores import Score
from regard.inspection.plot_costs import plot_costs
from regard.inspection.record import PARTS, Part
from regard.inspection.terminal import painted
from regard.serving.searching import search_settings
from regard.serving.sweep import Removal, Sweep, SweepSettings, sweep_heads
from regard.serving.translator import load

app = typer.Typer()

USUAL = SweepSettings()


@app.command()
def command(
    model: options.Model,
    source: options.HeldOutSource = None,
    reference: options.HeldOutReference = None,
    part: Annotated[
        Literal["encoder", "decoder", "cross", "all"],
        typer.Option(help="The part of the model whose heads are removed."),
    ] = "all",
    sentences: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Measure on the first N; else on all.")
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(min=0, help="A head that costs no more BLEU than this is free to remove."),
    ] = USUAL.tolerance,
    tokenize: score_options.Tokenize = USUAL.tokenize,
    beam: options.Beam = None,
    png: options.Png = None,
    svg: options.Svg = None,
    theme: options.Theme = "light",
    weights: options.Weights = "model",
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Score every head by what its removal costs in BLEU.

    The sentences are translated once with the whole model, once without each head and once without
    each layer's attention, and in the end without all heads that are free to remove. A head that
    costs nothing alone may cost much together with others that could have taken its place.

    Examples:

        regard heads runs/travel --sentences 200 --beam 1
        regard heads runs/mine --source test.en --reference test.de --part cross --png heads.png
    """
    files = name_pictures(png, svg)
    parts: tuple[Part, ...] = PARTS if part == "all" else (part,)
    sources, references = (lines[:sentences] for lines in read_held_out(model, source, reference))
    settings = SweepSettings(
        parts=parts,
        tolerance=tolerance,
        tokenize=score_options.run_tokenizer(model, tokenize, references),
    )
    translator = load(model, device=device, weights=weights, engine="native")
    search = search_settings(translator.settings, beam=beam)
    with progress_bar() as progress:
        task = progress.add_task("removing heads")
        found = sweep_heads(
            translator,
            sources,
            references,
            settings,
            search=search,
            tell=lambda done, total: progress.update(task, completed=done, total=total),
        )
    if json:
        print_json(found.to_json())
    else:
        _print(model, found)
    draw_all(files, lambda: plot_costs(grids(found), theme=theme))


def grids(found: Sweep) -> dict[str, Tensor]:
    """The costs of the heads of each part: each (L, H)."""
    named = {part: [one for one in found.heads if one.part == part] for part in PARTS}
    return {
        part: torch.tensor([one.cost for one in heads]).view(heads[-1].layer + 1, -1)  # (L, H)
        for part, heads in named.items()
        if heads
    }


def _print(model: str, found: Sweep) -> None:
    score = found.baseline
    out.print(
        f"[bold]{escape(model)}[/bold] on {found.sentences:,} sentences: BLEU {score.value:.2f}"
        f"{_span(score)}  [dim]{escape(score.signature)}[/dim]"
    )
    out.print(_table(found))
    out.print(STARRED)
    dearest = max(found.heads, key=lambda one: one.cost)
    out.print(
        f"dearest: {dearest.part} {dearest.layer}.{dearest.head}, without which "
        f"{dearest.changed:.0%} of the translations are others, for {dearest.cost:.2f} BLEU"
    )
    free, heads = len(found.free), len(found.heads)
    out.print(
        f"free to remove, each alone, for at most {found.tolerance:g} BLEU: {free} of {heads} heads"
    )
    if found.without_free is not None:
        gained = found.without_free - score.value
        out.print(f"without these {free} at once: BLEU {found.without_free:.2f} ({gained:+.2f})")


def _table(found: Sweep) -> Table:
    """BLEU that is lost without each head, a row for each layer, and without the whole layer."""
    widest, peak = max(one.head or 0 for one in found.heads), max(one.cost for one in found.heads)
    heads = [f"head {number}" for number in range(widest + 1)]
    columns = [*heads, "whole layer"] if widest else heads  # an only head is its layer
    table = plain_table("", *columns, title="BLEU lost without", gap=1)
    layers: dict[tuple[Part, int], dict[int | None, Text]] = {}
    for one in found.removals:
        layers.setdefault((one.part, one.layer), {})[one.head] = _cell(one, peak)
    for (part, layer), cells in layers.items():
        row = (cells.get(head, "") for head in (*range(widest + 1), None)[: len(columns)])
        table.add_row(f"{part} {layer}", *row)
    return table


def _cell(one: Removal, peak: float) -> Text:
    """What is lost; a head on a ground that is the brighter the more it is, if there is colour."""
    shown = f"{one.cost:6.2f}{'*' if one.p_value < SURE else ' '}"
    if one.head is None or out.color_system not in ("256", "truecolor"):
        return Text(shown)
    return Text(shown, painted(max(one.cost, 0) / peak if peak > 0 else 0))


def _span(score: Score) -> str:
    return f" ({score.interval.low:.2f} … {score.interval.high:.2f})" if score.interval else ""
