"""`regard align`: word alignments by attention, and their error rate."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.markup import escape
from typer import Context

from regard.alignment import extraction, run_alignment
from regard.alignment.dictionary import write_dictionary
from regard.alignment.run_alignment import DirectedModel, extract_dictionary
from regard.alignment.symmetrization import Symmetrization
from regard.cli.display.console import note, out, print_json
from regard.cli.display.tables import plain_table
from regard.cli.options import shared_options
from regard.cli.options.shared_options import check_options, flag, option
from regard.corpora.corpus import Pair, SplitName
from regard.corpora.pair_texts import PREPARED_FILE
from regard.corpora.readers.pair_files import FilesSettings, read_lines, read_pairs
from regard.errors import SettingsError
from regard.evaluation.alignment_error import score_alignments
from regard.evaluation.pharaoh import check_gold, flip_gold, format_links, read_pharaoh
from regard.inspection.attention_sinks import MIN_SINK_WEIGHT, SinkCounter
from regard.inspection.recording.attention_map import AttentionMaps
from regard.iterate import reservoir_sample
from regard.manifest import check_file
from regard.recipes.open_run import Run, open_run
from regard.recipes.run_folder import load_data, pick_device
from regard.tasks.families.options import OptionRule
from regard.tasks.registry import tasks_of_pairs
from regard.text.word_units import count_units
from regard.types import GoldAlignment, Link

NOTABLE_SINK_SHARE = 0.05
"""A note reports heads that put at least this share of their attention on one piece."""

OPTION_RULES = (
    OptionRule("adapter", excludes="choose", hint="what is chosen is kept for the run's weights"),
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
    OptionRule("layer head shift links plain", excludes="sinks", hint="--sinks shows all heads"),
    OptionRule("json sinks cut_apart", excludes="dictionary"),
    OptionRule("min_count pairs", needs="dictionary"),
)


def command(
    context: Context,
    model: shared_options.Model,
    source: shared_options.HeldOutSource = None,
    target: str | None = option("Their translations.", metavar="FILE"),
    cut_apart: bool = flag(
        "--cut-apart",
        "Punctuation is separated from words in the files, as often in gold sets; the model gets "
        "normally written text.",
    ),
    gold: str | None = option(
        "Gold alignments, one line each: 0-0 1p2 (p or ?: possible).", metavar="FILE"
    ),
    gold_from: int = option("The first word's number in the gold.", default=0, min=0, max=1),
    gold_reversed: bool = flag(
        "--gold-reversed", "The gold links name the target word before the source word."
    ),
    choose: bool = flag(
        "--choose",
        "Measure which layer, head and reading align best, and keep the choice in the "
        "run's folder. Measured on the given files, or else the run's validation pairs; by "
        "gold alignments, or else by the agreement of MODEL and --reverse.",
    ),
    reverse: str | None = option(
        "A model from target to source, to align with both models.", metavar="MODEL"
    ),
    symmetrize: Symmetrization | None = option(
        "How the links of the two models are combined; without it their maps are "
        "averaged and read as one, which has fewer errors."
    ),
    plain: bool = flag(
        "--plain",
        "Use the plain average of all layers and heads and the best source word of each "
        "target word, instead of the settings chosen for the run.",
    ),
    layer: shared_options.Layer = None,
    head: shared_options.Head = None,
    shift: bool = flag(
        "--shift",
        "Align a word by the step at which it is the decoder's input, not by the step that "
        "predicts it.",
    ),
    links: extraction.LinkExtraction | None = option(
        "Read the best source word of each target word (rows), the best target word of "
        "each source word (columns), or make one alignment of both."
    ),
    sinks: bool = flag(
        "--sinks",
        "Print no alignments: report attention sinks, heads that put their attention on one piece "
        "whatever the answer.",
    ),
    quiet: bool = flag("--quiet", "Print only the error rate, no alignments."),
    dictionary: Path | None = option(
        "Print no alignments: count them on the run's training pairs, or the given ones, and "
        "write each source word with its best translation, count and probability.",
        metavar="FILE",
    ),
    min_count: int | None = option(
        "With --dictionary: leave out words aligned less than N times.", min=1, metavar="N"
    ),
    pairs: int | None = option("With --dictionary: count on N random pairs.", min=1, metavar="N"),
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
    """Prints a line in Pharaoh's format for each pair: 0-0 1-2 says that source word 0 belongs to
    target word 0 and source word 1 to target word 2. Words are separated by spaces.

    Examples:

        regard align runs/travel --source a.fr --target a.en > a.align
        regard align runs/travel --choose --quiet
        regard align runs/de-en --reverse runs/en-de --choose --symmetrize grow-diag
        regard align runs/travel --sinks
        regard align runs/words --dictionary fr-en.tsv --pairs 20000
    """
    check_options(context, OPTION_RULES)
    given = {"layer": layer, "head": head, "shift": shift or None, "links": links}
    reading = {name: value for name, value in given.items() if value is not None}
    torch_device = pick_device(device)
    tasks = tasks_of_pairs()
    runs = [open_run(model, device=torch_device, adapter=adapter, tasks=tasks)]
    runs += [open_run(reverse, device=torch_device, tasks=tasks)] if reverse else []
    if reverse:
        _check_directions(*runs)
    all_pairs, own_gold = _pairs_to_align(runs[0], source, target, train=dictionary is not None)
    gold_file = gold or (None if sinks else own_gold)
    if quiet and gold_file is None:
        raise SettingsError("--quiet prints only the error rate, which needs gold alignments")
    if gold_file is not None or (choose and source):
        all_pairs = list(all_pairs)
    examples = _Examples(all_pairs, None, cut_apart)
    if gold_file is not None:
        known = _read_gold(
            gold_file, all_pairs, gold_from, flipped=gold_reversed, cut_apart=cut_apart
        )
        examples = examples._replace(gold=known)
    if choose:
        _select_alignment(runs, examples if source else None)
    directions = [DirectedModel(one, _alignment_settings(one, reading, plain)) for one in runs]
    if dictionary is not None:
        sampled = all_pairs if pairs is None else reservoir_sample(all_pairs, pairs)
        _write_dictionary(directions[0], sampled, dictionary, min_count=min_count or 1)
    elif sinks:
        _report_sinks(runs[0], examples, json=json)
    else:
        _align(directions, examples, symmetrize, quiet=quiet, json=json)


def _check_directions(run: Run, reverse_run: Run) -> None:
    """Raise an error if the second model is not of the other direction; runs without data pass."""
    folders = run.folder, reverse_run.folder
    if not all((folder.data / PREPARED_FILE).exists() for folder in folders):
        return
    (source, target), reverse = (load_data(folder).languages for folder in folders)
    if (target, source) != tuple(reverse):
        raise SettingsError(
            f"--reverse {reverse_run.folder.path}: it goes from {reverse[0]} to {reverse[1]}, but "
            f"a model from {target} to {source} is needed"
        )


def _read_gold(
    name: str, pairs: Iterable[Pair], counted_from: int, *, flipped: bool, cut_apart: bool
) -> list[GoldAlignment]:
    """The gold alignments of `pairs`; an error if a link is outside their words."""
    lines = read_pharaoh(
        read_lines(name, limit="examples"), counted_from=1 if counted_from else 0, name=name
    )
    gold = [flip_gold(each) if flipped else each for each in lines]
    count = (lambda text: len(text.split())) if cut_apart else count_units
    check_gold(gold, ((count(pair.source), count(pair.target)) for pair in pairs), name=name)
    return gold


class _Examples(NamedTuple):
    """Pairs to align, and their gold alignments if there are any."""

    pairs: Iterable[Pair]
    gold: list[GoldAlignment] | None
    cut_apart: bool = False  # whether punctuation is separated from words

    def attention(self, run: Run) -> Iterator[AttentionMaps]:
        """The cross attention of each pair."""
        return run_alignment.pair_attention(run, self.pairs, cut_apart=self.cut_apart)


def _pairs_to_align(
    run: Run, source: str | None, target: str | None, *, train: bool
) -> tuple[Iterable[Pair], str | None]:
    """The pairs of the files given, or of the run with its gold: training or held-out ones."""
    if source == target == "-":
        raise SettingsError("--source and --target cannot both be the standard input")
    if source is not None and target is not None:
        return read_pairs(FilesSettings(source=source, target=target), ("und", "und")), None
    data = load_data(run.folder)
    split: SplitName = "train" if train else data.held_out()
    known = data.gold(split)
    check_file(known)
    return data.read_by_default(split, note), str(known) if known.exists() else None


def _alignment_settings(
    run: Run, reading: Mapping[str, object], plain: bool
) -> extraction.AlignmentSettings:
    """The settings from the options, or else those measured to be best."""
    if not reading and not plain:
        return run_alignment.best_alignment(run)
    return (extraction.BASELINE_ALIGNMENT if plain else extraction.DEFAULT_ALIGNMENT).model_copy(
        update=dict(reading)
    )


def _select_alignment(runs: Sequence[Run], examples: _Examples | None) -> None:
    """Measure and save the best alignment settings of the runs, by default on validation pairs."""
    run, *others = runs
    if examples is None:
        selection = run_alignment.read_selection_examples(load_data(run.folder))
        examples = _Examples(selection.pairs, selection.gold or None)
    pairs, gold, cut_apart = list(examples.pairs), examples.gold, examples.cut_apart
    measured: Sequence[run_alignment.MeasuredAlignment]
    if gold is not None:
        turned = [Pair(pair.target, pair.source) for pair in pairs], [*map(flip_gold, gold)]
        measured = [
            run_alignment.measure_by_gold(one, *directed, cut_apart=cut_apart)
            for one, directed in zip(runs, ((pairs, gold), turned), strict=False)
        ]
    elif others:
        measured = run_alignment.measure_by_agreement(run, others[0], pairs, cut_apart=cut_apart)
    else:
        raise SettingsError(
            f"--choose: the pairs that {run.folder.path} is to be measured on have no gold "
            "alignments; give --source, --target and --gold, or --reverse with a model of the "
            "other direction, to choose by agreement"
        )
    for one, best in zip(runs, measured, strict=True):
        note(f"{one.folder.path}: {best}")


def _write_dictionary(
    direction: DirectedModel, pairs: Iterable[Pair], file: Path, *, min_count: int
) -> None:
    """Write the best translation of each source word by the alignments of `pairs`."""
    entries = extract_dictionary(direction.run, pairs, direction.settings, min_count=min_count)
    if not entries:
        raise SettingsError(
            f"--dictionary {file}: no two words were aligned {min_count} times; "
            "use more pairs, or give a lower --min-count"
        )
    write_dictionary(entries, file)
    note(f"wrote {len(entries):,} words to {file}")


def _report_sinks(run: Run, examples: _Examples, *, json: bool) -> None:
    """Print which heads are attention sinks, and on which pieces."""
    tally = SinkCounter()
    for attention in examples.attention(run):
        tally.add(attention)
    found = tally.summaries()
    if json:
        return print_json({"sinks": [one._asdict() for one in found]})
    if not found:
        return note("no head is an attention sink")
    rows = [
        (str(one.layer), str(one.head), escape(one.piece), f"{one.share:.1%}", str(one.sentences))
        for one in found
    ]
    columns = ("layer", "head", "on", "share", "sentences")
    out.print(plain_table(*columns, right=(*columns[:2], *columns[3:]), rows=rows))
    return note(
        f"share: of all that the head attends to in {tally.sentences:,} sentences; a sink is a "
        f"piece to which half of the rows pay {MIN_SINK_WEIGHT:.0%} or more, whatever the answer"
    )


def _align(
    directions: Sequence[DirectedModel],
    examples: _Examples,
    symmetry: Symmetrization | None,
    *,
    quiet: bool,
    json: bool,
) -> None:
    """Print the links of each pair, and their score if there is gold."""
    links: list[frozenset[Link]] = []
    tally = SinkCounter()
    for found in _extract_links(directions, examples, symmetry, tally):
        links.append(found)
        if not quiet and not json:
            print(format_links(found))
    _note_sinks(tally)
    score = score_alignments(links, examples.gold) if examples.gold is not None else None
    if score is not None:
        note(
            f"alignment error rate {score.error_rate:.1%} (precision {score.precision:.1%}, "
            f"recall {score.recall:.1%}) on {len(links):,} pairs"
        )
    if json:
        settings = [one.settings.model_dump() for one in directions]
        print_json(
            {
                "settings": settings[0],
                "reverse": settings[1] if len(settings) > 1 else None,
                "alignments": [sorted(found) for found in links],
                "score": score._asdict() if score else None,
                "sinks": [one._asdict() for one in tally.summaries()],
            }
        )


def _extract_links(
    directions: Sequence[DirectedModel],
    examples: _Examples,
    symmetry: Symmetrization | None,
    tally: SinkCounter,
) -> Iterator[frozenset[Link]]:
    """The links of each pair by one model or two; `tally` counts sinks that are left out."""
    if len(directions) > 1:
        forward, backward = directions
        yield from run_alignment.align_bidirectional(
            forward, backward, examples.pairs, symmetry, cut_apart=examples.cut_apart
        )
        return
    [(run, settings)] = directions
    for attention in examples.attention(run):
        if not settings.sinks:
            tally.add(attention)
        yield extraction.align_text(attention, settings)


def _note_sinks(tally: SinkCounter) -> None:
    """Print a note if much of the attention goes to sinks."""
    large_sinks = [one for one in tally.summaries() if one.share >= NOTABLE_SINK_SHARE]
    if large_sinks:
        heads = len({(one.layer, one.head) for one in large_sinks})
        first = large_sinks[0]
        note(
            f"{heads} {'head has' if heads == 1 else 'heads have'} attention sinks, mostly layer "
            f"{first.layer}, head {first.head} with {first.share:.0%} on {first.piece}; they are "
            "left out (see --sinks)"
        )
