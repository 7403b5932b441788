"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.engines.ctranslate2.export_artifact import Precision
from regard.pipelines.translator import EngineChoice

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A run's folder, such as runs/travel.")]
Device = Annotated[
    str, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1; auto takes a GPU if there is one.")
]
Weights = Annotated[
    str, typer.Option(metavar="NAME", help="Which weights: model, best, last, average, or a file.")
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for a machine to read.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting of the recipe, such as training.steps=1000; may be repeated, and "
        "of two values for one key the last holds.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="DIR", help="The run's folder; otherwise runs/NAME."),
]
Beam = Annotated[
    int | None, typer.Option(min=1, help="Hypotheses kept at each step; 1 is greedy search.")
]
Engine = Annotated[
    EngineChoice,
    typer.Option(
        help="What translates: auto takes ctranslate2, which is faster, for all that it does as "
        "native does."
    ),
]
InPrecision = Annotated[
    Precision,
    typer.Option(
        "--precision",
        help="Of the weights; auto: with ctranslate2 int8 where it is close enough, with native, "
        "which also has bfloat16 and int8, float32.",
    ),
]
Split = Annotated[
    bool | None,
    typer.Option(
        "--sentences/--whole-lines",
        help="Translate sentences of a line one by one, and leave what is no sentence (numbers, "
        "URLs, bullets) as it is; or give the model whole lines. Otherwise as the run has learned "
        "from its training pairs.",
    ),
]
Unknown = Annotated[
    str | None,
    typer.Option(
        metavar="keep|copy|FILE",
        help="Let the model say words it does not know: keep shows ⁇; copy puts the source word "
        "there that it looks at; FILE, a dictionary (see regard align --dictionary), that word's "
        "translation. Otherwise the recipe decides.",
    ),
]
Ensemble = Annotated[
    list[str] | None,
    typer.Option(metavar="MODEL", help="Another model that votes; may be repeated."),
]
Layer = Annotated[int | None, typer.Option(min=0, help="A layer, from 0; otherwise the average.")]
Head = Annotated[int | None, typer.Option(min=0, help="A head, from 0; otherwise the average.")]
Png = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a PNG.")]
Svg = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw an SVG.")]
Theme = Annotated[Literal["light", "dark"], typer.Option(help="Draw on white, or on nearly black.")]
HeldOutSource = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Source sentences; otherwise the run's own test split."),
]
HeldOutReference = Annotated[
    str | None, typer.Option(metavar="FILE", help="Their translations by people.")
]
