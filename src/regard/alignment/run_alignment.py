"""Pairs of sentences -> word alignments, by what a model attends to when it is told the target."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice, pairwise, tee
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

from pydantic import PositiveInt

from regard.alignment.extraction import (
    DEFAULT_ALIGNMENT,
    AlignmentSettings,
    align_averaged,
    align_text,
)
from regard.alignment.selection import SelectedAlignment, select_by_agreement, select_by_gold
from regard.alignment.symmetrization import Symmetrization, flip, symmetrize
from regard.atomic_io import write_atomic
from regard.batching.collate import pad, pad_source
from regard.corpora.corpus import Pair, SplitName
from regard.corpora.readers.pair_files import read_lines
from regard.errors import CorpusError, SettingsError
from regard.evaluation.pharaoh import read_pharaoh
from regard.inspection.recording.attention_map import AttentionMaps, Axis, Part, count_heads, record
from regard.iterate import chunked
from regard.json_files import load_json
from regard.manifest import check_file
from regard.models.contracts import AnyModel
from regard.recipes.prepared_data import PreparedData
from regard.recipes.run_folder import Run
from regard.settings import Settings
from regard.text.detokenizer import detokenize
from regard.text.preprocess import replace_unknown_spaces
from regard.text.ragged import Ids
from regard.text.special_tokens import BOS
from regard.text.tokenizer import Tokenizer
from regard.types import AttentionHook, GoldAlignment, Link

CROSS: tuple[Part, ...] = ("cross",)
BATCH_SIZE = 64
"""Pairs recorded together."""
NUM_SELECTION_PAIRS = 200
"""Pairs of the validation split that the best alignment is chosen on."""
ALIGNMENT_FILE = "alignment.json"
"""The file of a run's folder that holds what was measured."""


class TokenPair(NamedTuple):
    """The ids of a sentence and of its translation, without BOS and EOS."""

    source: Ids
    target: Ids


_HAS_CROSS_ATTENTION: WeakKeyDictionary[AnyModel, bool] = WeakKeyDictionary()
"""What was found out of models: each has to be run for it, and a server asks for every batch."""


def attends(run: Run) -> bool:
    """Whether the run's model attends to the source at all."""
    if run.model not in _HAS_CROSS_ATTENTION:
        _HAS_CROSS_ATTENTION[run.model] = "cross" in count_heads(run.model)
    return _HAS_CROSS_ATTENTION[run.model]


def pair_attention(
    run: Run, pairs: Iterable[Pair], *, cut_apart: bool = False
) -> Iterator[AttentionMaps]:
    """The cross attention of each pair, in order.

    Of pairs that are `cut_apart`, marks stand alone as words, as tools part them; the model reads
    them as people write them, and the words of the attention are still those that were given.
    """
    source, target = run.tokenizers
    if cut_apart:
        yield from _pretokenized_attention(run, pairs)
        return
    yield from token_attention(
        run,
        (TokenPair(_ids(pair.source, source), _ids(pair.target, target)) for pair in pairs),
    )


def _ids(text: str, tokenizer: Tokenizer) -> Ids:
    return tokenizer.encode([replace_unknown_spaces(text.strip(), tokenizer)])[0]


def _pretokenized_attention(run: Run, pairs: Iterable[Pair]) -> Iterator[AttentionMaps]:
    """The attention of glued pairs between the words that they were glued from."""
    tokenizers = run.tokenizers
    kept, read = tee(pairs)
    glued = (Pair(*(detokenize(side.split()).text for side in pair)) for pair in read)
    for pair, attention in zip(kept, pair_attention(run, glued), strict=True):
        columns, rows = (
            _original_words(axis, side.split(), tokenizer)
            for axis, side, tokenizer in zip(
                (attention.columns, attention.rows), pair, tokenizers, strict=True
            )
        )
        yield replace(attention, rows=rows, columns=columns)


