"""`regard look`: what a model attends to in a sentence, or measurements of all its heads."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text
from typer import Argument, Context

from regard.cli.display import run_measurements
from regard.cli.display.console import note, out, print_json
from regard.cli.display.figures import check_suffix, figure_files, save_figures
from regard.cli.display.looks import LookFigures, save_look_page, show_look
from regard.cli.display.progress_bar import progress_bar
from regard.cli.display.tables import plain_table
from regard.cli.options import eval_options, shared_options
from regard.cli.options.eval_options import read_eval_data, read_sources
from regard.cli.options.intervention_options import InterventionOptions, render_word_diff
from regard.cli.options.shared_options import (
    OptionRule,
    check_n_best,
    check_options,
    flag,
    option,
    refuse_options,
    require_options,
)
from regard.decoding.settings import DecodingSettings, search_settings
from regard.engines.native.attention_capture import AttentionCapture, PlotKind
from regard.errors import SettingsError
from regard.inspection.plots.figure import ThemeName
from regard.inspection.plots.maps import describe_head
from regard.inspection.plots.terminal import render_tree
from regard.inspection.recording.attention_map import PARTS, Part
from regard.inspection.viewer.html_page import write_page
from regard.pipelines import head_importance
from regard.pipelines.answer import Answer
from regard.pipelines.chat.chatbot import load as load_chatbot
from regard.pipelines.contracts import Pipeline
from regard.pipelines.load import load as load_pipeline
from regard.pipelines.translator import Translator, load
from regard.pipelines.viewer_document import HeadAblation, ViewerDocument, viewer_document
from regard.recipes.paths import CHAT, TRANSLATION, run_task_name

HEAD_METAVAR = "[PART.]LAYER[.HEAD]"
HEAD_DEFAULTS = head_importance.HeadImportanceSettings()
DISTANCE_SENTENCES = 100  # sentences that --distances measures on by default
OPTION_RULES = (
    OptionRule("sentence distances positions", excludes="heads"),
    OptionRule("sentence positions", excludes="distances"),
    OptionRule("sentence part beam pieces", excludes="positions"),
    OptionRule("pieces", excludes="heads"),
    OptionRule(
        "layer head every without flatten force kind html number split tree n_best",
        needs="sentence",
    ),
    OptionRule("source limit", needs="heads distances"),
    OptionRule("reference tolerance tokenize", needs="heads"),
    OptionRule("length", needs="positions"),
    OptionRule("every", excludes="layer head", hint="--all shows every layer and head"),
)


PIPELINE_OPTIONS = "model sentence without flatten png svg theme html weights device json"
"""Parameters that a look into a run of any task has."""


class MapSelection(NamedTuple):
    """Which attention is shown, and how it is drawn: arguments of `AttentionCapture.plot`."""

    part: Part
    kind: PlotKind
    layer: int | None
    head: int | None
    words: bool
    theme: ThemeName


def command(
    context: Context,
    model: shared_options.Model,
    sentence: list[str] | None = Argument(
        None,
        help="What to translate and look into; none with --heads, --distances, --positions. Of a "
        "forecaster: the numbers of a series, or a table; of a captioner: a picture; of a language "
        "model: a text; of a masked one: a text, with [MASK] or without, or two for a pair.",
    ),
    heads: bool = flag(
        "--heads",
        "Score every head by what its removal costs in BLEU. Sentences are translated "
        "with the whole model, without each head, without each layer's attention, and without "
        "all heads that are free to remove.",
    ),
    distances: bool = flag(
        "--distances",
        "Show how far each head looks, and at how many words at once: in cross attention "
        "from the diagonal, in the encoder from the word that looks, in the decoder from the "
        "word that is to come.",
    ),
    positions: bool = flag(
        "--positions",
        "Show the model's position encodings, and the cosines between the vectors of "
        "positions that are 1, 2, 4 … apart, on the average.",
    ),
    part: Literal["encoder", "decoder", "cross", "all"] | None = option(
        "cross: the translation looking at the sentence; encoder: the sentence at itself; decoder: "
        "the translation at itself; all, with --heads. Otherwise cross, and all with --heads."
    ),
    layer: shared_options.Layer = None,
    head: shared_options.Head = None,
    every: bool = flag("--all", "Every layer and head: a grid in the picture."),
    pieces: bool = flag("--pieces", "Show the model's own tokens, not whole words."),
    without: list[str] | None = option(
        "Silence a head, such as 3.5 or encoder.3.5, or all heads of a layer, such as 3, "
        "and show what becomes of the translation; may be repeated.",
        metavar=HEAD_METAVAR,
    ),
    flatten: list[str] | None = option(
        "Let a head look at everything alike, instead; may be repeated.", metavar=HEAD_METAVAR
    ),
    force: list[str] | None = option(
        "Let a word of the translation look at one word of the sentence alone. A word is "
        "its number, from 0, or itself where it occurs once; may be repeated.",
        metavar="TARGET=SOURCE",
    ),
    kind: PlotKind | None = option(
        "What --png and --svg draw. map: a cell for each pair of words, the usual; grid: "
        "every head's; arcs: lines between words; focus: what each word looked at most; "
        "distance: how far each head looks; tree: the hypotheses of the search.",
        "--as",
    ),
    png: shared_options.Png = None,
    svg: shared_options.Svg = None,
    theme: shared_options.Theme = "light",
    html: Path | None = option(
        "Write all of it as one page that answers clicks, with no server and no network.",
        metavar="FILE",
    ),
    number: int = option(
        "Which sentence to look into, from 0, where there are several.",
        "--sentence",
        default=0,
        min=0,
        metavar="N",
    ),
    split: shared_options.Split = None,
    tree: bool = flag("--tree", "Show the hypotheses that the search went through."),
    n_best: int | None = option("Show the N best translations.", min=1, metavar="N"),
    beam: shared_options.Beam = None,
    max_tokens: int | None = option(
        "Of a language model: continue the text by at most N tokens, and look into those too.",
        min=0,
        metavar="N",
    ),
    source: shared_options.HeldOutSource = None,
    reference: shared_options.HeldOutReference = None,
    limit: int | None = option(
        "Measure on the first N sentences; otherwise --heads on all, --distances on 100.",
        min=1,
        metavar="N",
    ),
    tolerance: float = option(
        "With --heads: one that costs no more BLEU than this is free to remove.",
        default=HEAD_DEFAULTS.tolerance,
        min=0,
    ),
    tokenize: eval_options.Tokenize = HEAD_DEFAULTS.tokenize,
    length: int = option("With --positions: how many positions to look at.", default=64, min=2),
    weights: shared_options.Weights = "model",
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
    """The map in the terminal has a row for each word of the translation and a column for each word
    of the sentence: the brighter, the more that word was looked at. --png and --svg draw the same.
    With --without, --flatten or --force the attention is changed, and the map is that of the
    changed translation; what it lost and gained in words is marked.

    Examples:

        regard look runs/travel "Jane visite l'Afrique en septembre."
        regard look runs/travel "Jane visite l'Afrique en septembre." --all --png heads.png
        regard look runs/travel "Jane visite l'Afrique en septembre." --force Africa=septembre
        regard look runs/travel "Jane visite l'Afrique en septembre." --html look.html
        regard look runs/travel --heads --limit 200 --beam 1
        regard look runs/travel --distances --part encoder --png distances.png
        regard look runs/travel --positions --png positions.png
        regard look runs/fibonacci-attention 1 1 2 3 5 8 --png weights.png
        regard look runs/flickr8k photo.jpg --png words.png --html look.html
        regard look runs/shakespeare "ROMEO: I will" --max-tokens 20 --html look.html
        regard look runs/bert "It is [MASK]." "I know." --all
    """
    files = figure_files(png, svg)
    check_suffix("--html", html, ".html")
    if (task := run_task_name(Path(model))) not in (TRANSLATION, CHAT):
        pipeline: Pipeline = load_pipeline(model, device=device, weights=weights)
        known = f"{PIPELINE_OPTIONS} {pipeline.look_options}"
        require_options(context, known, f"the task of {model} is {task}")
        _check_options(context, kind, files)
        changed = InterventionOptions(without or (), flatten or ())
        changes, limits = changed.heads(pipeline.look_part), _given(max_tokens=max_tokens)
        look_of_task = pipeline.look(sentence or (), changes=changes, **limits)
        view = _given(layer=layer, head=head, every=every or None, pieces=pieces or None)
        figures = LookFigures(files, {"theme": theme, **_given(kind=kind)})
        show_look(look_of_task, figures, view, changes=str(changed), as_json=json)
        save_look_page(look_of_task, html, model)
        return
    _check_options(context, kind, files)
    refuse_options(context, "max_tokens", f"{model}, whose task is {task}")
    check_n_best(n_best, beam)
    if part == "all" and not heads:
        raise SettingsError("--part all goes with --heads")
    one_part: Part = "cross" if part is None or part == "all" else part
    if not (sentence or heads or distances or positions):
        raise SettingsError("give a SENTENCE, or one of --heads, --distances, --positions")
    texts = None
    if heads:
        texts = read_eval_data(model, source, reference, limit)
        tokenize = eval_options.run_tokenizer(model, tokenize, texts.references)
    open_run = load_chatbot if task == CHAT else load
    translator = open_run(model, device=device, weights=weights, engine="native")
    settings = search_settings(translator.settings, beam=beam, n_best=n_best)
    if sentence:
        kind = kind or ("grid" if every else "map")
        selection = MapSelection(one_part, kind, layer, head, not pieces, theme)
        chosen = _select_sentence(translator, " ".join(sentence), number, split=split)
        options = InterventionOptions(without or (), flatten or (), force or ())
        look = SentenceLook(translator, settings, selection, options, every)
        look.show(chosen, tree=tree, json=json, html=html, files=files)
        return
    if texts is not None:
        parts = PARTS if part is None or part == "all" else (part,)
        importance = head_importance.HeadImportanceSettings(
            parts=parts, tolerance=tolerance, tokenize=tokenize
        )
        with run_measurements.AblationProgress(len(texts.sources)) as progress:
            found = head_importance.measure_head_importance(
                translator, *texts, importance, search=settings, progress=progress.report
            )
        measured = run_measurements.show_head_importance(model, found)
    elif distances:
        lines = read_sources(model, source)[: limit or DISTANCE_SENTENCES]
        answers = translator.translate(lines, settings, look=True, split=False)
        measured = run_measurements.show_distances(answers, one_part, words=not pieces)
    else:
        measured = run_measurements.show_positions(translator, length)
    _show_measured(measured, files, theme, as_json=json)


def _check_options(context: Context, kind: PlotKind | None, files: Sequence[Path]) -> None:
    """Raise an error if an option was given that has no effect beside the others."""
    check_options(context, OPTION_RULES)
    if kind is not None and not files:
        raise SettingsError(f"--as {kind} says what to draw: give it a file with --png or --svg")


def _given(**options: Any) -> dict[str, Any]:
    """The options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def _show_measured(
    measured: run_measurements.RunMeasurement,
    files: Sequence[Path],
    theme: ThemeName,
    *,
    as_json: bool,
) -> None:
    """Print measurements of a model, and draw them."""
    if as_json:
        print_json(measured.document)
    else:
        for row in measured.rows:
            out.print(row)
    save_figures(files, lambda: measured.draw(theme))


