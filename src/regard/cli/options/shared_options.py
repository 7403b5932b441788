"""Arguments and options that several commands share, and which options exclude each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Context, Option

from regard.cli.display.console import note
from regard.cli.options.generated import given_options, option_like, option_spellings
from regard.engines.ctranslate2.export_artifact import ExportPrecision
from regard.errors import SettingsError
from regard.evaluation.bleu_tokenizer import TokenizerChoice
from regard.recipes.paths import PACKAGED_RUN
from regard.tasks.families.options import OptionRule, RunOptions
from regard.tasks.translation.options import TranslateOptions
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
NO_MODEL = (
    "no MODEL is given: this is the small French-English translator that comes with regard, "
    f"{PACKAGED_RUN}"
)
Device = Annotated[str, option_like(RunOptions, "device")]
Weights = Annotated[str, option_like(RunOptions, "weights")]
Adapter = Annotated[str | None, option_like(RunOptions, "adapter")]
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
Beam = Annotated[int | None, option_like(TranslateOptions, "beam")]
Engine = Annotated[EngineChoice, option_like(TranslateOptions, "engine")]
InPrecision = Annotated[ExportPrecision, option_like(TranslateOptions, "precision")]
Split = Annotated[bool | None, option_like(TranslateOptions, "split")]
Unknown = Annotated[str | None, option_like(TranslateOptions, "unknown")]
Ensemble = Annotated[list[str] | None, option_like(TranslateOptions, "ensemble")]
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


def refuse_options(context: Context, options: str, what: str) -> None:
    """Raise an error if one of `options` was given, as they have no effect on `what`."""
    given = given_options(context)
    if used := [name for name in options.split() if name in given]:
        raise SettingsError(
            f"{option_spellings(context)[used[0]]} has no effect on {what}: drop it"
        )


def note_packaged_model(context: Context, name: str = "model") -> None:
    """Print a note about which model is used if the argument MODEL is missing."""
    if name not in given_options(context):
        note(NO_MODEL)


def check_options(context: Context, rules: Sequence[OptionRule]) -> None:
    """Raise an error if an option was given that has no effect together with the others."""
    spellings, given = option_spellings(context), given_options(context)
    for rule in rules:
        rule.check(given, spellings.__getitem__)


def require_options(context: Context, known: str, why: str) -> None:
    """Raise an error if an option was given that is not in `known`, names separated by spaces."""
    for name in sorted(given_options(context) - set(known.split())):
        raise SettingsError(f"{option_spellings(context)[name]} has no effect here: {why}; drop it")