def _original_words(axis: Axis, words: Sequence[str], tokenizer: Tokenizer) -> Axis:
    """The same pieces, each with the word it came from before the words were glued."""
    glued = detokenize(words)
    surfaces = tokenizer.surfaces(glued.text)
    if sum(map(len, surfaces)) != len(glued.text):
        raise CorpusError(
            f"{glued.text!r}: the model's normal form has another number of characters, so that "
            "its words cannot be told apart; give the sentences as people write them"
        )
    places = accumulate(map(len, surfaces), initial=0)
    at = [glued.word_at[first:last] for first, last in pairwise(places)]
    word_of = [next((word for word in reversed(part) if word is not None), None) for part in at]
    specials = [None] * (len(axis.pieces) - len(word_of))
    return Axis(axis.pieces, tuple(words), (*word_of, *specials))


def token_attention(
    run: Run, pairs: Iterable[TokenPair], *, change: AttentionHook | None = None
) -> Iterator[AttentionMaps]:
    """The cross attention of each pair of sentences in tokens, as `change` would have it."""
    source, target = run.tokenizers
    for chunk in chunked(pairs, BATCH_SIZE):
        recording = record(
            run.model,
            pad_source([pair.source for pair in chunk]),
            pad([pair.target for pair in chunk], first=BOS),
            parts=CROSS,
            change=change,
        )
        if not recording.weights:
            raise SettingsError(
                f"{run.folder.path}: a model of the family {run.recipe.model.family} without "
                "attention to the source has nothing to align by"
            )
        for number in range(len(chunk)):
            yield recording.attention(number, source, target)


class LabelledTokenPair(NamedTuple):
    """A sentence and its translation in tokens, and the words that are to be seen along them."""

    source: Ids
    target: Ids
    columns: Axis
    """The words of the source; a place for each token, and for EOS."""
    rows: Axis
    """Those of the target."""


def labelled_attention(
    run: Run, pairs: Iterable[LabelledTokenPair], *, change: AttentionHook | None = None
) -> Iterator[AttentionMaps]:
    """The cross attention of each pair between the words that it comes with."""
    kept, read = tee(pairs)
    tokens = (TokenPair(one.source, one.target) for one in read)
    for one, attention in zip(kept, token_attention(run, tokens, change=change), strict=True):
        yield replace(attention, rows=one.rows, columns=one.columns)


def align_pairs(
    run: Run, pairs: Iterable[Pair], settings: AlignmentSettings, *, cut_apart: bool = False
) -> Iterator[frozenset[Link]]:
    """The links of each pair, in order."""
    attentions = pair_attention(run, pairs, cut_apart=cut_apart)
    return (align_text(attention, settings) for attention in attentions)


class DirectedModel(NamedTuple):
    """A model of one direction, and how its alignment is read."""

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
    """The links of each pair, in order, by two models: source to target, and back.

    By default their maps are averaged and read as one. With `how`, each model gives each word that
    it answers its best word of the other side, and these links are put together in that way.
    """
    row_settings = [
        direction.settings.model_copy(update={"links": "rows"}) for direction in (forward, backward)
    ]
    kept, read = tee(pairs)
    attentions = pair_attention(forward.run, kept, cut_apart=cut_apart)
    back = reverse_attention(backward.run, read, cut_apart=cut_apart)
    for one, other in zip(attentions, back, strict=True):
        if how is None:
            yield align_averaged(one, other, (forward.settings, backward.settings))
        else:
            forward_links, backward_links = (
                align_text(one, row_settings[0]),
                flip(align_text(other, row_settings[1])),
            )
            yield symmetrize(forward_links, backward_links, how)


def reverse_attention(
    run: Run, pairs: Iterable[Pair], *, cut_apart: bool = False
) -> Iterator[AttentionMaps]:
    """The cross attention of a model from target to source, for each pair of source and target."""
    turned = (Pair(pair.target, pair.source) for pair in pairs)
    return pair_attention(run, turned, cut_apart=cut_apart)


