"""What an engine is to a translator: lines that were read go in, what is said to them comes out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from regard.decoding.settings import DecodingSettings
from regard.serving.answer import Said
from regard.serving.lines import Line
from regard.text.special import UNK
from regard.text.tokenizer import Tokenizer
from regard.text.word_units import has_unspaced

if TYPE_CHECKING:  # what is only handed on: an engine that does not use it needs no torch
    from regard.decoding.observe import Observe
    from regard.inspection.changes import Change
    from regard.inspection.look import Look


SPACE = "▁"
"""What stands for a space in a piece."""
MOST, LONGEST = 1000, 64
"""Ways to spell a forbidden word that are looked for, and the letters of one that is spelled."""


@dataclass(frozen=True)
class Wanted:
    """How some lines are to be translated, and what is to be known of it: see `Translator`."""

    settings: DecodingSettings
    prefix: str = ""
    forbidden: Sequence[str] = ()
    look: bool = False
    changes: "Sequence[Change]" = ()
    first: int = 0
    unknown: Mapping[str, str] | None = None
    observers: "Sequence[Observe]" = ()

    @property
    def is_plain(self) -> bool:
        """Whether only the translation that a search finds is wanted, not how it came about."""
        more = self.prefix, self.look, self.changes, self.observers, self.settings.sampling
        return not any(more)


class Spoken(NamedTuple):
    """What an engine says to a line."""

    parts: list[list[Said]]
    """The n best of each of its parts; none where there is nothing to translate."""
    looks: "Sequence[Look]" = ()
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
        inside = [tuple(ids) for ids in target.encode(unspaced)]
        phrases += [ids[1:] for ids in inside if ids and pieces[ids[0]] == SPACE]
        phrases += [
            ids
            for word in unspaced
            if len(word) <= LONGEST
            for ids in islice(_spell(_steps(word, pieces)), MOST)
        ]
    return [list(ids) for ids in dict.fromkeys(phrases) if ids and UNK not in ids]


Steps = Sequence[Sequence[tuple[int, int]]]
"""For each place of a word the ids that may come next and where they end, up to its end."""


def _steps(word: str, pieces: Sequence[str]) -> Steps:
    spelled: dict[str, list[int]] = {}
    for id_, piece in enumerate(pieces):
        spelled.setdefault(piece.removeprefix(SPACE), []).append(id_)
    steps: list[list[tuple[int, int]]] = [[] for _ in word]
    for first in reversed(range(len(word))):
        for last in range(first + 1, len(word) + 1):
            if last == len(word) or steps[last]:  # else the rest cannot be spelled
                found = spelled.get(word[first:last], ())
                steps[first] += [
                    (id_, last) for id_ in found if not (first and pieces[id_].startswith(SPACE))
                ]
    return steps


def _spell(steps: Steps, first: int = 0) -> Iterator[tuple[int, ...]]:
    """The ways to spell the rest of a word; its first piece alone may have a space before it."""
    if first == len(steps):
        yield ()
        return
    for id_, last in steps[first]:
        for rest in _spell(steps, last):
            yield (id_, *rest)


class Engine(Protocol):
    """Searches for translations, by one model or several together."""

    def refuses(self, wanted: Wanted) -> str | None:
        """Why it cannot do what is wanted; None: it can."""
        ...

    def speak(self, lines: Sequence[Sequence[Line]], wanted: Wanted) -> list[Spoken]:
        """What is said to each line, in order; `lines` holds them as each model has read them."""
        ...
