"""Pairs of sentences -> word alignments, by what a model attends to when it is told the target."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice, pairwise, tee
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

from pydantic import PositiveInt

from regard.batching.collate import pad, pad_source
from regard.corpora.pairs import Pair, SplitName
from regard.corpora.readers import read_lines
from regard.errors import CorpusError, SettingsError
from regard.evaluation.pharaoh import read_pharaoh
from regard.files import write_whole
from regard.inspection.alignment import UNMEASURED, AlignmentSettings, align_text, align_together
from regard.inspection.record import Attention, Axis, Part, count_heads, record
from regard.inspection.symmetrize import Symmetry, flip, symmetrize
from regard.json_files import load_json
from regard.manifest import check
from regard.models.contracts import AnyModel
from regard.nouns import GoldAlignment, Link
from regard.recipes.prepare import Data
from regard.recipes.run_folder import Run
from regard.serving.choosing import Choice, choose_by_agreement, choose_by_gold
from regard.serving.lines import plain_spaces
from regard.settings import Settings
from regard.streams import chunked
from regard.text.flat import Ids
from regard.text.gluing import glue
from regard.text.special import BOS
from regard.text.tokenizer import Tokenizer
from regard.types import Watch

CROSS: tuple[Part, ...] = ("cross",)
CHUNK = 64
"""Pairs recorded together."""
CHOSEN_ON = 200
"""Pairs of the validation split that the best alignment is chosen on."""
KEPT = "alignment.json"
"""The file of a run's folder that holds what was measured."""


class TokenPair(NamedTuple):
    """The ids of a sentence and of its translation, without BOS and EOS."""

    source: Ids
    target: Ids


_ATTEND: WeakKeyDictionary[AnyModel, bool] = WeakKeyDictionary()
"""What was found out of models: each has to be run for it, and a server asks for every batch."""


def attends(run: Run) -> bool:
    """Whether the run's model attends to the source at all."""
    if run.model not in _ATTEND:
        _ATTEND[run.model] = "cross" in count_heads(run.model)
    return _ATTEND[run.model]


def attend_pairs(
    run: Run, pairs: Iterable[Pair], *, cut_apart: bool = False
) -> Iterator[Attention]:
    """The cross attention of each pair, in order.

    Of pairs that are `cut_apart`, marks stand alone as words, as tools part them; the model reads
    them as people write them, and the words of the attention are still those that were given.
    """
    source, target = run.tokenizers
    if cut_apart:
        yield from _attend_glued(run, pairs)
        return
    yield from attend_tokens(
        run,
        (TokenPair(_ids(pair.source, source), _ids(pair.target, target)) for pair in pairs),
    )


def _ids(text: str, tokenizer: Tokenizer) -> Ids:
    return tokenizer.encode([plain_spaces(text.strip(), tokenizer)])[0]


def _attend_glued(run: Run, pairs: Iterable[Pair]) -> Iterator[Attention]:
    """The attention of glued pairs between the words that they were glued from."""
    tokenizers = run.tokenizers
    kept, read = tee(pairs)
    glued = (Pair(*(glue(side.split()).text for side in pair)) for pair in read)
    for pair, attention in zip(kept, attend_pairs(run, glued), strict=True):
        columns, rows = (
            _given_words(axis, side.split(), tokenizer)
            for axis, side, tokenizer in zip(
                (attention.columns, attention.rows), pair, tokenizers, strict=True
            )
        )
        yield replace(attention, rows=rows, columns=columns)


def _given_words(axis: Axis, words: Sequence[str], tokenizer: Tokenizer) -> Axis:
    """The same pieces, each with the word it came from before the words were glued."""
    glued = glue(words)
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


def attend_tokens(
    run: Run, pairs: Iterable[TokenPair], *, change: Watch | None = None
) -> Iterator[Attention]:
    """The cross attention of each pair of sentences in tokens, as `change` would have it."""
    source, target = run.tokenizers
    for chunk in chunked(pairs, CHUNK):
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


class Worded(NamedTuple):
    """A sentence and its translation in tokens, and the words that are to be seen along them."""

    source: Ids
    target: Ids
    columns: Axis
    """The words of the source; a place for each token, and for EOS."""
    rows: Axis
    """Those of the target."""


def attend_words(
    run: Run, pairs: Iterable[Worded], *, change: Watch | None = None
) -> Iterator[Attention]:
    """The cross attention of each pair between the words that it comes with."""
    kept, read = tee(pairs)
    tokens = (TokenPair(one.source, one.target) for one in read)
    for one, attention in zip(kept, attend_tokens(run, tokens, change=change), strict=True):
        yield replace(attention, rows=one.rows, columns=one.columns)