def select_alignment(
    run: Run, pairs: Sequence[Pair], gold: Sequence[GoldAlignment], *, cut_apart: bool = False
) -> SelectedAlignment:
    """The settings whose links err least on pairs with gold alignments."""
    return select_by_gold(list(pair_attention(run, pairs, cut_apart=cut_apart)), gold)


def select_on_validation(run: Run, data: PreparedData) -> SelectedAlignment:
    """The choice on validation pairs of a corpus that has gold alignments for them."""
    return select_alignment(run, read_valid(data), read_valid_gold(data))


class MeasuredAlignment(Settings):
    """The alignment chosen for a run, as its folder keeps it, and what it was chosen by."""

    settings: AlignmentSettings
    by: Literal["gold", "agreement"]
    value: float
    """The alignment error rate against gold, or the agreement with the other direction."""
    pairs: PositiveInt
    """Pairs that it was measured on."""

    def __str__(self) -> str:
        what = "an error" if self.by == "gold" else "an agreement with the other direction"
        return f"chose {self.settings} with {what} of {self.value:.1%} on {self.pairs:,} pairs"


def best_alignment(run: Run) -> AlignmentSettings:
    """The settings that were measured to be best for this run, or the best guess."""
    measured = load_measured_alignment(run)
    return measured.settings if measured else DEFAULT_ALIGNMENT


def load_measured_alignment(run: Run) -> MeasuredAlignment | None:
    """What was measured for this run; None: nothing was."""
    path = run.folder.path / ALIGNMENT_FILE
    if not path.exists():
        return None
    advice = "measure it again with regard align --choose, or remove the file"
    return load_json(path, MeasuredAlignment, advice=advice)


def measure_by_gold(
    run: Run, pairs: Sequence[Pair], gold: Sequence[GoldAlignment], *, cut_apart: bool = False
) -> MeasuredAlignment:
    """The settings whose links err least on pairs with gold, kept in the run's folder."""
    choice = select_alignment(run, pairs, gold, cut_apart=cut_apart)
    return _save_measured(
        run,
        MeasuredAlignment(
            settings=choice.settings, by="gold", value=choice.error, pairs=len(pairs)
        ),
    )


def measure_on_valid(run: Run, data: PreparedData) -> MeasuredAlignment:
    """The same on validation pairs of a corpus that has gold alignments for them."""
    return measure_by_gold(run, read_valid(data), read_valid_gold(data))


def measure_by_agreement(
    run: Run, reverse: Run, pairs: Sequence[Pair], *, cut_apart: bool = False
) -> tuple[MeasuredAlignment, MeasuredAlignment]:
    """The settings of two models, source to target and back, whose links agree most on `pairs`.

    Each is kept in the folder of its run.
    """
    found = select_by_agreement(
        list(pair_attention(run, pairs, cut_apart=cut_apart)),
        list(reverse_attention(reverse, pairs, cut_apart=cut_apart)),
    )
    forward_links, backward_links = (
        MeasuredAlignment(settings=settings, by="agreement", value=found.value, pairs=len(pairs))
        for settings in (found.forward, found.backward)
    )
    return _save_measured(run, forward_links), _save_measured(reverse, backward_links)


def _save_measured(run: Run, measured: MeasuredAlignment) -> MeasuredAlignment:
    """Let `best_alignment` know what was measured."""
    write_atomic(
        run.folder.path / ALIGNMENT_FILE, f"{measured.model_dump_json(indent=1)}\n".encode()
    )
    return measured


def read_valid(data: PreparedData) -> list[Pair]:
    """The validation pairs that a choice is made on."""
    return list(islice(data.read("valid"), NUM_SELECTION_PAIRS))


def read_valid_gold(data: PreparedData) -> list[GoldAlignment]:
    """Their gold alignments, where the corpus has them."""
    return list(islice(read_gold(data, "valid"), NUM_SELECTION_PAIRS))


def read_gold(data: PreparedData, split: SplitName) -> Iterator[GoldAlignment]:
    """The gold alignments of a split that has them."""
    path = data.gold(split)
    check_file(path)
    return read_pharaoh(read_lines(path), name=str(path))
