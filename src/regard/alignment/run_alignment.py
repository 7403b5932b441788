"""Word alignments of sentence pairs by a run's cross attention, under teacher forcing."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice, pairwise, tee
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

from pydantic import PositiveInt

from regard.alignment.dictionary import DictionaryEntry
from regard.alignment.extraction import (
    DEFAULT_ALIGNMENT,
    AlignmentSettings,
    align,
    align_averaged,
    align_text,
)
from regard.alignment.selection import select_by_agreement, select_by_gold
from regard.alignment.symmetrization import Symmetrization, flip, symmetrize
from regard.alignment.word_axes import tokenize_text, word_axis
from regard.atomic_io import write_atomic
from regard.batching.collate import pad, pad_source
from regard.corpora.corpus import Pair, SplitName
from regard.corpora.pair_texts import PreparedData
from regard.corpora.readers.pair_files import read_lines
from regard.errors import CorpusError, SettingsError
from regard.evaluation.pharaoh import read_pharaoh
from regard.inspection.recording.attention_map import AttentionMaps, Axis, Part
from regard.inspection.recording.recorder import count_heads, record_attention
from regard.iterate import chunked
from regard.json_files import load_json
from regard.manifest import check_file
from regard.models.contracts import AnyGenerator
from regard.recipes.open_run import Run
from regard.recipes.paths import check_not_packaged
from regard.settings import Settings
from regard.text.preprocess import replace_unknown_spaces
from regard.text.ragged import Ids
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES
from regard.text.tokenizer import Tokenizer
from regard.text.word_units import detokenize
from regard.types import AttentionHook, GoldAlignment, Link

CROSS: tuple[Part, ...] = ("cross",)
BATCH_SIZE = 64
NUM_SELECTION_PAIRS = 200  # pairs of the validation split on which the best alignment is selected
ALIGNMENT_FILE = "alignment.json"  # the file of a run's folder with its measured alignment
_HAS_CROSS_ATTENTION: WeakKeyDictionary[AnyGenerator, bool] = WeakKeyDictionary()


def has_cross_attention(run: Run) -> bool:
    """Whether the run's model attends to the source; each model is run once to find out."""
    if run.model not in _HAS_CROSS_ATTENTION:
        _HAS_CROSS_ATTENTION[run.model] = "cross" in count_heads(run.model)
    return _HAS_CROSS_ATTENTION[run.model]


class TokenPair(NamedTuple):
    """The ids of a sentence and of its translation, without BOS and EOS."""

    source: Ids
    target: Ids
    columns: Axis | None = None  # source words, pieces with EOS; None: those of the tokenizer
    rows: Axis | None = None  # target words likewise


def token_attention(
    run: Run, pairs: Iterable[TokenPair], *, hook: AttentionHook | None = None
) -> Iterator[AttentionMaps]:
    """The cross attention of each pair, in order, as `hook` returns it."""
    for chunk in chunked(pairs, BATCH_SIZE):
        recording = record_attention(
            run.model,
            pad_source([pair.source for pair in chunk]),
            pad([pair.target for pair in chunk], first=BOS),
            parts=CROSS,
            hook=hook,
        )
        if not recording.weights:
            raise SettingsError(
                f"{run.folder.path}: this model of the family {run.recipe.model.family} has no "
                "attention to the source, which alignment needs"
            )
        for number, pair in enumerate(chunk):
            maps = recording.attention(number, *run.tokenizers)
            yield replace(maps, rows=pair.rows or maps.rows, columns=pair.columns or maps.columns)


def pair_attention(
    run: Run, pairs: Iterable[Pair], *, cut_apart: bool = False, reverse: bool = False
) -> Iterator[AttentionMaps]:
    """The cross attention of each pair, in order; `reverse`: by a model from target to source.

    With `cut_apart`, pairs are pretokenized: the model reads them detokenized, and links are
    between the given words.
    """
    directed = (Pair(pair.target, pair.source) if reverse else pair for pair in pairs)
    return token_attention(run, (_tokenize_pair(run, pair, cut_apart) for pair in directed))


