"""`regard import`: models of other toolkits as runs."""

from pathlib import Path

from typer import Argument

from regard.cli.display.console import out as console
from regard.cli.display.console import print_json
from regard.cli.options import shared_options
from regard.cli.options.shared_options import option
from regard.pipelines.exchange.import_run import import_folder


def command(
    folder: Path = Argument(..., metavar="FOLDER", help="A folder of another toolkit."),
    out: Path = option("The run to make; a folder that is new or empty.", "--out", default=...),
    source_language: str | None = option(
        "The source language, for a multilingual model: eng_Latn, en.",
        "--source-language",
    ),
    target_language: str | None = option("The target language, likewise.", "--target-language"),
    json: shared_options.Json = False,
) -> None:
    """The folder has config.json, safetensors and the files of a tokenizer, as `save_pretrained` of
    a model and a tokenizer write them; or model.bin and vocabularies, as CTranslate2's converters
    do. No pickle is read, and no code in the folder is executed.
    The run must compute the same logits as the other toolkit and write the same text; otherwise it
    is refused, and RUN holds only the report, exchange.json.
    A translator's run keeps what its source does: float32, whole texts, its search. The options
    --precision, --sentences and --engine of `regard translate` and `serve` ask for more.

    Examples:

        regard import gpt2/ --out runs/gpt2
        regard complete runs/gpt2 "The cat sat on"

        regard import opus-mt-ct2/ --out runs/opus

        regard import nllb/ --source-language eng_Latn --target-language fra_Latn --out runs/en-fr
    """
    given = {"source": source_language, "target": target_language}
    languages = {side: code for side, code in given.items() if code is not None}
    run = import_folder(folder, out, languages=languages)
    if json:
        print_json({"run": str(run.folder), **run.report.model_dump(mode="json")})
        return
    console.print(f"{run.folder}  [dim]{run.report.format}[/]")
    for line in (run.report.gate.summary(), *run.report.notes, *run.report.usage):
        console.print(f"  {line}")
