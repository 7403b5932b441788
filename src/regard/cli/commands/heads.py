"""`regard heads`."""

from typing import Annotated, Literal

import torch
import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from torch import Tensor

from regard.cli.display.console import out, print_json
from regard.cli.display.figures import figure_files, save_figures
from regard.cli.display.progress_bar import progress_bar
from regard.cli.display.tables import SIGNIFICANCE_LEVEL, SIGNIFICANCE_NOTE, plain_table
from regard.cli.options import score_options, shared_options
from regard.cli.options.eval_data import read_eval_data
from regard.decoding.search_options import search_settings
from regard.evaluation.scores import Score
from regard.inspection.plots.head_costs import plot_head_costs
from regard.inspection.plots.terminal_map import cell_style
from regard.inspection.recording.attention_map import PARTS, Part
from regard.pipelines.head_importance import (
    AblationResult,
    HeadImportance,
    HeadImportanceSettings,
    measure_head_importance,
)
from regard.pipelines.translator import load

app = typer.Typer()

DEFAULTS = HeadImportanceSettings()


@app.command()
def command(
    model: shared_options.Model,
    source: shared_options.HeldOutSource = None,
    reference: shared_options.HeldOutReference = None,
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
    ] = DEFAULTS.tolerance,
    tokenize: score_options.Tokenize = DEFAULTS.tokenize,
    beam: shared_options.Beam = None,
    png: shared_options.Png = None,
    svg: shared_options.Svg = None,
    theme: shared_options.Theme = "light",
    weights: shared_options.Weights = "model",
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
    """Score every head by what its removal costs in BLEU.

    The sentences are translated once with the whole model, once without each head and once without
    each layer's attention, and in the end without all heads that are free to remove. A head that
    costs nothing alone may cost much together with others that could have taken its place.

    Examples:

        regard heads runs/travel --sentences 200 --beam 1
        regard heads runs/mine --source test.en --reference test.de --part cross --png heads.png
    """
    files = figure_files(png, svg)
    parts: tuple[Part, ...] = PARTS if part == "all" else (part,)
    sources, references = (lines[:sentences] for lines in read_eval_data(model, source, reference))
    settings = HeadImportanceSettings(
        parts=parts,
        tolerance=tolerance,
        tokenize=score_options.run_tokenizer(model, tokenize, references),
    )
    translator = load(model, device=device, weights=weights, engine="native")
    search = search_settings(translator.settings, beam=beam)
    with progress_bar() as progress:
        task = progress.add_task("removing heads")
        found = measure_head_importance(
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
    save_figures(files, lambda: plot_head_costs(cost_grids(found), theme=theme))


def cost_grids(found: HeadImportance) -> dict[str, Tensor]:
    """The costs of the heads of each part: each (L, H)."""
    named = {part: [one for one in found.heads if one.part == part] for part in PARTS}
    return {
        part: torch.tensor([one.cost for one in heads]).view(heads[-1].layer + 1, -1)  # (L, H)
        for part, heads in named.items()
        if heads
    }


def _print(model: str, found: HeadImportance) -> None:
    score = found.baseline
    out.print(
        f"[bold]{escape(model)}[/bold] on {found.sentences:,} sentences: BLEU {score.value:.2f}"
        f"{_format_interval(score)}  [dim]{escape(score.signature)}[/dim]"
    )
    out.print(_table(found))
    out.print(SIGNIFICANCE_NOTE)
    costliest = max(found.heads, key=lambda one: one.cost)
    out.print(
        f"dearest: {costliest.part} {costliest.layer}.{costliest.head}, without which "
        f"{costliest.changed:.0%} of the translations are others, for {costliest.cost:.2f} BLEU"
    )
    free, heads = len(found.free), len(found.heads)
    out.print(
        f"free to remove, each alone, for at most {found.tolerance:g} BLEU: {free} of {heads} heads"
    )
    if found.without_free is not None:
        gained = found.without_free - score.value
        out.print(f"without these {free} at once: BLEU {found.without_free:.2f} ({gained:+.2f})")


def _table(found: HeadImportance) -> Table:
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


def _cell(one: AblationResult, peak: float) -> Text:
    """What is lost; a head on a ground that is the brighter the more it is, if there is colour."""
    shown = f"{one.cost:6.2f}{'*' if one.p_value < SIGNIFICANCE_LEVEL else ' '}"
    if one.head is None or out.color_system not in ("256", "truecolor"):
        return Text(shown)
    return Text(shown, cell_style(max(one.cost, 0) / peak if peak > 0 else 0))


def _format_interval(score: Score) -> str:
    return f" ({score.interval.low:.2f} … {score.interval.high:.2f})" if score.interval else ""
