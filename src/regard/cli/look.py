"""`regard look`."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.markup import escape
from rich.text import Text

from regard.cli import options
from regard.cli.bars import progress_bar
from regard.cli.console import note, out, print_json
from regard.cli.pictures import check_ending, draw_all, name_pictures
from regard.cli.tables import plain_table
from regard.cli.wishes import Asked, mark_difference
from regard.decoding.settings import DecodingSettings
from regard.errors import SettingsError
from regard.inspection.document import LookDocument, Without, look_document
from regard.inspection.look import Kind, Look
from regard.inspection.page import write_page
from regard.inspection.plot_words import name_place
from regard.inspection.record import Part
from regard.inspection.terminal_tree import show_tree
from regard.serving.answer import Answer
from regard.serving.searching import search_settings
from regard.serving.translator import Translator, load
from regard.serving.without import num_silenced, silence_each

app = typer.Typer()

PLACE = "[PART.]LAYER[.HEAD]"


class View(NamedTuple):
    """What of the attention is shown."""

    part: Part
    layer: int | None
    head: int | None
    every: bool
    words: bool


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
            metavar=PLACE,
            help="Silence a head, such as 3.5 or encoder.3.5, or all heads of a layer, such as 3, "
            "and show what becomes of the translation; may be repeated.",
        ),
    ] = None,
    flatten: Annotated[
        list[str] | None,
        typer.Option(
            metavar=PLACE, help="Let a head look at everything alike, instead; may be repeated."
        ),
    ] = None,
    force: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET=SOURCE",
            help="Let a word of the translation look at one word of the sentence alone. A word is "
            "its number, from 0, or itself where it occurs once; may be repeated.",
        ),
    ] = None,
    kind: Annotated[
        Kind | None,
        typer.Option(
            "--as",
            help="What --png and --svg draw. map: a cell for each pair of words, the usual; grid: "
            "every head's; arcs: lines between words; focus: what each word looked at most; "
            "distance: how far each head looks; tree: the hypotheses of the search.",
        ),
    ] = None,
    png: options.Png = None,
    svg: options.Svg = None,
    theme: options.Theme = "light",
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write all of it as one page that answers clicks, with no server and no network.",
        ),
    ] = None,
    number: Annotated[
        int,
        typer.Option(
            "--sentence",
            min=0,
            metavar="N",
            help="Which sentence to look into, from 0, where there are several.",
        ),
    ] = 0,
    split: options.Split = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Show the hypotheses that the search went through.")
    ] = False,
    n_best: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Show the N best translations.")
    ] = None,
    beam: options.Beam = None,
    weights: options.Weights = "model",
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Show what a model attends to when it translates a sentence.

    The map in the terminal has a row for each word of the translation and a column for each word of
    the sentence: the brighter, the more that word was looked at. --png and --svg draw the same.
    With --without, --flatten or --force the attention is changed, and the map is that of the
    changed translation; what it lost and gained in words is marked.

    Examples:

        regard look runs/travel "Jane visite l'Afrique en septembre."
        regard look runs/travel "Jane visite l'Afrique en septembre." --all --png heads.png
        regard look runs/travel "Jane visite l'Afrique en septembre." --force Africa=septembre
        regard look runs/travel "Jane visite l'Afrique en septembre." --html look.html
    """
    if every and (layer is not None or head is not None):
        raise SettingsError("--all shows every layer and head: drop --layer and --head, or --all")
    files = name_pictures(png, svg)
    if kind is not None and not files:
        raise SettingsError(f"--as {kind} says what to draw: give it a file with --png or --svg")
    kind = kind or ("grid" if every else "map")
    check_ending("--html", html, ".html")
    asked = Asked(without or (), flatten or (), force or ())
    wishes = asked.wishes(part)
    translator = load(model, device=device, weights=weights, engine="native")
    settings = search_settings(translator.settings, beam=beam, n_best=n_best)
    whole = tree or kind == "tree" or html is not None or json
    chosen = _choose(translator, sentence, number, split=split)
    answer = translator.look(chosen, settings, changes=wishes, tree=whole, split=False)
    look = _check(answer)
    view = View(part, layer, head, every, not pieces)
    if json:
        print_json(_document(translator, answer))
    else:
        _print_texts(answer, asked)
        _print_maps(look, view, needed=not whole)
        if tree and look.tree is not None:
            out.print(show_tree(look.tree, look.tree_pieces))
    draw_all(
        files,
        lambda: look.plot(part, kind=kind, layer=layer, head=head, words=not pieces, theme=theme),
    )
    if html is not None:
        # in a page of a changed translation a click could not be told from the changes made here
        outcomes = [] if wishes else _silence_each(translator, answer, settings)
        write_page(html, _document(translator, answer, outcomes))
        note(f"wrote {html}")


