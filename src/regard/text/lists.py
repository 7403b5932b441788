"""Vocabularies that are lists: the words, or the characters, of the training text."""

import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from regard.errors import TextError
from regard.text.saved import Saved, save_card
from regard.text.settings import TokenizerSettings
from regard.text.special import SPECIAL_PIECES, UNK
from regard.text.table import TableTokenizer
from regard.text.word_units import COMBINING, JOINERS

if TYPE_CHECKING:  # arrays are for training: who only translates imports no NumPy
    from regard.text.flat import Flat

# `\w` knows letters and digits but no signs that combine with them, without which words fall apart.
_PIECE = re.compile(rf" ?(?:\w[\w{JOINERS}{COMBINING}]*|[^\w\s])|\s")


class ListTokenizer(TableTokenizer):
    """The most frequent pieces of the training text; all others are unknown."""

    always: ClassVar[tuple[str, ...]] = ()
    """Pieces known even if no training text holds them."""

    def __init__(self, pieces: Sequence[str], settings: TokenizerSettings) -> None:
        """`pieces` are those after the special ones."""
        spellings = [piece.encode() for piece in pieces]
        super().__init__(settings, spellings, json.dumps(pieces).encode())
        self._pieces = tuple(pieces)
        self._ids = {piece: i for i, piece in enumerate(pieces, start=len(SPECIAL_PIECES))}

    @classmethod
    def learn(cls, texts: Iterable[str], settings: TokenizerSettings) -> Self:
        """The list of the most frequent pieces of `texts`, which are normalised already."""
        counts = Counter(piece for text in texts for piece in cls.cut(text))
        learned = [
            piece
            for piece, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            if count >= settings.min_count and piece not in cls.always
        ]
        if not learned:
            most = max(counts.values(), default=0)
            raise TextError(
                f"none of the {settings.kind} occurs min_count={settings.min_count} times in the "
                f"training text (at most {most} times); lower min_count or add text"
            )
        room = settings.size - len(SPECIAL_PIECES) if settings.size else None
        return cls([*cls.always, *learned][:room], settings)

    @staticmethod
    @abstractmethod
    def cut(text: str) -> list[str]:
        """The pieces of a normalised text."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [
            [self._ids.get(piece, UNK) for piece in self._cut_known(self._normalize(text))]
            for text in texts
        ]

    def resample(self, texts: "Flat", seed: int) -> "Flat":
        return texts

    def save(self, folder: Path, name: str) -> None:
        save_card(Saved(version=1, settings=self.settings, pieces=self._pieces), folder, name)

    def _cut_known(self, text: str) -> list[str]:
        """The pieces of a normalised text, cut where that makes more of them known."""
        return self.cut(text)


class WordTokenizer(ListTokenizer):
    """Words, punctuation marks and spaces: a word and a mark take the one space before them along.

    An unknown word is one UNK, behind a piece for its space, so that a text keeps its spaces and
    its number of words whatever is unknown in it.
    """

    always = (" ",)

    @staticmethod
    def cut(text: str) -> list[str]:
        # The first word gets a space as well, so that it is the same piece as within a text.
        return _PIECE.findall(f" {text}") if text else []

    def decode(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> str:
        return self._join(ids, unknown).removeprefix(" ")

    def _split(self, text: str) -> list[str]:
        pieces = self._cut_known(text)
        return [pieces[0].removeprefix(" "), *pieces[1:]] if pieces else []

    def _cut_known(self, text: str) -> list[str]:
        pieces = []
        for piece in self.cut(text):
            if piece in self._ids or len(piece) == 1 or piece[0] != " ":
                pieces.append(piece)
            else:
                pieces += [" ", piece[1:]]
        return pieces


class CharacterTokenizer(ListTokenizer):
    """Characters (code points), spaces among them."""

    @staticmethod
    def cut(text: str) -> list[str]:
        return list(text)

    def decode(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> str:
        return self._join(ids, unknown)

    def _split(self, text: str) -> list[str]:
        return self.cut(text)
