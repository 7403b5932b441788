"""`regard align`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from rich.markup import escape

from regard.alignment import run_alignment
from regard.alignment.dictionary import write_dictionary
from regard.alignment.dictionary_extraction import extract_dictionary
from regard.alignment.extraction import (
    BASELINE_ALIGNMENT,
    DEFAULT_ALIGNMENT,
    AlignmentSettings,
    LinkExtraction,
    align_text,
)
from regard.alignment.run_alignment import DirectedModel
from regard.alignment.symmetrization import Symmetrization
from regard.cli.display.console import note, out, print_json
from regard.cli.display.tables import plain_table
from regard.cli.options import shared_options
from regard.cli.options.eval_data import read_run_split
from regard.corpora.corpus import Pair, SplitName
from regard.corpora.readers.pair_files import FilesSettings, read_lines, read_pairs
from regard.errors import SettingsError
from regard.evaluation.alignment_error import AlignmentScore, score_alignments
from regard.evaluation.pharaoh import check_gold, flip_gold, format_links, read_pharaoh
from regard.inspection.attention_sinks import MIN_SINK_WEIGHT, SinkCounter
from regard.iterate import reservoir_sample
from regard.recipes.prepared_data import load_data
from regard.recipes.run_folder import PREPARED_FILE, Run, load_run, pick_device
from regard.text.word_units import count_units
from regard.types import GoldAlignment, Link

NOTABLE_SINK_SHARE = 0.05
"""A head that parks this share of its attention on one piece is spoken of."""

app = typer.Typer()


@app.command()
def command(
    context: typer.Context,
    model: shared_options.Model,
    source: shared_options.HeldOutSource = None,
    target: Annotated[str | None, typer.Option(metavar="FILE", help="Their translations.")] = None,
    cut_apart: Annotated[
        bool,
        typer.Option(
            "--cut-apart",
            help="The files have marks cut off from words, as gold sets often do; the model reads "
            "them as people write them.",
        ),
    ] = False,
    gold: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Gold alignments, one line each: 0-0 1p2 (p or ?: possible)."
        ),
    ] = None,
    gold_from: Annotated[
        int, typer.Option(min=0, max=1, help="Whether the gold counts words from 0 or 1.")
    ] = 0,
    gold_reversed: Annotated[
        bool,
        typer.Option(
            "--gold-reversed", help="The gold has the target's words before the source's."
        ),
    ] = False,
    choose: Annotated[
        bool,
        typer.Option(
            "--choose",
            help="Measure which layer, head and reading align best, and keep the choice in the "
            "run's folder: on the files given, else on the run's validation pairs; by gold where "
            "there is some, else by how far MODEL and --reverse agree.",
        ),
    ] = False,
    reverse: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="A model from target to source, to align by both."),
    ] = None,
    symmetrize: Annotated[
        Symmetrization | None,
        typer.Option(
            help="How the links of the two models become one alignment; otherwise their maps are "
            "averaged and read as one, which errs less."
        ),
    ] = None,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="The plain average of all layers and heads and the best source word of each "
            "target word, rather than what was chosen for the run.",
        ),
    ] = False,
    layer: shared_options.Layer = None,
    head: shared_options.Head = None,
    shift: Annotated[
        bool,
        typer.Option(
            "--shift", help="Read a word where it is given to the decoder, not where it is made."
        ),
    ] = False,
    links: Annotated[
        LinkExtraction | None,
        typer.Option(
            help="Read the best source word of each target word (rows), the best target word of "
            "each source word (columns), or make one alignment of both."
        ),
    ] = None,
    sinks: Annotated[
        bool,
        typer.Option(
            "--sinks",
            help="Print no alignments: report which heads park their attention, and on what.",
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
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
    """Align words by attention; with gold, measure the alignment error rate.

    Prints a line in Pharaoh's format for each pair: 0-0 1-2 says that source word 0 belongs to
    target word 0 and source word 1 to target word 2, words as spaces divide them.

    Examples:

        regard align runs/travel --source a.fr --target a.en > a.align
        regard align runs/travel --choose --quiet
        regard align runs/de-en --reverse runs/en-de --choose --symmetrize grow-diag
        regard align runs/travel --sinks
        regard align runs/words --dictionary fr-en.tsv --pairs 20000
    """
    reading_options = {"layer": layer, "head": head, "shift": shift or None, "links": links}
    reading_options = {
        name: option_value
        for name, option_value in reading_options.items()
        if option_value is not None
    }
    _reject_unused_options(context.params, bool(reading_options))
    where = pick_device(device)
    run = load_run(model, device=where)
    reverse_run = load_run(reverse, device=where) if reverse else None
    if reverse_run is not None:
        _check_directions(run, reverse_run)
    given = _GoldFile(gold, 1 if gold_from else 0, gold_reversed) if gold else None
    data_to_align = _alignment_input(run, source, target, given, learn=dictionary is not None)
    data_to_align = data_to_align._replace(cut_apart=cut_apart)
    if quiet and data_to_align.gold is None:
        raise SettingsError(
            "--quiet prints the error rate alone, but there is no gold to take it by"
        )
    if choose:
        data_to_align = _select_alignment(run, reverse_run, data_to_align)
    directions = [
        DirectedModel(one, _alignment_settings(one, reading_options, plain=plain))
        for one in (run, reverse_run)
        if one
    ]
    if dictionary is not None:
        sampled = (
            data_to_align.pairs if pairs is None else reservoir_sample(data_to_align.pairs, pairs)
        )
        _write_dictionary(directions[0], sampled, dictionary, min_count=min_count or 1)
    elif sinks:
        _report_sinks(run, data_to_align, json=json)
    else:
        _align(directions, data_to_align, symmetrize, quiet=quiet, json=json)


def _reject_unused_options(given: Mapping[str, Any], has_reading_options: bool) -> None:
    """An error if an option would do nothing beside the others; `wished`: a reading is named."""
    writes_dictionary = given["dictionary"] is not None
    has_dictionary_options = given["min_count"] is not None or given["pairs"] is not None
    has_gold_options = given["gold_from"] or given["gold_reversed"]
    unused = {
        "--choose finds --layer, --head, --shift and --links by itself and is not --plain: drop "
        "them": given["choose"] and (has_reading_options or given["plain"]),
        "--plain reads by rows: drop --links": given["plain"] and given["links"] is not None,
        "--gold-from and --gold-reversed go with --gold": given["gold"] is None
        and has_gold_options,
        "--cut-apart goes with --source and --target": given["cut_apart"]
        and given["source"] is None,
        "--symmetrize goes with --reverse MODEL": given["reverse"] is None
        and given["symmetrize"] is not None,
        "--links is for one model: with --reverse give --symmetrize": given["reverse"] is not None
        and given["links"] is not None,
        "--sinks and --dictionary print no alignments: drop --gold, --quiet and --reverse": (
            given["sinks"] or writes_dictionary
        )
        and (given["gold"] is not None or given["quiet"] or given["reverse"] is not None),
        "--dictionary prints nothing and reads words as they are: drop --json, --sinks and "
        "--cut-apart": writes_dictionary
        and (given["json"] or given["sinks"] or given["cut_apart"]),
        "--min-count and --pairs go with --dictionary": not writes_dictionary
        and has_dictionary_options,
    }
    for message in (message for message, is_unused in unused.items() if is_unused):
        raise SettingsError(message)


def _check_directions(run: Run, reverse_run: Run) -> None:
    """An error if the second model is not of the other direction, as far as can be told."""
    folders = run.folder, reverse_run.folder
    if not all((folder.data / PREPARED_FILE).exists() for folder in folders):
        return
    here, there = (load_data(folder).languages for folder in folders)
    if here != there[::-1]:
        raise SettingsError(
            f"--reverse {reverse_run.folder.path}: it goes from {there[0]} to {there[1]}, but a "
            "model "
            f"from {here[1]} to {here[0]} is needed"
        )


class _GoldFile(NamedTuple):
    """A file of gold alignments."""

    name: str
    counted_from: Literal[0, 1] = 0
    reversed: bool = False
    """Whether a link has the target's word first."""

    def read(self, pairs: Sequence[Pair], *, cut_apart: bool) -> list[GoldAlignment]:
        """The gold alignments of `pairs`, whose words they must not go beyond."""
        lines = read_pharaoh(read_lines(self.name), counted_from=self.counted_from, name=self.name)
        gold = [flip_gold(each) if self.reversed else each for each in lines]
        count = (lambda text: len(text.split())) if cut_apart else count_units
        sizes = ((count(pair.source), count(pair.target)) for pair in pairs)
        check_gold(gold, sizes, name=self.name)
        return gold