def _tokenize_pair(run: Run, pair: Pair, cut_apart: bool) -> TokenPair:
    (source, columns), (target, rows) = (
        _tokenize_words(text, tokenizer)
        if cut_apart
        else (tokenizer.encode([replace_unknown_spaces(text.strip(), tokenizer)])[0], None)
        for text, tokenizer in zip(pair, run.tokenizers, strict=True)
    )
    return TokenPair(source, target, columns, rows)


def _tokenize_words(text: str, tokenizer: Tokenizer) -> tuple[Ids, Axis]:
    """The ids of a pretokenized text, and the axis of its words."""
    words = text.split()
    whole = detokenize(words)
    surfaces = tokenizer.surfaces(whole.text)
    if sum(map(len, surfaces)) != len(whole.text):
        raise CorpusError(
            f"{whole.text!r}: the model's normalisation changes its number of characters, so that "
            "the words cannot be located; give sentences that are not tokenised"
        )
    ends = accumulate(map(len, surfaces), initial=0)
    word_of = [
        next((word for word in reversed(whole.word_at[first:last]) if word is not None), None)
        for first, last in pairwise(ends)
    ]
    [ids] = tokenizer.encode([replace_unknown_spaces(whole.text.strip(), tokenizer)])
    pieces = (*tokenizer.pieces(ids), SPECIAL_PIECES[EOS])
    specials = [None] * (len(pieces) - len(word_of))
    return ids, Axis(pieces, tuple(words), (*word_of, *specials))


def align_pairs(
    run: Run, pairs: Iterable[Pair], settings: AlignmentSettings
) -> Iterator[frozenset[Link]]:
    """The links of each pair, in order."""
    return (align_text(attention, settings) for attention in pair_attention(run, pairs))


class DirectedModel(NamedTuple):
    """A model of one direction, and how its alignment is extracted."""

    run: Run
    settings: AlignmentSettings


def align_bidirectional(
    forward: DirectedModel,
    backward: DirectedModel,
    pairs: Iterable[Pair],
    how: Symmetrization | None = None,
    *,
    cut_apart: bool = False,
) -> Iterator[frozenset[Link]]:
    """The links of each pair, in order, by two models, source to target and back: those of their
    averaged maps, or with `how` the symmetrized best links of each.
    """
    forward_pairs, backward_pairs = tee(pairs)
    attentions = zip(
        pair_attention(forward.run, forward_pairs, cut_apart=cut_apart),
        pair_attention(backward.run, backward_pairs, cut_apart=cut_apart, reverse=True),
        strict=True,
    )
    settings = forward.settings, backward.settings
    by_rows = [chosen.model_copy(update={"links": "rows"}) for chosen in settings]
    for maps, reverse_maps in attentions:
        if how is None:
            yield align_averaged(maps, reverse_maps, settings)
        else:
            links = align_text(maps, by_rows[0])
            yield symmetrize(links, flip(align_text(reverse_maps, by_rows[1])), how)


class MeasuredAlignment(Settings):
    """The alignment settings selected for a run, as saved in its folder."""

    settings: AlignmentSettings
    by: Literal["gold", "agreement"]
    value: float
    """The alignment error rate against gold, or the agreement with the other direction."""
    pairs: PositiveInt
    """The number of pairs that it was measured on."""

    def __str__(self) -> str:
        what = "an error" if self.by == "gold" else "an agreement with the other direction"
        return f"chose {self.settings} with {what} of {self.value:.1%} on {self.pairs:,} pairs"

    def save(self, run: Run) -> None:
        """Write it into the run's folder, where `best_alignment` finds it."""
        path = run.folder.path / ALIGNMENT_FILE
        check_not_packaged(run.folder.path, "no choice of an alignment is")
        write_atomic(path, f"{self.model_dump_json(indent=1)}\n".encode())


