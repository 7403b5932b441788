"""`regard distances`."""

from typing import Annotated

import typer

from regard.cli.display.console import out, print_json
from regard.cli.display.figures import figure_files, save_figures
from regard.cli.display.tables import plain_table
from regard.cli.options import shared_options
from regard.cli.options.eval_data import read_eval_data
from regard.corpora.readers.pair_files import read_lines
from regard.decoding.search_options import search_settings
from regard.errors import SettingsError
from regard.inspection.attention_distance import HeadDistances, measure_distances
from regard.inspection.plots.head_distances import plot_distances
from regard.inspection.recording.attention_map import Part
from regard.pipelines.translator import load

app = typer.Typer()

SHOWN_DISTANCES = range(-2, 3)
"""Distances that the table shows."""


@app.command()
def command(
    model: shared_options.Model,
    source: shared_options.HeldOutSource = None,
    part: Annotated[Part, typer.Option(help="The part of the model whose heads are measured.")] = (
        "cross"
    ),
    sentences: Annotated[
        int, typer.Option(min=1, metavar="N", help="Measure on the first N sentences.")
    ] = 100,
    pieces: Annotated[
        bool, typer.Option("--pieces", help="Count in the model's own tokens, not in words.")
    ] = False,
    png: shared_options.Png = None,
    svg: shared_options.Svg = None,
    theme: shared_options.Theme = "light",
    beam: shared_options.Beam = None,
    weights: shared_options.Weights = "model",
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
    """Show how far each head looks, and at how many words at once.

    The sentences are translated, and what every head looks at is counted by its distance: in cross
    attention from the diagonal, in the encoder from the word that looks, in the decoder from the
    word that is to come. --png and --svg draw it.

    Examples:

        regard distances runs/travel --part encoder --png distances.png
        regard distances runs/mine --source letters.en --sentences 20
    """
    files = figure_files(png, svg)
    lines = (
        read_eval_data(model, None, None).sources if source is None else list(read_lines(source))
    )
    translator = load(model, device=device, weights=weights, engine="native")
    settings = search_settings(translator.settings, beam=beam)
    answers = translator.translate(lines[:sentences], settings, look=True, split=False)
    looks = [answer.attention for answer in answers if answer.attention is not None]
    if not looks:
        raise SettingsError("all sentences are blank: there is nothing to look at")
    attentions = [look.attention(part, words=not pieces) for look in looks]
    found = measure_distances(attentions)
    if json:
        print_json(_to_json(found))
    else:
        _print_table(found)
    save_figures(files, lambda: plot_distances(attentions, theme=theme))


def _print_table(found: HeadDistances) -> None:
    """A line for each head."""
    distance_columns = [f"{distance:+d}" if distance else "0" for distance in SHOWN_DISTANCES]
    title = f"{found.part} attention: how far away, at how many at once, share by distance"
    numbers = ("away", "at once", *distance_columns)
    table = plain_table("layer.head", *numbers, title=title, right=numbers)
    middle = found.shares.shape[-1] // 2
    layers, heads = found.mean.shape
    for layer in range(layers):
        for head in range(heads):
            shares = [f"{found.shares[layer, head, middle + far]:.0%}" for far in SHOWN_DISTANCES]
            away, at_once = (f"{of[layer, head]:.2f}" for of in (found.mean, found.spread))
            table.add_row(f"{layer}.{head}", away, at_once, *shares)
    out.print(table)


def _to_json(found: HeadDistances) -> dict[str, object]:
    return {
        "part": found.part,
        "mean": found.mean.tolist(),
        "spread": found.spread.tolist(),
        "shares": found.shares.tolist(),
    }
