"""`regard look`: what a model attends to in a sentence, or measurements of all its heads."""

from collections.abc import Mapping, Sequence
from os.path import exists, sep
from pathlib import Path
from typing import Any, Literal

from typer import Argument, Context

from regard.cli.display import run_measurements
from regard.cli.display.console import note, out, print_json
from regard.cli.display.figures import check_suffix, figure_files, save_figures
from regard.cli.display.looks import LookFigures, save_look_page, show_look, track_ablations
from regard.cli.options import shared_options
from regard.cli.options.generated import option_spellings
from regard.cli.options.intervention_options import InterventionOptions
from regard.cli.options.shared_options import (
    PACKAGED_MODEL,
    check_options,
    flag,
    note_packaged_model,
    option,
    require_options,
)
from regard.decoding.settings import search_settings
from regard.engines.native.attention_capture import PlotKind
from regard.errors import RunError, SettingsError
from regard.inspection.plots.figure import ThemeName
from regard.inspection.recording.attention_map import PARTS
from regard.pipelines.load import load_for_look
from regard.recipes.paths import require_folder, run_spec
from regard.settings import quoted
from regard.tasks.families.options import WITHOUT_MODEL, OptionRule, check_n_best
from regard.tasks.translation.measurements import head_importance
from regard.tasks.translation.measurements.evaluation import (
    read_eval_data,
    read_sources,
    run_tokenizer,
)
from regard.tasks.translation.pipeline import Translator
from regard.text.word_units import has_unspaced

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


PIPELINE_OPTIONS = "model sentence without flatten png svg theme html weights adapter device json"
"""Parameters that apply to runs of all tasks."""


