"""`regard align`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

from regard.cli import options
from regard.cli.console import note, print_json
from regard.corpora.pairs import Pair, SplitName
from regard.corpora.readers import FilesSettings, read_lines, read_pairs
from regard.errors import SettingsError
from regard.evaluation.alignment_error import AlignmentScore, score_alignments
from regard.evaluation.pharaoh import format_links, read_pharaoh
from regard.inspection.alignment import AlignmentSettings
from regard.recipes.prepare import load_data
from regard.recipes.run_folder import Run, load_run, pick_device
from regard.serving import aligning
from regard.serving.dictionary import learn_dictionary, write_dictionary
from regard.streams import pick

app = typer.Typer()


@app.command()
def command(
    model: options.Model,
    source: options.HeldOutSource = None,
    target: Annotated[str | None, typer.Option(metavar="FILE", help="Their translations.")] = None,
    gold: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Gold alignments, one line each: 0-0 1p2 (p: possible)."),
    ] = None,
    gold_from: Annotated[
        int, typer.Option(min=0, max=1, help="Whether the gold counts words from 0 or 1.")
    ] = 0,
    layer: options.Layer = None,
    head: options.Head = None,
    shift: Annotated[
        bool,
        typer.Option(
            "--shift", help="Read a word where it is given to the decoder, not where it is made."
        ),
    ] = False,
    choose: Annotated[
        bool,
        typer.Option(
            "--choose",
            help="Choose layer, head and shift by their error on the run's validation pairs, for "
            "which the corpus must have gold alignments.",
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print the error rate alone, no alignments.")
    ] = False,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Print no alignments: count them on the run's training pairs, or those given, and "
            "write each source word with its best translation, count and probability.",
        ),
    ] = None,
    min_count: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="With --dictionary: leave out what is aligned less than N times.",
        ),
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="With --dictionary: count on N pairs picked at random."
        ),
    ] = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Align words by attention; with gold, measure the alignment error rate.

    Prints a line in Pharaoh's format for each pair: 0-0 1-2 says that source word 0 belongs to
    target word 0 and source word 1 to target word 2, words as spaces divide them.

    Examples:

        regard align runs/travel --source a.fr --target a.en > a.align
        regard align runs/travel --choose --quiet
        regard align runs/words --dictionary fr-en.tsv --pairs 20000
    """
    idle = {
        "--choose finds --layer, --head and --shift by itself: drop them": choose
        and (layer is not None or head is not None or shift),
        "--gold-from goes with --gold": gold is None and gold_from,
        "--dictionary prints nothing: drop --gold, --quiet and --json": dictionary is not None
        and (gold is not None or quiet or json),
        "--min-count and --pairs go with --dictionary": dictionary is None
        and (min_count is not None or pairs is not None),
    }
    for message in (message for message, is_idle in idle.items() if is_idle):
        raise SettingsError(message)
    run = load_run(model, device=pick_device(device))
    task = _task(run, source, target, gold, learn=dictionary is not None)
    if quiet and task.gold is None:
        raise SettingsError(
            "--quiet prints the error rate alone, but there is no gold to take it by"
        )
    settings = AlignmentSettings(layer=layer, head=head, shift=shift)
    if choose:
        settings = choose_on_valid(run)
    if dictionary is not None:
        some = task.pairs if pairs is None else pick(task.pairs, pairs)
        _write_dictionary(run, some, settings, dictionary, min_count=min_count or 1)
    else:
        _align(run, task, settings, counted_from=1 if gold_from else 0, quiet=quiet, json=json)


def _write_dictionary(
    run: Run,
    pairs: Iterable[Pair],
    settings: AlignmentSettings,
    file: Path,
    *,
    min_count: int,
) -> None:
    """Write what the alignments of `pairs` say of each source word."""
    entries = learn_dictionary(run, pairs, settings, min_count=min_count)
    if not entries:
        raise SettingsError(
            f"--dictionary {file}: no two words were aligned {min_count} times; "
            "count on more pairs, or give a lower --min-count"
        )
    write_dictionary(entries, file)
    note(f"wrote {len(entries):,} words to {file}")


def _align(
    run: Run,
    task: "_Task",
    settings: AlignmentSettings,
    *,
    counted_from: Literal[0, 1],
    quiet: bool,
    json: bool,
) -> None:
    """Print the links of each pair, and what they score."""
    links = []
    for found in aligning.align_pairs(run, task.pairs, settings):
        links.append(found)
        if not quiet and not json:
            print(format_links(found))
    score = None
    if task.gold is not None:
        truth = read_pharaoh(read_lines(task.gold), counted_from=counted_from, name=task.gold)
        score = score_alignments(links, truth)
        note(_describe(score, len(links)))
    if json:
        print_json(
            {
                "settings": settings.model_dump(),
                "alignments": [sorted(found) for found in links],
                "score": score._asdict() if score else None,
            }
        )


class _Task(NamedTuple):
    """What is to be aligned, and a file that says how it should be."""

    pairs: Iterator[Pair]
    gold: str | None


def _task(
    run: Run, source: str | None, target: str | None, gold: str | None, *, learn: bool
) -> _Task:
    """The pairs of the files given, or of the run: those to learn from, or those kept from it."""
    if (source is None) != (target is None):
        raise SettingsError("--source and --target go together")
    if source == target == "-":
        raise SettingsError("--source and --target cannot both be the standard input")
    if source is not None and target is not None:
        return _Task(read_pairs(FilesSettings(source=source, target=target), ("und", "und")), gold)
    data = load_data(run.folder)
    split: SplitName = "train" if learn else data.held_out()
    note(f"no --source given: the {split} split of the run, {data.pairs[split]:,} pairs")
    known = data.gold(split)
    return _Task(data.read(split), gold or (str(known) if known.exists() else None))


def choose_on_valid(run: Run) -> AlignmentSettings:
    """The head that errs least on some validation pairs."""
    data = load_data(run.folder)
    if not data.gold("valid").exists():
        raise SettingsError(
            f"--choose: the corpus of {run.folder.path} has no gold alignments to choose by"
        )
    choice = aligning.choose_on_valid(run, data)
    pairs = min(aligning.CHOSEN_ON, data.pairs["valid"])
    note(f"chose {choice.settings} with an error of {choice.error:.1%} on {pairs} pairs")
    return choice.settings


def _describe(score: AlignmentScore, pairs: int) -> str:
    return (
        f"alignment error rate {score.error_rate:.1%} (precision {score.precision:.1%}, "
        f"recall {score.recall:.1%}) on {pairs:,} pairs"
    )
