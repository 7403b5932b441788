"""`regard distances`."""

from typing import Annotated

import typer

from regard.cli import options
from regard.cli.console import out, print_json
from regard.cli.held_out import read_held_out
from regard.cli.pictures import draw_all, name_pictures
from regard.cli.tables import plain_table
from regard.corpora.readers import read_lines
from regard.errors import SettingsError
from regard.inspection.distances import Distances, measure_distances
from regard.inspection.plot_distances import plot_distances
from regard.inspection.record import Part
from regard.serving.searching import search_settings
from regard.serving.translator import load

app = typer.Typer()

NEAR = range(-2, 3)
"""Distances that the table shows."""


@app.command()
def command(
    model: options.Model,
    source: options.HeldOutSource = None,
    part: Annotated[Part, typer.Option(help="The part of the model whose heads are measured.")] = (
        "cross"
    ),
    sentences: Annotated[
        int, typer.Option(min=1, metavar="N", help="Measure on the first N sentences.")
    ] = 100,
    pieces: Annotated[
        bool, typer.Option("--pieces", help="Count in the model's own tokens, not in words.")
    ] = False,
    png: options.Png = None,
    svg: options.Svg = None,
    theme: options.Theme = "light",
    beam: options.Beam = None,
    weights: options.Weights = "model",
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Show how far each head looks, and at how many words at once.

    The sentences are translated, and what every head looks at is counted by its distance: in cross
    attention from the diagonal, in the encoder from the word that looks, in the decoder from the
    word that is to come. --png and --svg draw it.

    Examples:

        regard distances runs/travel --part encoder --png distances.png
        regard distances runs/mine --source letters.en --sentences 20
    """
    files = name_pictures(png, svg)
    lines = read_held_out(model, None, None).sources if source is None else list(read_lines(source))
    translator = load(model, device=device, weights=weights, engine="native")
    settings = search_settings(translator.settings, beam=beam)
    answers = translator.translate(lines[:sentences], settings, look=True, split=False)
    looks = [answer.attention for answer in answers if answer.attention is not None]
    if not looks:
        raise SettingsError("all sentences are blank: there is nothing to look at")
    attentions = [look.attention(part, words=not pieces) for look in looks]
    found = measure_distances(attentions)
    if json:
        print_json(_plain(found))
    else:
        _print_table(found)
    draw_all(files, lambda: plot_distances(attentions, theme=theme))


def _print_table(found: Distances) -> None:
    """A line for each head."""
    near = [f"{distance:+d}" if distance else "0" for distance in NEAR]
    title = f"{found.part} attention: how far away, at how many at once, share by distance"
    numbers = ("away", "at once", *near)
    table = plain_table("layer.head", *numbers, title=title, right=numbers)
    middle = found.shares.shape[-1] // 2
    layers, heads = found.mean.shape
    for layer in range(layers):
        for head in range(heads):
            shares = [f"{found.shares[layer, head, middle + far]:.0%}" for far in NEAR]
            away, at_once = (f"{of[layer, head]:.2f}" for of in (found.mean, found.spread))
            table.add_row(f"{layer}.{head}", away, at_once, *shares)
    out.print(table)


def _plain(found: Distances) -> dict[str, object]:
    return {
        "part": found.part,
        "mean": found.mean.tolist(),
        "spread": found.spread.tolist(),
        "shares": found.shares.tolist(),
    }
