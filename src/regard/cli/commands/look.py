"""`regard look`."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.markup import escape
from rich.text import Text

from regard.cli.display.console import note, out, print_json
from regard.cli.display.figures import check_suffix, figure_files, save_figures
from regard.cli.display.progress_bar import progress_bar
from regard.cli.display.tables import plain_table
from regard.cli.options import shared_options
from regard.cli.options.intervention_options import InterventionOptions, render_word_diff
from regard.decoding.search_options import search_settings
from regard.decoding.settings import DecodingSettings
from regard.engines.native.attention_capture import AttentionCapture, PlotKind
from regard.errors import SettingsError
from regard.inspection.plots.terminal_tree import render_tree
from regard.inspection.plots.word_lines import describe_head
from regard.inspection.recording.attention_map import Part
from regard.inspection.viewer.html_page import write_page
from regard.pipelines.answer import Answer
from regard.pipelines.head_ablation import ablate_each_head, num_ablations
from regard.pipelines.translator import Translator, load
from regard.pipelines.viewer_document import HeadAblation, ViewerDocument, viewer_document

app = typer.Typer()

HEAD_METAVAR = "[PART.]LAYER[.HEAD]"


class MapSelection(NamedTuple):
    """What of the attention is shown."""

    part: Part
    layer: int | None
    head: int | None
    every: bool
    words: bool


@app.command()
def command(
    model: shared_options.Model,
    sentence: Annotated[str, typer.Argument(help="What to translate and look into.")],
    part: Annotated[
        Part,
        typer.Option(
            help="cross: the translation looking at the sentence; encoder: the sentence at "
            "itself; decoder: the translation at itself.",
        ),
    ] = "cross",
    layer: shared_options.Layer = None,
    head: shared_options.Head = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every layer and head: a grid in the picture.")
    ] = False,
    pieces: Annotated[
        bool, typer.Option("--pieces", help="Show the model's own tokens, not whole words.")
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar=HEAD_METAVAR,
            help="Silence a head, such as 3.5 or encoder.3.5, or all heads of a layer, such as 3, "
            "and show what becomes of the translation; may be repeated.",
        ),
    ] = None,
    flatten: Annotated[
        list[str] | None,
        typer.Option(
            metavar=HEAD_METAVAR,
            help="Let a head look at everything alike, instead; may be repeated.",
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
        PlotKind | None,
        typer.Option(
            "--as",
            help="What --png and --svg draw. map: a cell for each pair of words, the usual; grid: "
            "every head's; arcs: lines between words; focus: what each word looked at most; "
            "distance: how far each head looks; tree: the hypotheses of the search.",
        ),
    ] = None,
    png: shared_options.Png = None,
    svg: shared_options.Svg = None,
    theme: shared_options.Theme = "light",
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
    split: shared_options.Split = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Show the hypotheses that the search went through.")
    ] = False,
    n_best: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Show the N best translations.")
    ] = None,
    beam: shared_options.Beam = None,
    weights: shared_options.Weights = "model",
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
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
    files = figure_files(png, svg)
    if kind is not None and not files:
        raise SettingsError(f"--as {kind} says what to draw: give it a file with --png or --svg")
    kind = kind or ("grid" if every else "map")
    check_suffix("--html", html, ".html")
    intervention_options = InterventionOptions(without or (), flatten or (), force or ())
    requests = intervention_options.requests(part)
    translator = load(model, device=device, weights=weights, engine="native")
    settings = search_settings(translator.settings, beam=beam, n_best=n_best)
    needs_tree = tree or kind == "tree" or html is not None or json
    chosen = _select_sentence(translator, sentence, number, split=split)
    answer = translator.look(chosen, settings, changes=requests, tree=needs_tree, split=False)
    look = _require_attention(answer)
    selection = MapSelection(part, layer, head, every, not pieces)
    if json:
        print_json(_document(translator, answer))
    else:
        _print_texts(answer, intervention_options)
        _print_maps(look, selection, required=not needs_tree)
        if tree and look.tree is not None:
            out.print(render_tree(look.tree, look.tree_pieces))
    save_figures(
        files,
        lambda: look.plot(part, kind=kind, layer=layer, head=head, words=not pieces, theme=theme),
    )
    if html is not None:
        # in a page of a changed translation a click could not be told from the changes made here
        outcomes = [] if requests else _ablate_each_head(translator, answer, settings)
        write_page(html, _document(translator, answer, outcomes))
        note(f"wrote {html}")


def _require_attention(answer: Answer) -> AttentionCapture:
    """What was attended to, if anything was; what is odd about the sentence is told."""
    for message in answer.notes:
        note(message)
    if answer.attention is None:
        raise SettingsError("the sentence is blank: there is nothing to look at")
    return answer.attention


def _select_sentence(translator: Translator, text: str, number: int, *, split: bool | None) -> str:
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


def _print_texts(answer: Answer, intervention_options: InterventionOptions) -> None:
    """The translation; where it was changed, the one before and the changed one with its marks."""
    plain = answer.before or answer
    out.print(f"[bold]{escape(plain.text)}[/bold]")
    if answer.before is not None:
        coloured = out.color_system is not None
        marked = render_word_diff(plain.text, answer.text, coloured=coloured)
        same = Text(" (the same words)", "dim") if plain.text == answer.text else Text()
        out.print(Text.assemble((f"{intervention_options}: ", "dim"), marked, same))
    if len(answer.candidates) > 1:
        table = plain_table("score", "of the n best", right=("score",))
        for one in answer.candidates:
            table.add_row(f"{one.score:.3f}", escape(one.text))
        out.print(table)


def _print_maps(look: AttentionCapture, selection: MapSelection, *, required: bool) -> None:
    """The maps; where something else is shown as well, they may be missing."""
    if not look.parts and not required:
        note("this model does not attend: there is no map to show")
        return
    if not selection.every:
        shown = look.show(
            selection.part, layer=selection.layer, head=selection.head, words=selection.words
        )
        attention = look.attention(selection.part, words=selection.words)
        out.print(f"[dim]{describe_head(attention, selection.layer, selection.head)}[/dim]")
        out.print(shown)
        return
    layers, heads = look.attention(selection.part).layers.shape[:2]
    for layer, head in product(range(layers), range(heads)):
        out.print(f"[dim]layer {layer}, head {head}[/dim]")
        out.print(look.show(selection.part, layer=layer, head=head, words=selection.words))


def _document(
    translator: Translator, answer: Answer, without: Sequence[HeadAblation] = ()
) -> ViewerDocument:
    name = translator.runs[0].folder.path.resolve().name
    return viewer_document(answer, model=name, without=without)


def _ablate_each_head(
    translator: Translator, answer: Answer, settings: DecodingSettings
) -> list[HeadAblation]:
    """The translations without each head, which the page shows when a head is clicked."""
    with progress_bar() as progress:
        return list(
            progress.track(
                ablate_each_head(translator, answer, settings),
                total=num_ablations(answer),
                description="silencing heads",
            )
        )