def command(
    context: Context,
    model: str = Argument(
        PACKAGED_MODEL,
        metavar="[MODEL]",
        help=f"A run's folder, such as runs/travel; {WITHOUT_MODEL}",
        show_default=False,
    ),
    sentence: list[str] | None = Argument(
        None,
        help="A sentence to translate and look into; not with --heads, --distances or --positions. "
        "For a forecaster: the numbers of a series, or a table; for a captioner: a picture; for a "
        "language model: a text; for a masked language model: a text, with or without [MASK], or a "
        "pair of texts; for a classifier: a text or a picture. Without MODEL: more than one word.",
    ),
    heads: bool = flag(
        "--heads",
        "Score every head by the BLEU that its removal costs. Sentences are translated "
        "with the whole model, without each head, without each layer's attention, and without "
        "all heads that are free to remove.",
    ),
    distances: bool = flag(
        "--distances",
        "Show how far away each head looks, and at how many words at once. Distances are measured "
        "from the diagonal in cross attention, from the attending word in the encoder, and from "
        "the next word in the decoder.",
    ),
    positions: bool = flag(
        "--positions",
        "Show the model's position encodings, and the cosines between the vectors of "
        "positions that are 1, 2, 4 … apart, on average.",
    ),
    part: Literal["encoder", "decoder", "cross", "all"] | None = option(
        "cross: attention from the translation to the sentence (default); encoder: within the "
        "sentence; decoder: within the translation; all: only with --heads, its default."
    ),
    layer: shared_options.Layer = None,
    head: shared_options.Head = None,
    every: bool = flag(
        "--all",
        "Show every layer and head: a grid in the picture. Not for pictures; use --layer.",
    ),
    pieces: bool = flag("--pieces", "Show the model's tokens instead of whole words."),
    without: list[str] | None = option(
        "Silence a head, such as 3.5 or encoder.3.5, or all heads of a layer, such as 3, "
        "and show how the translation changes; may be repeated.",
        metavar=HEAD_METAVAR,
    ),
    flatten: list[str] | None = option(
        "Make a head attend to everything equally instead; may be repeated.", metavar=HEAD_METAVAR
    ),
    force: list[str] | None = option(
        "Make a word of the translation attend to only one word of the sentence. A word is given "
        "by its number, from 0, or by itself if it occurs once; may be repeated.",
        metavar="TARGET=SOURCE",
    ),
    kind: PlotKind | None = option(
        "What --png and --svg draw. map (default): a cell for each pair of words; grid: the map "
        "of every head; arcs: lines between words; focus: what each word looked at most; "
        "distance: how far each head looks; tree: the hypotheses of the search.",
        "--as",
    ),
    png: shared_options.Png = None,
    svg: shared_options.Svg = None,
    theme: shared_options.Theme = "light",
    html: Path | None = option(
        "Write everything as one interactive page, which needs no server and no network.",
        metavar="FILE",
    ),
    number: int = option(
        "The sentence to look into, from 0, if there are several.",
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
        "For a language model: continue the text by at most N tokens, and look into those too.",
        min=0,
        metavar="N",
    ),
    source: shared_options.HeldOutSource = None,
    reference: shared_options.HeldOutReference = None,
    limit: int | None = option(
        "Measure on the first N sentences; by default --heads uses all, --distances 100.",
        min=1,
        metavar="N",
    ),
    tolerance: float = option(
        "With --heads: a head that costs no more BLEU than this is free to remove.",
        default=HEAD_DEFAULTS.tolerance,
        min=0,
    ),
    tokenize: shared_options.Tokenize = HEAD_DEFAULTS.tokenize,
    length: int = option("With --positions: how many positions to look at.", default=64, min=2),
    weights: shared_options.Weights = "model",
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
    """The map in the terminal has a row for each word of the translation and a column for each word
    of the sentence; a brighter cell means more attention. --png and --svg draw the same. With
    --without, --flatten or --force the attention is changed: the map is that of the changed
    translation, and the words that it lost and gained are marked.

    Examples:

        regard look "Elle ne la visite pas."
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
        regard look runs/mnist-vit digit.png --html look.html
    """
    files = figure_files(png, svg)
    check_suffix("--html", html, ".html")
    if not (sentence or heads or distances or positions or exists(model)):
        _take_for_sentence(context)
        model, sentence = context.params["model"], context.params["sentence"]
    note_packaged_model(context)
    pipeline = load_for_look(model, device=device, weights=weights, adapter=adapter)
    known = f"{PIPELINE_OPTIONS} {pipeline.look_options}"
    known += " part" if part == pipeline.look_part else ""  # the one that is shown anyway
    require_options(context, known, f"the task of {model} is {run_spec(Path(model)).name}")
    _check_options(context, kind, files)
    check_n_best(context.params, option_spellings(context).__getitem__)
    if heads or distances or positions:
        _show_measured(_measure(pipeline, context.params), files, theme, as_json=json)
        return
    if part == "all":
        raise SettingsError("--part all can only be used with --heads")
    keeps_tree = tree or kind == "tree" or html is not None or json
    changed = InterventionOptions(without or (), flatten or (), force or ())
    search: dict[str, Any] = {"max_tokens": max_tokens, "number": number, "split": split}
    search |= {"tree": keeps_tree or None, "beam": beam, "n_best": n_best, "track": track_ablations}
    view = {"part": part, "layer": layer, "head": head, "tree": tree or None}
    view |= {"every": every or None, "pieces": pieces or None}
    own = pipeline.look_options
    look = pipeline.look(
        sentence or (),
        changes=changed.requests(part or pipeline.look_part),
        **_given(search, own),
    )
    figures = LookFigures(files, {"theme": theme, **_given({"kind": kind}, own)})
    show_look(look, figures, _given(view, own), changes=str(changed), as_json=json)
    save_look_page(look, html, model)


def _take_for_sentence(context: Context) -> None:
    """If MODEL is the only argument and not a folder, use it as the sentence, as if MODEL had been
    left out. A single word is an error, as it may be a mistyped folder, unless its script has no
    spaces.
    """
    argument: str = context.params["model"]
    if sep in argument and argument.split() == [argument]:
        require_folder(Path(argument))
    if argument.split() == [argument] and not has_unspaced(argument):
        raise RunError(
            f"{argument}: no such folder; one word is read as MODEL: to look into a word, give a "
            f"run as well, or put a space after it, as in regard look {quoted(argument + ' ')}"
        )
    given, missing = (context.get_parameter_source(name) for name in ("model", "sentence"))
    context.params |= {"model": PACKAGED_MODEL, "sentence": [context.params["model"]]}
    for name, source in (("model", missing), ("sentence", given)):
        if source is not None:
            context.set_parameter_source(name, source)


def _check_options(context: Context, kind: PlotKind | None, files: Sequence[Path]) -> None:
    """Raise an error if an option was given that has no effect beside the others."""
    check_options(context, OPTION_RULES)
    if kind is not None and not files:
        raise SettingsError(f"--as {kind} needs a file to draw: give --png or --svg")


def _given(options: Mapping[str, Any], known: str) -> dict[str, Any]:
    """The given options that are known."""
    return {name: options[name] for name in known.split() if options.get(name) is not None}


def _measure(translator: Translator, given: Mapping[str, Any]) -> run_measurements.RunMeasurement:
    """The measurement of a run that the options ask for."""
    model, part = given["model"], given["part"]
    settings = search_settings(translator.settings, beam=given["beam"])
    if given["positions"]:
        return run_measurements.show_positions(translator, given["length"])
    if given["distances"]:
        if part == "all":
            raise SettingsError("--part all can only be used with --heads")
        lines = read_sources(model, given["source"], note)[: given["limit"] or DISTANCE_SENTENCES]
        answers = translator.translate(lines, settings, look=True, split=False)
        words = not given["pieces"]
        return run_measurements.show_distances(answers, part or translator.look_part, words=words)
    texts = read_eval_data(model, given["source"], given["reference"], note, limit=given["limit"])
    importance = head_importance.HeadImportanceSettings(
        parts=PARTS if part in (None, "all") else (part,),
        tolerance=given["tolerance"],
        tokenize=run_tokenizer(model, given["tokenize"], texts.references, note),
    )
    with run_measurements.AblationProgress(len(texts.sources)) as progress:
        found = head_importance.measure_head_importance(
            translator, *texts, importance, search=settings, progress=progress.report
        )
    return run_measurements.show_head_importance(model, found)


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