class SentenceLook(NamedTuple):
    """Shows the translation of a sentence with its attention, as the options say."""

    translator: Translator
    settings: DecodingSettings
    selection: MapSelection
    interventions: InterventionOptions
    every: bool

    def show(
        self, sentence: str, *, tree: bool, json: bool, html: Path | None, files: Sequence[Path]
    ) -> None:
        """Print the translation and its maps, and write the files."""
        selection, requests = self.selection, self.interventions.requests(self.selection.part)
        needs_tree = tree or selection.kind == "tree" or html is not None or json
        answer = self.translator.look(
            sentence, self.settings, changes=requests, tree=needs_tree, split=False
        )
        for message in answer.notes:
            note(message)
        capture = answer.attention
        if capture is None:
            raise SettingsError("the sentence is blank: there is nothing to look at")
        # first: it refuses a layer or head that is not there
        maps = self._render_maps(capture, required=not needs_tree)
        if json:
            print_json(self._document(answer))
        else:
            _print_texts(answer, self.interventions)
            for shown in maps:
                out.print(shown)
            if not maps:
                note("this model does not attend: there is no map to show")
            if tree and capture.tree is not None:
                out.print(render_tree(capture.tree, capture.tree_pieces))
        save_figures(files, lambda: capture.plot(**selection._asdict()))
        if html is not None:
            # a page of a changed translation has no ablations: they would combine with the changes
            ablations = [] if requests else self._ablate_each_head(answer)
            write_page(html, self._document(answer, ablations))
            note(f"wrote {html}")

    def _render_maps(self, capture: AttentionCapture, *, required: bool) -> list[RenderableType]:
        """The maps to print, with their titles; unless `required`, a model may have none."""
        if not capture.parts and not required:
            return []
        part, words = self.selection.part, self.selection.words
        attention = capture.attention(part, words=words)
        if not self.every:
            layer, head = self.selection.layer, self.selection.head
            shown = capture.show(part, layer=layer, head=head, words=words)
            return [f"[dim]{describe_head(attention, layer, head)}[/dim]", shown]
        return [
            line
            for layer, head in product(*map(range, attention.weights.shape[:2]))
            for line in (
                f"[dim]layer {layer}, head {head}[/dim]",
                capture.show(part, layer=layer, head=head, words=words),
            )
        ]

    def _document(self, answer: Answer, without: Sequence[HeadAblation] = ()) -> ViewerDocument:
        name = self.translator.runs[0].folder.path.resolve().name
        return viewer_document(answer, model=name, without=without)

    def _ablate_each_head(self, answer: Answer) -> list[HeadAblation]:
        """The translations without each head, which the page shows when a head is clicked."""
        ablations = head_importance.ablate_each_head(self.translator, answer, self.settings)
        total = len(head_importance.list_answer_ablations(answer))
        with progress_bar() as progress:
            return list(progress.track(ablations, total=total, description="silencing heads"))


def _select_sentence(translator: Translator, text: str, number: int, *, split: bool | None) -> str:
    """The sentence of a text to look into; a note says how many there are."""
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


def _print_texts(answer: Answer, interventions: InterventionOptions) -> None:
    """Print the translation; with interventions the one before too, and their difference."""
    plain = answer.before or answer
    out.print(f"[bold]{escape(plain.text)}[/bold]")
    if answer.before is not None:
        marked = render_word_diff(plain.text, answer.text, coloured=out.color_system is not None)
        same = Text(" (the same words)", "dim") if plain.text == answer.text else Text()
        out.print(Text.assemble((f"{interventions}: ", "dim"), marked, same))
    if len(answer.candidates) > 1:
        rows = [(f"{one.score:.3f}", escape(one.text)) for one in answer.candidates]
        out.print(plain_table("score", "of the n best", right=("score",), rows=rows))