def best_alignment(run: Run) -> AlignmentSettings:
    """The settings measured to be best for this run, or the default."""
    measured = load_measured_alignment(run)
    return measured.settings if measured else DEFAULT_ALIGNMENT


def load_measured_alignment(run: Run) -> MeasuredAlignment | None:
    """The alignment measured for this run, if any."""
    path = run.folder.path / ALIGNMENT_FILE
    advice = "measure it again with regard align --choose, or remove the file"
    return load_json(path, MeasuredAlignment, advice=advice) if path.exists() else None


def measure_by_gold(
    run: Run,
    pairs: Sequence[Pair],
    gold: Sequence[GoldAlignment],
    *,
    cut_apart: bool = False,
    save: bool = True,
) -> MeasuredAlignment:
    """The settings with the lowest error on pairs with gold; `save`: save them in its folder."""
    settings, error = select_by_gold(list(pair_attention(run, pairs, cut_apart=cut_apart)), gold)
    measured = MeasuredAlignment(settings=settings, by="gold", value=error, pairs=len(pairs))
    if save:
        measured.save(run)
    return measured


def measure_by_agreement(
    run: Run, reverse: Run, pairs: Sequence[Pair], *, cut_apart: bool = False
) -> tuple[MeasuredAlignment, MeasuredAlignment]:
    """The settings of two models whose links agree most, saved in the folder of each run."""
    *both, value = select_by_agreement(
        list(pair_attention(run, pairs, cut_apart=cut_apart)),
        list(pair_attention(reverse, pairs, cut_apart=cut_apart, reverse=True)),
    )
    first, second = (
        MeasuredAlignment(settings=settings, by="agreement", value=value, pairs=len(pairs))
        for settings in both
    )
    first.save(run)
    second.save(reverse)
    return first, second


class SelectionExamples(NamedTuple):
    """Validation pairs on which an alignment is selected."""

    pairs: list[Pair]
    gold: list[GoldAlignment]  # empty if the corpus has none


def read_selection_examples(data: PreparedData) -> SelectionExamples:
    """The first validation pairs of a corpus."""
    gold = read_gold(data, "valid") if data.gold("valid").exists() else iter(())
    pairs = islice(data.read("valid"), NUM_SELECTION_PAIRS)
    return SelectionExamples(list(pairs), list(islice(gold, NUM_SELECTION_PAIRS)))


def read_gold(data: PreparedData, split: SplitName) -> Iterator[GoldAlignment]:
    """The gold alignments of a split that has them."""
    path = data.gold(split)
    check_file(path)
    return read_pharaoh(read_lines(path, limit="examples"), name=str(path))


def extract_dictionary(
    run: Run, pairs: Iterable[Pair], settings: AlignmentSettings, *, min_count: int
) -> list[DictionaryEntry]:
    """The best translation of each source word, among those aligned `min_count` times, sorted.

    Pairs that are too long for the model are left out. The best translation has the highest Dice
    coefficient,
        2 c(s, t) / (c(s) + c(t)):
    by count alone, rare words would often be translated by an article.
    """
    tokenized = (
        tuple(
            tokenize_text(*side) for side in zip(map(str.strip, pair), run.tokenizers, strict=True)
        )
        for pair in pairs
    )
    token_pairs = (
        TokenPair(source.ids, target.ids, word_axis(source), word_axis(target))
        for source, target in tokenized
        if max(len(source.ids), len(target.ids)) <= run.longest
    )
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    totals: Counter[str] = Counter()
    for attention in token_attention(run, token_pairs):
        for column, row in align(attention, settings):
            target = attention.rows.words[row]
            counts[attention.columns.words[column]][target] += 1
            totals[target] += 1
    entries = []
    for source, targets in sorted(counts.items()):
        total = targets.total()
        candidates = [
            (-count / (total + totals[target]), target)  # ties go to the first in sorted order
            for target, count in targets.items()
            if count >= min_count
        ]
        if candidates:
            _, best = min(candidates)
            entries.append(DictionaryEntry(source, best, targets[best], targets[best] / total))
    return entries
