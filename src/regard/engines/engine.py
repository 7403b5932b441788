"""What an engine is to a translator: lines that were read go in, what is said to them comes out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from regard.decoding.settings import DecodingSettings
from regard.text.preprocess import TokenizedLine
from regard.text.special_tokens import UNK
from regard.text.tokenizer import Tokenizer
from regard.text.word_units import has_unspaced
from regard.types import Hypothesis

if TYPE_CHECKING:  # what is only handed on: an engine that does not use it needs no torch
    from regard.decoding.tracing.observer import SearchObserver
    from regard.engines.native.attention_capture import AttentionCapture
    from regard.inspection.interventions import Intervention


SPACE_MARK = "▁"
"""What stands for a space in a piece."""
MAX_SPELLINGS, MAX_SPELLED_CHARACTERS = 1000, 64
"""Ways to spell a forbidden word that are looked for, and the letters of one that is spelled."""


class FilledHypothesis(NamedTuple):
    """One of the best translations of a part of a line."""

    hypothesis: Hypothesis
    unknown: Sequence[str] = ()
    """What stands for its unknown words; none: they stay unknown."""


@dataclass(frozen=True)
class TranslationRequest:
    """How some lines are to be translated, and what is to be known of it: see `Translator`."""

    settings: DecodingSettings
    prefix: str = ""
    forbidden: Sequence[str] = ()
    look: bool = False
    changes: "Sequence[Intervention]" = ()
    first: int = 0
    unknown: Mapping[str, str] | None = None
    observers: "Sequence[SearchObserver]" = ()

    @property
    def is_plain(self) -> bool:
        """Whether only the translation that a search finds is wanted, not how it came about."""
        more = self.prefix, self.look, self.changes, self.observers, self.settings.sampling
        return not any(more)


class EngineResult(NamedTuple):
    """What an engine says to a line."""

    parts: list[list[FilledHypothesis]]
    """The n best of each of its parts; none where there is nothing to translate."""
    looks: "Sequence[AttentionCapture]" = ()
    """What was attended to in each of them, if asked for."""


def forbidden_phrases(forbidden: Sequence[str], target: Tokenizer) -> list[list[int]]:
    """The ids of phrases; one that is unknown in part would forbid all that is unknown.

    A word of a script without spaces stands inside a sentence, too, and there it may be cut into
    pieces otherwise: all ways to spell it are forbidden. A longer piece that holds it is not.
    """
    phrases = [tuple(ids) for ids in target.encode(list(forbidden))]
    unspaced = [word.strip() for word in forbidden if has_unspaced(word)]
    if unspaced:
        pieces = target.pieces(range(target.size))
        mid_sentence = [tuple(ids) for ids in target.encode(unspaced)]
        phrases += [ids[1:] for ids in mid_sentence if ids and pieces[ids[0]] == SPACE_MARK]
        phrases += [
            ids
            for word in unspaced
            if len(word) <= MAX_SPELLED_CHARACTERS
            for ids in islice(_spellings(_spelling_lattice(word, pieces)), MAX_SPELLINGS)
        ]
    return [list(ids) for ids in dict.fromkeys(phrases) if ids and UNK not in ids]


SpellingLattice = Sequence[Sequence[tuple[int, int]]]
"""For each place of a word the ids that may come next and where they end, up to its end."""


def _spelling_lattice(word: str, pieces: Sequence[str]) -> SpellingLattice:
    ids_by_surface: dict[str, list[int]] = {}
    for id_, piece in enumerate(pieces):
        ids_by_surface.setdefault(piece.removeprefix(SPACE_MARK), []).append(id_)
    lattice: list[list[tuple[int, int]]] = [[] for _ in word]
    for first in reversed(range(len(word))):
        for last in range(first + 1, len(word) + 1):
            if last == len(word) or lattice[last]:  # else the rest cannot be spelled
                found = ids_by_surface.get(word[first:last], ())
                lattice[first] += [
                    (id_, last)
                    for id_ in found
                    if not (first and pieces[id_].startswith(SPACE_MARK))
                ]
    return lattice


def _spellings(lattice: SpellingLattice, first: int = 0) -> Iterator[tuple[int, ...]]:
    """The ways to spell the rest of a word; its first piece alone may have a space before it."""
    if first == len(lattice):
        yield ()
        return
    for id_, last in lattice[first]:
        for rest in _spellings(lattice, last):
            yield (id_, *rest)


class Engine(Protocol):
    """Searches for translations, by one model or several together."""

    def unsupported_reason(self, request: TranslationRequest) -> str | None:
        """Why it cannot do what is wanted; None: it can."""
        ...

    def translate_lines(
        self, lines: Sequence[Sequence[TokenizedLine]], request: TranslationRequest
    ) -> list[EngineResult]:
        """What is said to each line, in order; `lines` holds them as each model has read them."""
        ...
