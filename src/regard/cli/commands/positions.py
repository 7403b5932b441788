"""`regard positions`."""

from typing import Annotated

import typer
from rich.markup import escape

from regard.cli.display.console import out, print_json
from regard.cli.display.figures import figure_files, save_figures
from regard.cli.display.tables import plain_table
from regard.cli.options import shared_options
from regard.inspection.plots.positions import plot_positions
from regard.inspection.position_encodings import (
    PositionEncoding,
    read_positions,
    similarity_by_distance,
)
from regard.pipelines.translator import load

app = typer.Typer()

SHOWN_OFFSETS = (1, 2, 4, 8, 16, 32)
"""Distances that the table shows."""


@app.command()
def command(
    model: shared_options.Model,
    length: Annotated[int, typer.Option(min=2, help="How many positions to look at.")] = 64,
    png: shared_options.Png = None,
    svg: shared_options.Svg = None,
    theme: shared_options.Theme = "light",
    weights: shared_options.Weights = "model",
    json: shared_options.Json = False,
) -> None:
    """Show what a model is told about positions, and how alike two of them are.

    Each line of the table is an encoding that the model has: sinusoid or learned vectors that are
    added to words, learned vectors of distances (relative), or angles by which queries and keys are
    turned (rotary). The numbers are cosines between the vectors of positions that are 1, 2, 4 …
    apart, on the average. --png and --svg draw the vectors themselves too.

    Example:

        regard positions runs/travel --png positions.png
    """
    files = figure_files(png, svg)
    translator = load(model, device="cpu", weights=weights, engine="native")
    encodings = read_positions(translator.runs[0].model, length)
    if json:
        print_json([_to_json(encoding) for encoding in encodings])
    else:
        _print_table(encodings)
    save_figures(files, lambda: plot_positions(encodings, theme=theme))


def _print_table(encodings: tuple[PositionEncoding, ...]) -> None:
    """How alike vectors are that stand so far apart."""
    columns = tuple(map(str, SHOWN_OFFSETS))
    table = plain_table(
        "kind",
        "where",
        "vectors",
        *columns,
        title="mean cosine of two that are so far apart",
        right=("vectors", *columns),
    )
    for encoding in encodings:
        mean = similarity_by_distance(encoding.similarity()).mean
        cosines = [f"{mean[far]:.2f}" if far < len(mean) else "" for far in SHOWN_OFFSETS]
        size = "×".join(map(str, encoding.vectors.shape))
        table.add_row(encoding.kind, escape(", ".join(encoding.where)), size, *cosines)
    out.print(table)


def _to_json(encoding: PositionEncoding) -> dict[str, object]:
    return {
        "kind": encoding.kind,
        "where": encoding.where,
        "places": encoding.places.tolist(),
        "vectors": encoding.vectors.tolist(),
        "cosine_by_distance": similarity_by_distance(encoding.similarity()).mean.tolist(),
    }