class _AlignmentInput(NamedTuple):
    """What is to be aligned, and a file that says how it should be."""

    pairs: Iterable[Pair]
    gold: _GoldFile | None
    from_user: bool
    """Whether the pairs came from the command line."""
    cut_apart: bool = False
    """Whether their marks stand alone."""


def _alignment_input(
    run: Run, source: str | None, target: str | None, gold: _GoldFile | None, *, learn: bool
) -> _AlignmentInput:
    """The pairs of the files given, or of the run: those to learn from, or those kept from it."""
    if (source is None) != (target is None):
        raise SettingsError("--source and --target go together")
    if source == target == "-":
        raise SettingsError("--source and --target cannot both be the standard input")
    if source is not None and target is not None:
        files = FilesSettings(source=source, target=target)
        return _AlignmentInput(read_pairs(files, ("und", "und")), gold, from_user=True)
    data = load_data(run.folder)
    split: SplitName = "train" if learn else data.held_out()
    known = data.gold(split)
    own = _GoldFile(str(known)) if known.exists() else None
    return _AlignmentInput(read_run_split(data, split), gold or own, from_user=False)


def _alignment_settings(
    run: Run, reading_options: Mapping[str, object], *, plain: bool
) -> AlignmentSettings:
    """What was asked for, or else what was measured to be best."""
    if not reading_options and not plain:
        return run_alignment.best_alignment(run)
    return (BASELINE_ALIGNMENT if plain else DEFAULT_ALIGNMENT).model_copy(
        update=dict(reading_options)
    )