def _check(answer: Answer) -> Look:
    """What was attended to, if anything was; what is odd about the sentence is told."""
    for message in answer.notes:
        note(message)
    if answer.attention is None:
        raise SettingsError("the sentence is blank: there is nothing to look at")
    return answer.attention


def _choose(translator: Translator, text: str, number: int, *, split: bool | None) -> str:
    """The sentence of a text to look into; others are told of."""
    if split is False or not text.strip():
        return text
    found = translator.segment(text, split=split).lines
    if not found:
        raise SettingsError(
            f"{text!r}: there is no sentence in it: it comes back as it is; to look into it all "
            "the same give --whole-lines"
        )
    if number >= len(found):
        raise SettingsError(f"--sentence {number}: there are {len(found)}, counted from 0")
    if len(found) > 1:
        note(
            f"sentence {number} of {len(found)}, counted from 0; --sentence N shows another, "
            "--whole-lines all as one"
        )
    return found[number]


def _print_texts(answer: Answer, asked: Asked) -> None:
    """The translation; where it was changed, the one before and the changed one with its marks."""
    plain = answer.before or answer
    out.print(f"[bold]{escape(plain.text)}[/bold]")
    if answer.before is not None:
        coloured = out.color_system is not None
        marked = mark_difference(plain.text, answer.text, coloured=coloured)
        same = Text(" (the same words)", "dim") if plain.text == answer.text else Text()
        out.print(Text.assemble((f"{asked}: ", "dim"), marked, same))
    if len(answer.candidates) > 1:
        table = plain_table("score", "of the n best", right=("score",))
        for one in answer.candidates:
            table.add_row(f"{one.score:.3f}", escape(one.text))
        out.print(table)


def _print_maps(look: Look, view: View, *, needed: bool) -> None:
    """The maps; where something else is shown as well, they may be missing."""
    if not look.parts and not needed:
        note("this model does not attend: there is no map to show")
        return
    if not view.every:
        shown = look.show(view.part, layer=view.layer, head=view.head, words=view.words)
        attention = look.attention(view.part, words=view.words)
        out.print(f"[dim]{name_place(attention, view.layer, view.head)}[/dim]")
        out.print(shown)
        return
    layers, heads = look.attention(view.part).layers.shape[:2]
    for layer, head in product(range(layers), range(heads)):
        out.print(f"[dim]layer {layer}, head {head}[/dim]")
        out.print(look.show(view.part, layer=layer, head=head, words=view.words))


def _document(
    translator: Translator, answer: Answer, without: Sequence[Without] = ()
) -> LookDocument:
    name = translator.runs[0].folder.path.resolve().name
    return look_document(answer, model=name, without=without)


def _silence_each(
    translator: Translator, answer: Answer, settings: DecodingSettings
) -> list[Without]:
    """The translations without each head, which the page shows when a head is clicked."""
    with progress_bar() as progress:
        return list(
            progress.track(
                silence_each(translator, answer, settings),
                total=num_silenced(answer),
                description="silencing heads",
            )
        )
