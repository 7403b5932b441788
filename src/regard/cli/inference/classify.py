"""`regard classify`: the labels of texts or pictures, with their probabilities."""

from collections.abc import Sequence
from os.path import isfile
from typing import Any

from typer import Argument, Exit

from regard.cli.display.console import note, print_error, to_json
from regard.cli.options import shared_options
from regard.cli.options.shared_options import option
from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.errors import SettingsError
from regard.images.picture_files import ENDINGS
from regard.pipelines.open_pipeline import open_pipeline
from regard.settings import abbreviate, escape_control, quoted
from regard.tasks.families.label_pipeline import AnyLabelPipeline, Classification


def command(
    model: shared_options.Model,
    given: list[str] | None = Argument(
        None,
        metavar="[TEXT… | PICTURE…]",
        help="Texts; or picture files or folders. Without any, or for -, the lines of the standard "
        "input: texts, or names of pictures.",
    ),
    file: list[str] | None = option(
        "Read lines from a file, also .gz; may be repeated.", metavar="FILE"
    ),
    ensemble: shared_options.Ensemble = None,
    best: int = option("Print the N likeliest labels.", "--best", "-k", default=1, min=1),
    weights: shared_options.Weights = "model",
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
    """Every text gives one line, in order: its likeliest label, a tab and its probability; with
    --best N, the N likeliest labels. An empty text also gives a note on stderr. A pair of texts is
    written `A ||| B`. Probabilities are calibrated on the run's validation data; with --ensemble
    they are the mean over several runs with the same labels.

    Every picture gives the same, after its name if there are several. A folder stands for all
    pictures in it and its subfolders. A picture that cannot be read, or a blank line instead of a
    name, gives an empty label and an error on stderr; the others are still classified, and the exit
    code is 1. Control characters of names and labels are printed as escapes, such as \\t; --json
    has them unchanged.

    Examples:

        regard classify runs/trec6 "How far is it from Denver to Aspen ?"
        regard classify runs/trec6 --best 3 < questions.txt
        regard classify runs/sst2 --file reviews.txt --json > labels.jsonl
        regard classify runs/sst2 --ensemble runs/sst2-gpt "A gem of a film ."
        regard classify runs/cifar10-vit photo.jpg holidays/
    """
    pipeline: AnyLabelPipeline = open_pipeline(
        model,
        *(ensemble or ()),
        device=device,
        weights=weights,
        adapter=adapter,
        verb="classify",
    )
    for remark in pipeline.remarks:
        note(remark)
    asked = [
        line
        for one in [*(given or ([] if file else [STDIN]))]
        for line in (read_lines(STDIN, limit="examples") if one == STDIN else [one])
    ]
    asked += [line for path in file or () for line in read_lines(path, limit="examples")]
    if not pipeline.names_examples:
        _check_file_names(model, [one for one in given or () if isfile(one)])
    found = pipeline.find(asked)
    named = pipeline.names_examples and len(found) > 1
    failed = 0
    for answer in pipeline.stream(found):
        failed += answer.error is not None
        _print(answer, best, as_json=json, named=named)
    if failed:
        raise Exit(1)


def _check_file_names(model: str, names: Sequence[str]) -> None:
    """Print a note if a text is the name of a file, which is not read; an error for a picture."""
    for name in names:
        if name.lower().endswith(ENDINGS):
            raise SettingsError(
                f"{name}: a picture, and {model} has learned to classify texts; for pictures: "
                f"regard classify RUN {quoted(name)}, with a RUN of `regard train pictures --data "
                "FOLDER`"
            )
        note(f"{name}: classified as a text, though a file has this name; for its lines: --file")


def _print(answer: Classification[Any], best: int, *, as_json: bool, named: bool) -> None:
    if answer.error is not None:
        print_error(answer.error)
    for message in answer.notes:
        note(f"{abbreviate(answer.given or repr(''))}: {message}")
    if as_json:
        print(to_json(answer.to_json(best)))
        return
    name = [escape_control(answer.given)] if named else []
    labels = [
        part
        for one in answer.labels[:best]
        for part in (escape_control(one.label), f"{one.probability:.4f}")
    ]
    print(*name, *(labels or [""]), sep="\t")