def _select_alignment(
    run: Run, reverse_run: Run | None, data_to_align: _AlignmentInput
) -> _AlignmentInput:
    """Measure which alignment is best and keep that; the task, its pairs still to be read."""
    if data_to_align.from_user:
        pairs = list(data_to_align.pairs)
        data_to_align = data_to_align._replace(pairs=pairs)
        gold = (
            data_to_align.gold.read(pairs, cut_apart=data_to_align.cut_apart)
            if data_to_align.gold
            else None
        )
    else:
        data = load_data(run.folder)
        pairs = run_alignment.read_valid(data)
        gold = run_alignment.read_valid_gold(data) if data.gold("valid").exists() else None
    if gold is not None:
        _select_by_gold(run, reverse_run, pairs, gold, cut_apart=data_to_align.cut_apart)
    elif reverse_run is not None:
        both = run_alignment.measure_by_agreement(
            run, reverse_run, pairs, cut_apart=data_to_align.cut_apart
        )
        for one, measured in zip((run, reverse_run), both, strict=True):
            note(f"{one.folder.path}: {measured}")
    else:
        raise SettingsError(
            f"--choose: the pairs that {run.folder.path} is to be measured on have no gold "
            "alignments; give --source, --target and --gold, or --reverse with a model of the "
            "other direction, to choose by agreement"
        )
    return data_to_align


def _select_by_gold(
    run: Run,
    reverse_run: Run | None,
    pairs: Sequence[Pair],
    gold: Sequence[GoldAlignment],
    *,
    cut_apart: bool,
) -> None:
    """Measure each direction by the same gold."""
    measured = run_alignment.measure_by_gold(run, pairs, gold, cut_apart=cut_apart)
    note(f"{run.folder.path}: {measured}")
    if reverse_run is not None:
        turned = [Pair(pair.target, pair.source) for pair in pairs]
        flipped = [flip_gold(each) for each in gold]
        measured = run_alignment.measure_by_gold(reverse_run, turned, flipped, cut_apart=cut_apart)
        note(f"{reverse_run.folder.path}: {measured}")


