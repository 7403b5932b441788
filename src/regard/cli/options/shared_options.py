"""Arguments and options that several commands share, and which options exclude each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from typer import Argument, Context, Option

from regard.cli.display.console import note
from regard.decoding.settings import MAX_BEAM
from regard.engines.ctranslate2.export_artifact import ExportPrecision
from regard.errors import SettingsError
from regard.evaluation.bleu_tokenizer import TokenizerChoice
from regard.recipes.paths import PACKAGED_RUN
from regard.tasks.translation.pipeline import EngineChoice


def option(help: str, *names: str, default: Any = None, **details: Any) -> Any:
    """An option of a command, by default None."""
    return Option(default, *names, help=help, **details)


def flag(name: str, help: str) -> Any:
    """An option without a value, by default off."""
    return Option(False, name, help=help)


Model = Annotated[str, Argument(metavar="MODEL", help="A run's folder, such as runs/travel.")]
PACKAGED_MODEL = str(PACKAGED_RUN)
"""The default of MODEL if it may be left out: see `note_packaged_model`."""
Tokenize = Annotated[
    TokenizerChoice,
    Option(
        help="The tokenizer of BLEU and TER, by sacreBLEU's names; none splits at spaces; auto: as "
        "in training, or by the target language."
    ),
]
WITHOUT_MODEL = "without it, the small French-English translator that comes with regard."
Device = Annotated[
    str, Option(metavar="NAME", help="cpu, cuda, cuda:1; auto takes a GPU if there is one.")
]
Weights = Annotated[
    str,
    Option(
        metavar="NAME",
        help="Weights of the run: model (those it uses), best, last, average, or a file.",
    ),
]
Adapter = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="An adapter to add to the weights: the NAME of one that was trained for the run, a "
        "run that trained one, or a file.",
    ),
]
Json = Annotated[bool, Option("--json", help="Answer in JSON, for a machine to read.")]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting of the recipe, such as training.steps=1000; may be repeated; the "
        "last of several values for one key is used.",
    ),
]
Out = Annotated[
    Path | None, Option("--out", "-o", metavar="DIR", help="The run's folder; default: runs/NAME.")
]
Beam = Annotated[
    int | None,
    Option(min=1, max=MAX_BEAM, help="Hypotheses kept at each step; 1 is greedy search."),
]
Temperature = Annotated[
    float | None, Option(min=0.01, help="For sampling: below 1, likely tokens become likelier.")
]
TopK = Annotated[
    int | None, Option(min=1, help="For sampling: draw only from the K likeliest tokens.")
]
TopP = Annotated[
    float | None,
    Option(min=0.0, max=1.0, help="For sampling: draw from the likeliest that sum to P."),
]
Seed = Annotated[int | None, Option(min=0, help="For sampling: the random seed.")]
SAMPLING_OPTIONS = "temperature top_k top_p seed"


def sampling_given(context: Context) -> dict[str, Any]:
    """The options of sampling that are given."""
    params = context.params
    return {name: params[name] for name in SAMPLING_OPTIONS.split() if params[name] is not None}


Engine = Annotated[
    EngineChoice,
    Option(
        help="The engine: native is this package, with torch; auto uses ctranslate2, which is "
        "faster, wherever it does the same as native."
    ),
]
InPrecision = Annotated[
    ExportPrecision,
    Option(
        "--precision",
        help="Of the weights. auto: with ctranslate2, int8 if it is close enough; with native, "
        "float32 (bfloat16 and int8 can be asked for); of an imported model float32.",
    ),
]
Split = Annotated[
    bool | None,
    Option(
        "--sentences/--whole-lines",
        help="Translate sentences of a line one by one, and keep text that is not a sentence "
        "(numbers, URLs, bullets); or give the model whole lines. By default as the run has "
        "learned from its training pairs; an imported model is given lines unchanged.",
    ),
]
Unknown = Annotated[
    str | None,
    Option(
        metavar="keep|copy|FILE",
        help="What to write for a word outside the vocabulary: keep shows ⁇; copy copies the "
        "source word that the model attends to; FILE, a dictionary (see regard align "
        "--dictionary), gives that word's translation. By default the recipe decides.",
    ),
]
Ensemble = Annotated[
    list[str] | None, Option(metavar="MODEL", help="Another model that votes; may be repeated.")
]
Layer = Annotated[int | None, Option(min=0, help="A layer, from 0; by default the average.")]
Head = Annotated[int | None, Option(min=0, help="A head, from 0; by default the average.")]
Png = Annotated[Path | None, Option(metavar="FILE", help="Draw a PNG.")]
Svg = Annotated[Path | None, Option(metavar="FILE", help="Draw an SVG.")]
Theme = Annotated[Literal["light", "dark"], Option(help="Draw on white, or on nearly black.")]
HeldOutSource = Annotated[
    str | None, Option(metavar="FILE", help="Source sentences; by default the run's test split.")
]
HeldOutReference = Annotated[
    str | None, Option(metavar="FILE", help="Their reference translations.")
]


class OptionRule(NamedTuple):
    """What some parameters of a command need or exclude; names are separated by spaces."""

    options: str
    needs: str = ""  # one of these must be given together with any of the options
    excludes: str = ""  # none of these may be given together with any of the options
    hint: str = ""  # what to do instead


def refuse_options(context: Context, options: str, what: str) -> None:
    """Raise an error if one of `options` was given, as they have no effect on `what`."""
    given = _given_options(context)
    if used := [name for name in options.split() if name in given]:
        spelling = _option_spellings(context)[used[0]]
        raise SettingsError(f"{spelling} has no effect on {what}: drop it")


def _option_spellings(context: Context) -> dict[str, str]:
    """How each parameter of a command is written."""
    return {
        str(param.name): param.opts[0] if param.opts[0].startswith("-") else param.opts[0].upper()
        for param in context.command.params
    }


def _given_options(context: Context) -> set[str]:
    """The names of the parameters that are given on the command line."""
    names = (str(param.name) for param in context.command.params)
    sources = {name: context.get_parameter_source(name) for name in names}
    # By name: click and typer each have the class of sources, and str() differs between versions.
    return {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def note_packaged_model(context: Context, name: str = "model") -> None:
    """Print a note about which model is used if the argument MODEL is missing."""
    if name not in _given_options(context):
        note(
            "no MODEL is given: this is the small French-English translator that comes with "
            f"regard, {PACKAGED_RUN}"
        )


def check_options(context: Context, rules: Sequence[OptionRule]) -> None:
    """Raise an error if an option was given that has no effect together with the others."""
    spellings = _option_spellings(context)
    given = _given_options(context)
    for options, needs, excludes, hint in rules:
        option = next((name for name in options.split() if name in given), None)
        if option is None:
            continue
        end = f"; {hint}" if hint else ""
        if needs and not given.intersection(needs.split()):
            others = " or ".join(spellings[name] for name in needs.split())
            raise SettingsError(f"{spellings[option]} can only be used with {others}{end}")
        other = next((name for name in excludes.split() if name in given), None)
        if other is not None:
            raise SettingsError(
                f"{spellings[option]} cannot be used with {spellings[other]}: drop one of them{end}"
            )


def require_options(context: Context, known: str, why: str) -> None:
    """Raise an error if an option was given that is not in `known`, names separated by spaces."""
    for name in sorted(_given_options(context) - set(known.split())):
        raise SettingsError(
            f"{_option_spellings(context)[name]} has no effect here: {why}; drop it"
        )


def check_n_best(n_best: int | None, beam: int | None, *, sampled: bool = False) -> None:
    """Raise an error if `n_best` exceeds the given beam, or the largest one unless answers are
    sampled.
    """
    if n_best is not None and beam is not None and n_best > beam:
        raise SettingsError(
            f"--n-best {n_best} asks for more answers than --beam {beam} keeps: raise --beam or "
            "lower --n-best"
        )
    if n_best is not None and n_best > MAX_BEAM and not sampled:
        raise SettingsError(f"--n-best {n_best}: a beam keeps at most {MAX_BEAM:,}: lower it")
