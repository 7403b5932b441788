"""A document in two halves: the lines to translate, and what makes a document of their answers."""

from collections.abc import Sequence
from typing import Protocol


class Document(Protocol):
    """What is to be translated, and how it is put back."""

    @property
    def lines(self) -> list[str]:
        """What is to be translated, in order: text that may hold inline markup."""

    def join(self, answers: Sequence[str], /) -> str:
        """The document with the translation of each line in its place."""