def _write_dictionary(
    direction: DirectedModel, pairs: Iterable[Pair], file: Path, *, min_count: int
) -> None:
    """Write what the alignments of `pairs` say of each source word."""
    entries = extract_dictionary(direction.run, pairs, direction.settings, min_count=min_count)
    if not entries:
        raise SettingsError(
            f"--dictionary {file}: no two words were aligned {min_count} times; "
            "count on more pairs, or give a lower --min-count"
        )
    write_dictionary(entries, file)
    note(f"wrote {len(entries):,} words to {file}")


def _report_sinks(run: Run, data_to_align: _AlignmentInput, *, json: bool) -> None:
    """Print which heads park their attention on what."""
    tally = SinkCounter()
    for attention in run_alignment.pair_attention(
        run, data_to_align.pairs, cut_apart=data_to_align.cut_apart
    ):
        tally.add(attention)
    found_sinks = tally.found_sinks()
    if json:
        print_json({"sinks": [one._asdict() for one in found_sinks]})
        return
    if not found_sinks:
        note("no head parks its attention")
        return
    table = plain_table(
        "layer", "head", "on", "share", "sentences", right=("layer", "head", "share", "sentences")
    )
    for one in found_sinks:
        table.add_row(
            str(one.layer), str(one.head), escape(one.piece), f"{one.share:.1%}", str(one.sentences)
        )
    out.print(table)
    note(
        f"share: of all that the head attends to in {tally.sentences:,} sentences; a sink is a "
        f"piece that half of the rows pay {MIN_SINK_WEIGHT:.0%} or more, whatever they answer"
    )


def _align(
    directions: Sequence[DirectedModel],
    data_to_align: _AlignmentInput,
    symmetry: Symmetrization | None,
    *,
    quiet: bool,
    json: bool,
) -> None:
    """Print the links of each pair, and what they score; gold that does not fit is told before."""
    gold: list[GoldAlignment] = []
    if data_to_align.gold is not None:
        pairs = list(data_to_align.pairs)
        gold = data_to_align.gold.read(pairs, cut_apart=data_to_align.cut_apart)
        data_to_align = data_to_align._replace(pairs=pairs)
    links: list[frozenset[Link]] = []
    tally = SinkCounter()
    for found in _extract_links(directions, data_to_align, symmetry, tally):
        links.append(found)
        if not quiet and not json:
            print(format_links(found))
    _note_sinks(tally)
    score = None
    if data_to_align.gold is not None:
        score = score_alignments(links, gold)
        note(_describe(score, len(links)))
    if json:
        print_json(
            {
                "settings": directions[0].settings.model_dump(),
                "reverse": directions[1].settings.model_dump() if len(directions) > 1 else None,
                "alignments": [sorted(found) for found in links],
                "score": score._asdict() if score else None,
                "sinks": [one._asdict() for one in tally.found_sinks()],
            }
        )


def _extract_links(
    directions: Sequence[DirectedModel],
    data_to_align: _AlignmentInput,
    symmetry: Symmetrization | None,
    tally: SinkCounter,
) -> Iterator[frozenset[Link]]:
    """The links of each pair by one model or two; what one model parks and is left out counts."""
    if len(directions) > 1:
        forward, backward = directions
        yield from run_alignment.align_bidirectional(
            forward, backward, data_to_align.pairs, symmetry, cut_apart=data_to_align.cut_apart
        )
        return
    for attention in run_alignment.pair_attention(
        directions[0].run, data_to_align.pairs, cut_apart=data_to_align.cut_apart
    ):
        if not directions[0].settings.sinks:
            tally.add(attention)
        yield align_text(attention, directions[0].settings)


def _note_sinks(tally: SinkCounter) -> None:
    """Say so if much of the attention is parked."""
    large_sinks = [one for one in tally.found_sinks() if one.share >= NOTABLE_SINK_SHARE]
    if large_sinks:
        heads = len({(one.layer, one.head) for one in large_sinks})
        first = large_sinks[0]
        note(
            f"{heads} {'head parks' if heads == 1 else 'heads park'} attention, the most layer "
            f"{first.layer}, head {first.head} with {first.share:.0%} on {first.piece}; it is left "
            "out (see --sinks)"
        )


def _describe(score: AlignmentScore, pairs: int) -> str:
    return (
        f"alignment error rate {score.error_rate:.1%} (precision {score.precision:.1%}, "
        f"recall {score.recall:.1%}) on {pairs:,} pairs"
    )