def align_pairs(
    run: Run, pairs: Iterable[Pair], settings: AlignmentSettings, *, cut_apart: bool = False
) -> Iterator[frozenset[Link]]:
    """The links of each pair, in order."""
    attentions = attend_pairs(run, pairs, cut_apart=cut_apart)
    return (align_text(attention, settings) for attention in attentions)


class Directed(NamedTuple):
    """A model of one direction, and how its alignment is read."""

    run: Run
    settings: AlignmentSettings


def align_both(
    forward: Directed,
    backward: Directed,
    pairs: Iterable[Pair],
    how: Symmetry | None = None,
    *,
    cut_apart: bool = False,
) -> Iterator[frozenset[Link]]:
    """The links of each pair, in order, by two models: source to target, and back.

    By default their maps are averaged and read as one. With `how`, each model gives each word that
    it answers its best word of the other side, and these links are put together in that way.
    """
    by_rows = [way.settings.model_copy(update={"links": "rows"}) for way in (forward, backward)]
    kept, read = tee(pairs)
    attentions = attend_pairs(forward.run, kept, cut_apart=cut_apart)
    back = attend_back(backward.run, read, cut_apart=cut_apart)
    for one, other in zip(attentions, back, strict=True):
        if how is None:
            yield align_together(one, other, (forward.settings, backward.settings))
        else:
            here, there = align_text(one, by_rows[0]), flip(align_text(other, by_rows[1]))
            yield symmetrize(here, there, how)


def attend_back(run: Run, pairs: Iterable[Pair], *, cut_apart: bool = False) -> Iterator[Attention]:
    """The cross attention of a model from target to source, for each pair of source and target."""
    turned = (Pair(pair.target, pair.source) for pair in pairs)
    return attend_pairs(run, turned, cut_apart=cut_apart)


def choose_alignment(
    run: Run, pairs: Sequence[Pair], gold: Sequence[GoldAlignment], *, cut_apart: bool = False
) -> Choice:
    """The settings whose links err least on pairs with gold alignments."""
    return choose_by_gold(list(attend_pairs(run, pairs, cut_apart=cut_apart)), gold)


def choose_on_valid(run: Run, data: Data) -> Choice:
    """The choice on validation pairs of a corpus that has gold alignments for them."""
    return choose_alignment(run, read_valid(data), read_valid_gold(data))


class Measured(Settings):
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
    measured = measured_alignment(run)
    return measured.settings if measured else UNMEASURED


def measured_alignment(run: Run) -> Measured | None:
    """What was measured for this run; None: nothing was."""
    path = run.folder.path / KEPT
    if not path.exists():
        return None
    advice = "measure it again with regard align --choose, or remove the file"
    return load_json(path, Measured, advice=advice)


def measure_by_gold(
    run: Run, pairs: Sequence[Pair], gold: Sequence[GoldAlignment], *, cut_apart: bool = False
) -> Measured:
    """The settings whose links err least on pairs with gold, kept in the run's folder."""
    choice = choose_alignment(run, pairs, gold, cut_apart=cut_apart)
    return _keep(
        run, Measured(settings=choice.settings, by="gold", value=choice.error, pairs=len(pairs))
    )


def measure_on_valid(run: Run, data: Data) -> Measured:
    """The same on validation pairs of a corpus that has gold alignments for them."""
    return measure_by_gold(run, read_valid(data), read_valid_gold(data))


def measure_by_agreement(
    run: Run, reverse: Run, pairs: Sequence[Pair], *, cut_apart: bool = False
) -> tuple[Measured, Measured]:
    """The settings of two models, source to target and back, whose links agree most on `pairs`.

    Each is kept in the folder of its run.
    """
    found = choose_by_agreement(
        list(attend_pairs(run, pairs, cut_apart=cut_apart)),
        list(attend_back(reverse, pairs, cut_apart=cut_apart)),
    )
    here, there = (
        Measured(settings=settings, by="agreement", value=found.value, pairs=len(pairs))
        for settings in (found.forward, found.backward)
    )
    return _keep(run, here), _keep(reverse, there)


def _keep(run: Run, measured: Measured) -> Measured:
    """Let `best_alignment` know what was measured."""
    write_whole(run.folder.path / KEPT, f"{measured.model_dump_json(indent=1)}\n".encode())
    return measured


def read_valid(data: Data) -> list[Pair]:
    """The validation pairs that a choice is made on."""
    return list(islice(data.read("valid"), CHOSEN_ON))


def read_valid_gold(data: Data) -> list[GoldAlignment]:
    """Their gold alignments, where the corpus has them."""
    return list(islice(read_gold(data, "valid"), CHOSEN_ON))


def read_gold(data: Data, split: SplitName) -> Iterator[GoldAlignment]:
    """The gold alignments of a split that has them."""
    path = data.gold(split)
    check(path)
    return read_pharaoh(read_lines(path), name=str(path))
