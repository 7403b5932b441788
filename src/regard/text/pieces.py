"""What all tokenizers have in common: ids stand for pieces, and pieces for stretches of text."""

from collections.abc import Sequence
from typing import NamedTuple

from regard.text.normalize import SPACE, unescape
from regard.text.special import SPECIAL_PIECES, UNK
from regard.text.tokenizer import Tokenizer

UNKNOWN = "⁇"


class Spelled(NamedTuple):
    """A text, and where each of its tokens lies in its UTF-8."""

    content: bytes
    ends: list[int]


class PieceTokenizer(Tokenizer):
    """A tokenizer that knows its pieces: it can spell, whatever cuts the text."""

    def __init__(self, pieces: Sequence[str], *, space_first: bool, bytes_from: int | None) -> None:
        """`space_first`: each text is cut as if a space stood before it, which spelling drops.

        `bytes_from` is the id of the piece of the first of 256 bytes, if there are such.
        """
        self._pieces, self._space_first = list(pieces), space_first
        self._spellings = [
            _spell(number, piece, bytes_from) for number, piece in enumerate(self._pieces)
        ]

    @property
    def size(self) -> int:
        return len(self._pieces)

    def decode(self, ids: Sequence[int]) -> str:
        return unescape(self._spell(ids).content.decode("utf-8", "replace"))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        self._check(ids)
        return [unescape(self._pieces[token]) for token in ids]

    def words(self, ids: Sequence[int]) -> list[int | None]:
        content, ends = self._spell(ids)
        owners = _word_of_each_byte(content.decode("utf-8", "replace"), content)
        found: list[int | None] = []
        first = 0
        for last in ends:
            inside = [owner for owner in owners[first:last] if owner is not None]
            found.append(inside[0] if inside else None)
            first = last
        return found

    def _spell(self, ids: Sequence[int]) -> Spelled:
        self._check(ids)
        content, ends = bytearray(), []
        drop = self._space_first
        for token in ids:
            spelling = self._spellings[token]
            if drop and spelling:
                spelling, drop = spelling.removeprefix(b" "), False
            content += spelling
            ends.append(len(content))
        return Spelled(bytes(content), ends)

    def _check(self, ids: Sequence[int]) -> None:
        if len(ids) and not (min(ids) >= 0 and max(ids) < self.size):
            raise ValueError(f"ids must be from 0 to {self.size - 1}, got {min(ids)} to {max(ids)}")


def _spell(number: int, piece: str, bytes_from: int | None) -> bytes:
    """What a piece adds to the text."""
    if number == UNK:
        return UNKNOWN.encode()
    if number < len(SPECIAL_PIECES):
        return b""
    if bytes_from is not None and bytes_from <= number < bytes_from + 256:
        return bytes([number - bytes_from])
    return piece.replace(SPACE, " ").encode()


def _word_of_each_byte(text: str, content: bytes) -> list[int | None]:
    """For each byte the number of its word in `text.split()`; None for spaces.

    Bytes that are not UTF-8 read as U+FFFD, which is a letter of a word like any other.
    """
    owners: list[int | None] = []
    word, inside = -1, False
    for letter, length in _letters(text, content):
        if letter.isspace():
            inside = False
        elif not inside:
            word, inside = word + 1, True
        owners += [word if inside else None] * length
    return owners


def _letters(text: str, content: bytes) -> list[tuple[str, int]]:
    """Each letter of `text`, which `content` was decoded to, with the bytes that it took."""
    if text.encode() == content:
        return [(letter, len(letter.encode())) for letter in text]
    letters, place = [], 0
    while place < len(content):
        for length in (1, 2, 3, 4):
            try:
                letters.append((content[place : place + length].decode(), length))
                break
            except UnicodeDecodeError:
                continue
        else:
            length = 1
            letters.append(("\ufffd", 1))
        place += length
    return letters
