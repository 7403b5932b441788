"""Tokenizers whose vocabulary is a list of the words or characters of the training text."""

import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from regard.errors import TextError
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import SPECIAL_PIECES, UNK
from regard.text.tokenizer import Tokenizer, TokenizerCard
from regard.text.word_units import COMBINING, JOINERS

if TYPE_CHECKING:  # only training needs arrays: translation must not import NumPy
    from regard.text.ragged import Ragged

# `\w` excludes combining marks, which would split words.
_PIECE = re.compile(rf" ?(?:\w[\w{JOINERS}{COMBINING}]*|[^\w\s])|\s")


class VocabTokenizer(Tokenizer):
    """The most frequent pieces of the training text; all others are unknown."""

    required_pieces: ClassVar[tuple[str, ...]] = ()
    """Pieces that are always in the vocabulary."""

    def __init__(self, pieces: Sequence[str], settings: TokenizerSettings) -> None:
        """`pieces` exclude the special ones."""
        piece_bytes = [piece.encode() for piece in pieces]
        super().__init__(settings, piece_bytes, json.dumps(pieces).encode())
        self._pieces = tuple(pieces)
        self._ids = {piece: i for i, piece in enumerate(pieces, start=len(SPECIAL_PIECES))}

    @classmethod
    def train(cls, texts: Iterable[str], settings: TokenizerSettings) -> Self:
        """A tokenizer of the most frequent pieces of `texts`, which are normalised already."""
        counts = Counter(piece for text in texts for piece in cls.split_pieces(text))
        learned = [
            piece
            for piece, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            if count >= settings.min_count and piece not in cls.required_pieces
        ]
        if not learned:
            most = max(counts.values(), default=0)
            raise TextError(
                f"none of the {settings.kind} occurs min_count={settings.min_count} times in the "
                f"training text (at most {most} times); lower min_count or add text"
            )
        limit = settings.size - len(SPECIAL_PIECES) if settings.size else None
        return cls([*cls.required_pieces, *learned][:limit], settings)

    @staticmethod
    @abstractmethod
    def split_pieces(text: str) -> list[str]:
        """The pieces of a normalised text."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [
            [self._ids.get(piece, UNK) for piece in self._split_known(self._normalize(text))]
            for text in texts
        ]

    def sample_segmentation(self, texts: "Ragged", seed: int) -> "Ragged":
        return texts

    def _card(self) -> TokenizerCard:
        return TokenizerCard(version=1, settings=self.settings, pieces=self._pieces)

    def _split_known(self, text: str) -> list[str]:
        """The pieces of a normalised text, split further if that makes more of them known."""
        return self.split_pieces(text)


class WordTokenizer(VocabTokenizer):
    """Words and punctuation marks, each with the space before it; other spaces are pieces.

    An unknown word is one UNK behind a piece for its space, so the number of words is kept.
    """

    required_pieces = (" ",)

    @staticmethod
    def split_pieces(text: str) -> list[str]:
        # The first word gets a space too, so that it is the same piece as inside a text.
        return _PIECE.findall(f" {text}") if text else []

    def decode(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> str:
        return self._decode_bytes(ids, unknown).removeprefix(" ")

    def _split_surfaces(self, text: str) -> list[str]:
        pieces = self._split_known(text)
        return [pieces[0].removeprefix(" "), *pieces[1:]] if pieces else []

    def _split_known(self, text: str) -> list[str]:
        pieces = []
        for piece in self.split_pieces(text):
            if piece in self._ids or len(piece) == 1 or piece[0] != " ":
                pieces.append(piece)
            else:
                pieces += [" ", piece[1:]]
        return pieces


class CharacterTokenizer(VocabTokenizer):
    """Characters (code points), including spaces."""

    @staticmethod
    def split_pieces(text: str) -> list[str]:
        return list(text)

    def decode(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> str:
        return self._decode_bytes(ids, unknown)

    def _split_surfaces(self, text: str) -> list[str]:
        return self.split_pieces(text)
