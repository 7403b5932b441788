"""What an engine is to a translator: lines that were read go in, what is said to them comes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from regard.decoding.settings import DecodingSettings
from regard.serving.answer import Said
from regard.serving.lines import Line
from regard.text.special import UNK
from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:  # what is only handed on: an engine that does not use it needs no torch
    from regard.decoding.observe import Observe
    from regard.inspection.changes import Change
    from regard.inspection.look import Look


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
    """The ids of phrases; one that is unknown in part would forbid all that is unknown."""
    return [ids for ids in target.encode(list(forbidden)) if ids and UNK not in ids]


class Engine(Protocol):
    """Searches for translations, by one model or several together."""

    def refuses(self, wanted: Wanted) -> str | None:
        """Why it cannot do what is wanted; None: it can."""
        ...

    def speak(self, lines: Sequence[Sequence[Line]], wanted: Wanted) -> list[Spoken]:
        """What is said to each line, in order; `lines` holds them as each model has read them."""
        ...
