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


class Part(NamedTuple):
    """A stretch of a document."""

    text: str
    says: bool = False
    """Whether it is a line to translate; all else stays as it is."""


@dataclass(frozen=True)
class Parts:
    """A document whose every part is kept or translated alone."""

    parts: Sequence[Part]

    @property
    def lines(self) -> list[str]:
        return [part.text for part in self.parts if part.says]

    def join(self, answers: Sequence[str], /) -> str:
        rest = iter(answers)
        return "".join(next(rest) if part.says else part.text for part in self.parts)


def says(text: str) -> bool:
    """Whether there is anything to translate: a letter."""
    return any(map(str.isalpha, text))
