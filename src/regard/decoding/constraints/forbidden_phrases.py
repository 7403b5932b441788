"""Forbidden words -> the ids of all their spellings, without torch."""

from collections.abc import Iterator, Sequence
from itertools import islice

from regard.text.special_tokens import UNK
from regard.text.tokenizer import Tokenizer
from regard.text.word_units import has_unspaced

SPACE_MARK = "▁"  # stands for a space in a piece
MAX_SPELLINGS, MAX_SPELLED_CHARACTERS = 1000, 64  # of a forbidden word


def forbidden_phrases(forbidden: Sequence[str], target: Tokenizer) -> list[list[int]]:
    """The ids of phrases; those with unknown pieces are left out, as they would forbid UNK.

    A word of a script without spaces has all its spellings here: within a sentence it may be split
    into other pieces.
    """
    first = len(target.opening)  # tokens that precede every text are not forbidden
    phrases = [tuple(ids[first:]) for ids in target.encode(list(forbidden))]
    unspaced = [word.strip() for word in forbidden if has_unspaced(word)]
    if unspaced:
        pieces = target.pieces(range(target.size))
        mid_sentence = [tuple(ids[first:]) for ids in target.encode(unspaced)]
        phrases += [ids[1:] for ids in mid_sentence if ids and pieces[ids[0]] == SPACE_MARK]
        phrases += [
            ids
            for word in unspaced
            if len(word) <= MAX_SPELLED_CHARACTERS
            for ids in islice(_spellings(_spelling_lattice(word, pieces)), MAX_SPELLINGS)
        ]
    return [list(ids) for ids in dict.fromkeys(phrases) if ids and UNK not in ids]


SpellingLattice = Sequence[Sequence[tuple[int, int]]]
"""For each position of a word, the ids that may start there and the positions where they end."""


def _spelling_lattice(word: str, pieces: Sequence[str]) -> SpellingLattice:
    ids_by_surface: dict[str, list[int]] = {}
    for id_, piece in enumerate(pieces):
        ids_by_surface.setdefault(piece.removeprefix(SPACE_MARK), []).append(id_)
    lattice: list[list[tuple[int, int]]] = [[] for _ in word]
    for first in reversed(range(len(word))):
        for last in range(first + 1, len(word) + 1):
            if last == len(word) or lattice[last]:  # the rest has a spelling
                lattice[first] += [
                    (id_, last)
                    for id_ in ids_by_surface.get(word[first:last], ())
                    if not (first and pieces[id_].startswith(SPACE_MARK))
                ]
    return lattice


def _spellings(lattice: SpellingLattice, first: int = 0) -> Iterator[tuple[int, ...]]:
    """The spellings of the rest of a word; only its first piece may begin with a space."""
    if first == len(lattice):
        yield ()
        return
    for id_, last in lattice[first]:
        for rest in _spellings(lattice, last):
            yield (id_, *rest)
