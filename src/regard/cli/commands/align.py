"""`regard align`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from rich.markup import escape
from typer import Context, Option, Typer

from regard.alignment import run_alignment
from regard.alignment.dictionary import write_dictionary
from regard.alignment.extraction import (
    BASELINE_ALIGNMENT,
    DEFAULT_ALIGNMENT,
    AlignmentSettings,
    LinkExtraction,
    align_text,
)
from regard.alignment.run_alignment import DirectedModel, extract_dictionary
from regard.alignment.symmetrization import Symmetrization
from regard.cli.display.console import note, out, print_json
from regard.cli.display.tables import plain_table
from regard.cli.options import shared_options
from regard.cli.options.eval_data import read_run_split
from regard.cli.options.option_rules import OptionRule, check_options
from regard.corpora.corpus import Pair, SplitName
from regard.corpora.readers.pair_files import FilesSettings, read_lines, read_pairs
from regard.errors import SettingsError
from regard.evaluation.alignment_error import score_alignments
from regard.evaluation.pharaoh import check_gold, flip_gold, format_links, read_pharaoh
from regard.inspection.attention_sinks import MIN_SINK_WEIGHT, SinkCounter
from regard.iterate import reservoir_sample
from regard.recipes.prepared_data import load_data
from regard.recipes.run_folder import PREPARED_FILE, Run, load_run, pick_device
from regard.text.word_units import count_units
from regard.types import GoldAlignment, Link

NOTABLE_SINK_SHARE = 0.05
"""Share of its attention that a head parks on one piece, from which on a note reports it."""

OPTION_RULES = (
    OptionRule(
        "layer head shift links plain",
        excludes="choose",
        hint="--choose finds --layer, --head, --shift and --links by itself",
    ),
    OptionRule("links", excludes="plain", hint="--plain reads by rows"),
    OptionRule(
        "links",
        excludes="reverse",
        hint="--links is for one model: with --reverse give --symmetrize",
    ),
    OptionRule("gold_from gold_reversed", needs="gold"),
    OptionRule("source", needs="target"),
    OptionRule("target cut_apart", needs="source"),
    OptionRule("symmetrize", needs="reverse"),
    OptionRule("gold quiet reverse", excludes="sinks dictionary", hint="these print no alignments"),
    OptionRule("json sinks cut_apart", excludes="dictionary"),
    OptionRule("min_count pairs", needs="dictionary"),
)
app = Typer()


@app.command()
def command(
    context: Context,
    model: shared_options.Model,
    source: shared_options.HeldOutSource = None,
    target: str | None = Option(None, metavar="FILE", help="Their translations."),
    cut_apart: bool = Option(
        False,
        "--cut-apart",
        help="The files have marks cut off from words, as gold sets often do; the model reads "
        "them as people write them.",
    ),
    gold: str | None = Option(
        None, metavar="FILE", help="Gold alignments, one line each: 0-0 1p2 (p or ?: possible)."
    ),
    gold_from: int = Option(0, min=0, max=1, help="Whether the gold counts words from 0 or 1."),
    gold_reversed: bool = Option(
        False, "--gold-reversed", help="The gold has the target's words before the source's."
    ),
    choose: bool = Option(
        False,
        "--choose",
        help="Measure which layer, head and reading align best, and keep the choice in the "
        "run's folder: on the files given, else on the run's validation pairs; by gold where "
        "there is some, else by how far MODEL and --reverse agree.",
    ),
    reverse: str | None = Option(
        None, metavar="MODEL", help="A model from target to source, to align by both."
    ),
    symmetrize: Symmetrization | None = Option(
        None,
        help="How the links of the two models become one alignment; otherwise their maps are "
        "averaged and read as one, which errs less.",
    ),
    plain: bool = Option(
        False,
        "--plain",
        help="The plain average of all layers and heads and the best source word of each "
        "target word, rather than what was chosen for the run.",
    ),
    layer: shared_options.Layer = None,
    head: shared_options.Head = None,
    shift: bool = Option(
        False, "--shift", help="Read a word where it is given to the decoder, not where it is made."
    ),
    links: LinkExtraction | None = Option(
        None,
        help="Read the best source word of each target word (rows), the best target word of "
        "each source word (columns), or make one alignment of both.",
    ),
    sinks: bool = Option(
        False,
        "--sinks",
        help="Print no alignments: report which heads park their attention, and on what.",
    ),
    quiet: bool = Option(False, "--quiet", help="Print the error rate alone, no alignments."),
    dictionary: Path | None = Option(
        None,
        metavar="FILE",
        help="Print no alignments: count them on the run's training pairs, or those given, and "
        "write each source word with its best translation, count and probability.",
    ),
    min_count: int | None = Option(
        None,
        min=1,
        metavar="N",
        help="With --dictionary: leave out what is aligned less than N times.",
    ),
    pairs: int | None = Option(
        None, min=1, metavar="N", help="With --dictionary: count on N pairs picked at random."
    ),
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
    check_options(context, OPTION_RULES)
    given = {"layer": layer, "head": head, "shift": shift or None, "links": links}
    reading_options = {name: value for name, value in given.items() if value is not None}
    torch_device = pick_device(device)
    run = load_run(model, device=torch_device)
    reverse_run = load_run(reverse, device=torch_device) if reverse else None
    if reverse_run is not None:
        _check_directions(run, reverse_run)
    gold_file = _GoldFile(gold, 1 if gold_from else 0, gold_reversed) if gold else None
    data_to_align = _alignment_input(run, source, target, gold_file, train=dictionary is not None)
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
        all_pairs = data_to_align.pairs
        sampled = all_pairs if pairs is None else reservoir_sample(all_pairs, pairs)
        _write_dictionary(directions[0], sampled, dictionary, min_count=min_count or 1)
    elif sinks:
        _report_sinks(run, data_to_align, json=json)
    else:
        _align(directions, data_to_align, symmetrize, quiet=quiet, json=json)


def _check_directions(run: Run, reverse_run: Run) -> None:
    """Raise an error if the second model is not of the other direction; without data, pass."""
    folders = run.folder, reverse_run.folder
    if not all((folder.data / PREPARED_FILE).exists() for folder in folders):
        return
    (source, target), reverse = (load_data(folder).languages for folder in folders)
    if (target, source) != tuple(reverse):
        raise SettingsError(
            f"--reverse {reverse_run.folder.path}: it goes from {reverse[0]} to {reverse[1]}, but "
            f"a model from {target} to {source} is needed"
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
    """The pairs to align, and their gold alignments if there are any."""

    pairs: Iterable[Pair]
    gold: _GoldFile | None
    from_user: bool
    """Whether the pairs came from the command line."""
    cut_apart: bool = False
    """Whether punctuation is separated from words."""

    def read_gold(self) -> tuple["_AlignmentInput", list[GoldAlignment] | None]:
        """The same pairs in a list, and their gold alignments."""
        pairs = list(self.pairs)
        gold = self.gold.read(pairs, cut_apart=self.cut_apart) if self.gold else None
        return self._replace(pairs=pairs), gold


def _alignment_input(
    run: Run, source: str | None, target: str | None, gold: _GoldFile | None, *, train: bool
) -> _AlignmentInput:
    """The pairs of the files given, or of the run: its training pairs or held-out ones."""
    if source == target == "-":
        raise SettingsError("--source and --target cannot both be the standard input")
    if source is not None and target is not None:
        files = FilesSettings(source=source, target=target)
        return _AlignmentInput(read_pairs(files, ("und", "und")), gold, from_user=True)
    data = load_data(run.folder)
    split: SplitName = "train" if train else data.held_out()
    known = data.gold(split)
    own = _GoldFile(str(known)) if known.exists() else None
    return _AlignmentInput(read_run_split(data, split), gold or own, from_user=False)


def _alignment_settings(
    run: Run, reading_options: Mapping[str, object], *, plain: bool
) -> AlignmentSettings:
    """The settings of the options, or else those measured to be best."""
    if not reading_options and not plain:
        return run_alignment.best_alignment(run)
    return (BASELINE_ALIGNMENT if plain else DEFAULT_ALIGNMENT).model_copy(
        update=dict(reading_options)
    )


def _select_alignment(
    run: Run, reverse_run: Run | None, data_to_align: _AlignmentInput
) -> _AlignmentInput:
    """Measure and save the best alignment settings of the runs; the pairs, still to be read."""
    cut_apart = data_to_align.cut_apart
    if data_to_align.from_user:
        data_to_align, gold = data_to_align.read_gold()
        pairs = list(data_to_align.pairs)
    else:
        examples = run_alignment.read_selection_examples(load_data(run.folder))
        pairs, gold = examples.pairs, examples.gold or None
    if gold is None and reverse_run is None:
        raise SettingsError(
            f"--choose: the pairs that {run.folder.path} is to be measured on have no gold "
            "alignments; give --source, --target and --gold, or --reverse with a model of the "
            "other direction, to choose by agreement"
        )
    if gold is None and reverse_run is not None:
        measured = [
            *run_alignment.measure_by_agreement(run, reverse_run, pairs, cut_apart=cut_apart)
        ]
    elif gold is not None:
        measured = [run_alignment.measure_by_gold(run, pairs, gold, cut_apart=cut_apart)]
        if reverse_run is not None:
            turned = [Pair(pair.target, pair.source) for pair in pairs]
            flipped = [flip_gold(each) for each in gold]
            measured.append(
                run_alignment.measure_by_gold(reverse_run, turned, flipped, cut_apart=cut_apart)
            )
    for one, best in zip((run, reverse_run), measured, strict=False):
        if one is not None:
            note(f"{one.folder.path}: {best}")
    return data_to_align


def _write_dictionary(
    direction: DirectedModel, pairs: Iterable[Pair], file: Path, *, min_count: int
) -> None:
    """Write the best translation of each source word by the alignments of `pairs`."""
    entries = extract_dictionary(direction.run, pairs, direction.settings, min_count=min_count)
    if not entries:
        raise SettingsError(
            f"--dictionary {file}: no two words were aligned {min_count} times; "
            "count on more pairs, or give a lower --min-count"
        )
    write_dictionary(entries, file)
    note(f"wrote {len(entries):,} words to {file}")


def _report_sinks(run: Run, data_to_align: _AlignmentInput, *, json: bool) -> None:
    """Print which heads are attention sinks, and on which pieces."""
    tally = SinkCounter()
    for attention in run_alignment.pair_attention(
        run, data_to_align.pairs, cut_apart=data_to_align.cut_apart
    ):
        tally.add(attention)
    found_sinks = tally.summaries()
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
    """Print the links of each pair, and their score if there is gold."""
    gold: list[GoldAlignment] | None = None
    if data_to_align.gold is not None:
        data_to_align, gold = data_to_align.read_gold()  # before aligning: it may not fit
    links: list[frozenset[Link]] = []
    tally = SinkCounter()
    for found in _extract_links(directions, data_to_align, symmetry, tally):
        links.append(found)
        if not quiet and not json:
            print(format_links(found))
    _note_sinks(tally)
    score = score_alignments(links, gold) if gold is not None else None
    if score is not None:
        note(
            f"alignment error rate {score.error_rate:.1%} (precision {score.precision:.1%}, "
            f"recall {score.recall:.1%}) on {len(links):,} pairs"
        )
    if json:
        print_json(
            {
                "settings": directions[0].settings.model_dump(),
                "reverse": directions[1].settings.model_dump() if len(directions) > 1 else None,
                "alignments": [sorted(found) for found in links],
                "score": score._asdict() if score else None,
                "sinks": [one._asdict() for one in tally.summaries()],
            }
        )


def _extract_links(
    directions: Sequence[DirectedModel],
    data_to_align: _AlignmentInput,
    symmetry: Symmetrization | None,
    tally: SinkCounter,
) -> Iterator[frozenset[Link]]:
    """The links of each pair by one model or two; `tally` counts sinks that are left out."""
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
    """Note it if much of the attention goes to sinks."""
    large_sinks = [one for one in tally.summaries() if one.share >= NOTABLE_SINK_SHARE]
    if large_sinks:
        heads = len({(one.layer, one.head) for one in large_sinks})
        first = large_sinks[0]
        note(
            f"{heads} {'head parks' if heads == 1 else 'heads park'} attention, the most layer "
            f"{first.layer}, head {first.head} with {first.share:.0%} on {first.piece}; it is left "
            "out (see --sinks)"
        )
