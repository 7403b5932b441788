"""A document in two halves: the lines to translate, and what makes a document of their answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Document(Protocol):
    """What is to be translated, and how it is put back."""

    @property
    def lines(self) -> list[str]:
        """What is to be translated, in order: text that may hold inline markup."""

    def join(self, answers: Sequence[str], /) -> str:
        """The document with the translation of each line in its place."""


class Segment(NamedTuple):
    """A stretch of a document."""

    text: str
    says: bool = False
    """Whether it is a line to translate; all else stays as it is."""


@dataclass(frozen=True)
class Segments:
    """A document whose every part is kept or translated alone."""

    parts: Sequence[Segment]

    @property
    def lines(self) -> list[str]:
        return [part.text for part in self.parts if part.says]

    def join(self, answers: Sequence[str], /) -> str:
        rest = iter(answers)
        return "".join(next(rest) if part.says else part.text for part in self.parts)
