"""`regard look`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from regard.cli import options
from regard.cli.console import note, out
from regard.errors import SettingsError
from regard.inspection.changes import Silenced
from regard.inspection.look import Look
from regard.inspection.plot import save_figure
from regard.inspection.record import Part
from regard.serving.searching import search_settings
from regard.serving.translator import load

app = typer.Typer()


@app.command()
def command(
    model: options.Model,
    sentence: Annotated[str, typer.Argument(help="What to translate and look into.")],
    part: Annotated[
        Part,
        typer.Option(
            help="cross: the translation looking at the sentence; encoder: the sentence at "
            "itself; decoder: the translation at itself.",
        ),
    ] = "cross",
    layer: options.Layer = None,
    head: options.Head = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every layer and head: a grid in the picture.")
    ] = False,
    pieces: Annotated[
        bool, typer.Option("--pieces", help="Show the model's own tokens, not whole words.")
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LAYER.HEAD",
            help="Silence this head of the part, or, given LAYER alone, all its heads, and show "
            "what becomes of the translation; may be repeated.",
        ),
    ] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a PNG.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw an SVG.")] = None,
    beam: options.Beam = None,
    weights: options.Weights = "model",
    device: options.Device = "auto",
) -> None:
    """Show what a model attends to when it translates a sentence.

    The map in the terminal has a row for each word of the translation and a column for each word of
    the sentence: the brighter, the more that word was looked at. --png and --svg draw the same.

    Examples:

        regard look runs/travel "Jane visite l'Afrique en septembre."
        regard look runs/travel "Jane visite l'Afrique en septembre." --all --png heads.png
    """
    if every and (layer is not None or head is not None):
        raise SettingsError("--all shows every layer and head: drop --layer and --head, or --all")
    pictures = _pictures(png, svg)
    silenced = [_silenced(asked, part) for asked in without or ()]
    translator = load(model, device=device, weights=weights)
    settings = search_settings(translator.settings, beam=beam)
    [answer] = translator.translate([sentence], settings, look=True)
    for message in answer.notes:
        note(message)
    if answer.attention is None:
        raise SettingsError("the sentence is blank: there is nothing to look at")
    out.print(f"[bold]{escape(answer.text)}[/bold]")
    look = answer.attention
    if silenced:
        [changed] = translator.translate([sentence], settings, look=True, changes=silenced)
        named = ", ".join(without or ())
        out.print(f"[dim]without {named}:[/dim] [bold]{escape(changed.text)}[/bold]")
        look = changed.attention or look
    _show(look, part, layer, head, every=every, words=not pieces)
    for file in pictures:
        figure = look.plot(part, layer=layer, head=head, words=not pieces, grid=every)
        save_figure(figure, file)
        note(f"drew {file}")


def _pictures(png: Path | None, svg: Path | None) -> list[Path]:
    """The files to draw, whose names say how."""
    for file, suffix in ((png, ".png"), (svg, ".svg")):
        if file is not None and file.suffix != suffix:
            raise SettingsError(f"--{suffix[1:]} {file}: the file's name should end in {suffix}")
    return [file for file in (png, svg) if file is not None]


def _show(
    look: Look, part: Part, layer: int | None, head: int | None, *, every: bool, words: bool
) -> None:
    if not every:
        out.print(look.show(part, layer=layer, head=head, words=words))
        return
    layers, heads = look.attention(part).layers.shape[:2]
    for one in range(layers):
        for other in range(heads):
            out.print(f"[dim]layer {one}, head {other}[/dim]")
            out.print(look.show(part, layer=one, head=other, words=words))


def _silenced(asked: str, part: Part) -> Silenced:
    """`3.5` -> head 5 of layer 3; `3` -> all of layer 3."""
    numbers = asked.split(".")
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise SettingsError(f"--without {asked}: expected LAYER.HEAD or LAYER, such as 3.5")
    head = int(numbers[1]) if len(numbers) == 2 else None
    return Silenced(part, int(numbers[0]), head)
