"""`regard translate`."""

import sys
from typing import Annotated

import typer

from regard.cli import options
from regard.cli.console import note, print_json
from regard.corpora.readers import read_lines
from regard.errors import SettingsError
from regard.evaluation.pharaoh import format_links
from regard.serving.dictionary import read_unknown
from regard.serving.searching import search_settings
from regard.serving.translator import Answer, load
from regard.streams import chunked

app = typer.Typer()

CHUNK = 2048
"""Lines translated together: enough to find many of like length, few enough to answer soon."""


@app.command()
def command(
    model: options.Model,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Lines to translate, also .gz; - is stdin.")
    ] = "-",
    beam: options.Beam = None,
    n_best: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Print the N best, each on its own line."),
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(min=0, max=5, help="More favours longer translations.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw translations at random instead of searching.")
    ] = False,
    temperature: Annotated[
        float | None, typer.Option(min=0.01, help="With --sample: below 1 bolder in the likely.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="With --sample: from the K likeliest tokens alone.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="With --sample: from the likeliest that make up P."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="With --sample: what decides.")] = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="What every translation must begin with.")
    ] = "",
    forbid: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="A word no translation may hold; may be repeated."),
    ] = None,
    ensemble: options.Ensemble = None,
    unknown: options.Unknown = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Put each translation's score before it.")
    ] = False,
    align: Annotated[
        bool, typer.Option("--align", help="Put the word alignment (0-0 1-2) behind it.")
    ] = False,
    weights: options.Weights = "model",
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Translate lines: from a file or stdin to stdout, one line for each.

    Every line of input gives one line of output, in order: blank ones blank, over-long and odd ones
    with a note on stderr. With --n-best a line gives up to N, numbered; tabs separate columns.

    Examples:

        echo "Jane visite l'Afrique en septembre." | regard translate runs/travel
        regard translate runs/travel letters.fr --beam 8 --n-best 3 --scores > letters.en
        regard translate runs/words letters.fr --unknown dictionary.tsv > letters.en
    """
    drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    drawing = {name: value for name, value in drawing.items() if value is not None}
    if drawing and not sample:
        raise SettingsError(f"--{next(iter(drawing)).replace('_', '-')} goes with --sample")
    dictionary = read_unknown(unknown) if unknown is not None else None
    translator = load(model, *(ensemble or ()), device=device, weights=weights)
    settings = search_settings(
        translator.settings,
        beam=beam,
        n_best=n_best,
        length_penalty=length_penalty,
        sampling=drawing if sample else None,
        unknown=unknown is not None,
    )
    number = 0
    typed = file == "-" and sys.stdin.isatty()  # then each line gets its answer at once
    for chunk in chunked(read_lines(file, replace=True), 1 if typed else CHUNK):
        answers = translator.translate(
            chunk,
            settings,
            prefix=prefix,
            forbidden=forbid or (),
            look=align,
            first=number,
            unknown=dictionary,
        )
        for answer in answers:
            number += 1
            for message in answer.notes:
                note(f"line {number}: {message}")
            if json:
                print_json(_as_json(number, answer))
            else:
                _print(number, answer, ranked=settings.n_best > 1, scores=scores, align=align)
        sys.stdout.flush()


def _print(number: int, answer: Answer, *, ranked: bool, scores: bool, align: bool) -> None:
    for rank, candidate in enumerate(answer.candidates, 1):
        columns = [str(number), str(rank)] if ranked else []
        columns += [f"{candidate.score:.4f}"] if scores else []
        columns += [candidate.text]
        columns += [_alignment(answer)] if align and rank == 1 else []
        print("\t".join(columns))


def _alignment(answer: Answer) -> str:
    return format_links(answer.attention.alignment()) if answer.attention else ""


def _as_json(number: int, answer: Answer) -> dict[str, object]:
    found: dict[str, object] = {
        "line": number,
        "source": answer.source,
        "translations": [candidate._asdict() for candidate in answer.candidates],
        "notes": list(answer.notes),
    }
    if answer.attention:
        found["alignment"] = sorted(answer.attention.alignment())
    return found
