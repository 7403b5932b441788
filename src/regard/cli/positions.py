"""`regard positions`."""

from typing import Annotated

import typer
from rich.markup import escape

from regard.cli import options
from regard.cli.console import out, print_json
from regard.cli.pictures import draw_all, name_pictures
from regard.cli.tables import plain_table
from regard.inspection.plot_positions import plot_positions
from regard.inspection.positions import Encoding, fall, read_positions
from regard.serving.translator import load

app = typer.Typer()

APART = (1, 2, 4, 8, 16, 32)
"""Distances that the table shows."""


@app.command()
def command(
    model: options.Model,
    length: Annotated[int, typer.Option(min=2, help="How many positions to look at.")] = 64,
    png: options.Png = None,
    svg: options.Svg = None,
    theme: options.Theme = "light",
    weights: options.Weights = "model",
    json: options.Json = False,
) -> None:
    """Show what a model is told about positions, and how alike two of them are.

    Each line of the table is an encoding that the model has: sinusoid or learned vectors that are
    added to words, learned vectors of distances (relative), or angles by which queries and keys are
    turned (rotary). The numbers are cosines between the vectors of positions that are 1, 2, 4 …
    apart, on the average. --png and --svg draw the vectors themselves too.

    Example:

        regard positions runs/travel --png positions.png
    """
    files = name_pictures(png, svg)
    translator = load(model, device="cpu", weights=weights, engine="native")
    encodings = read_positions(translator.runs[0].model, length)
    if json:
        print_json([_plain(encoding) for encoding in encodings])
    else:
        _print_table(encodings)
    draw_all(files, lambda: plot_positions(encodings, theme=theme))


def _print_table(encodings: tuple[Encoding, ...]) -> None:
    """How alike vectors are that stand so far apart."""
    columns = tuple(map(str, APART))
    table = plain_table(
        "kind",
        "where",
        "vectors",
        *columns,
        title="mean cosine of two that are so far apart",
        right=("vectors", *columns),
    )
    for encoding in encodings:
        mean = fall(encoding.similarity()).mean
        alike = [f"{mean[far]:.2f}" if far < len(mean) else "" for far in APART]
        size = "×".join(map(str, encoding.vectors.shape))
        table.add_row(encoding.kind, escape(", ".join(encoding.where)), size, *alike)
    out.print(table)


def _plain(encoding: Encoding) -> dict[str, object]:
    return {
        "kind": encoding.kind,
        "where": encoding.where,
        "places": encoding.places.tolist(),
        "vectors": encoding.vectors.tolist(),
        "cosine_by_distance": fall(encoding.similarity()).mean.tolist(),
    }
