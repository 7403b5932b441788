"""What tokenizers have in common whose every id spells the same text wherever it stands."""

import hashlib
import json
import unicodedata
from abc import abstractmethod
from collections.abc import Sequence
from itertools import accumulate, pairwise

from regard.text.normalization import normalize
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import SPECIAL_PIECES, UNK, UNK_SURFACE
from regard.text.tokenizer import Tokenizer
from regard.text.word_index import word_ids


class TableTokenizer(Tokenizer):
    """A table from ids to UTF-8, of which a piece may hold a part of a character."""

    def __init__(
        self, settings: TokenizerSettings, piece_bytes: Sequence[bytes], content: bytes
    ) -> None:
        """Give the spellings of the ids after the special ones; `content` tells it from others."""
        self.settings = settings
        special = [UNK_SURFACE.encode() if i == UNK else b"" for i in range(len(SPECIAL_PIECES))]
        self._id_bytes = (*special, *piece_bytes)
        self._content = content

    @property
    def size(self) -> int:
        return len(self._id_bytes)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [
            SPECIAL_PIECES[i] if i < len(SPECIAL_PIECES) else self._display(spelling)
            for i, spelling in zip(ids, self._bytes_of(ids), strict=True)
        ]

    def words(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> list[int | None]:
        return word_ids(self._bytes_of(ids, unknown))

    def surfaces(self, text: str) -> list[str]:
        normal = self._normalize(text)
        surfaces = self._split_surfaces(normal)
        # As long by chance, where one character became two and two others one, is not enough.
        if len(normal) != len(text) or not self._maps_one_to_one(text):
            return surfaces
        places = accumulate(map(len, surfaces), initial=0)
        return [text[first:last] for first, last in pairwise(places)]

    def fingerprint(self) -> str:
        kept = self.settings.model_dump(include={"kind", "form", "lowercase", "sampling"})
        return hashlib.sha256(json.dumps(kept).encode() + self._content).hexdigest()[:16]

    def _normalize(self, text: str) -> str:
        return normalize(text, self.settings.form, lowercase=self.settings.lowercase)

    def _maps_one_to_one(self, text: str) -> bool:
        """Whether no character of `text` is normalised to several."""
        return text.isascii() or all(len(self._normalize(one)) == 1 for one in text)

    @abstractmethod
    def _split_surfaces(self, text: str) -> list[str]:
        """The surfaces of a normalised text."""

    def _decode_bytes(self, ids: Sequence[int], unknown: Sequence[str]) -> str:
        return b"".join(self._bytes_of(ids, unknown)).decode("utf-8", "replace")

    def _bytes_of(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> list[bytes]:
        """The spelling of each id, and for UNK what `unknown` has in its turn."""
        for i in ids:
            if not 0 <= i < self.size:
                raise ValueError(f"id {i} is not in the vocabulary of ids 0 to {self.size - 1}")
        spelled = [self._id_bytes[i] for i in ids]
        if unknown:
            places = [place for place, i in enumerate(ids) if i == UNK]
            for place, text in zip(places, unknown, strict=True):
                spelled[place] = text.encode()
        return spelled

    def _display(self, spelling: bytes) -> str:
        """A piece for readers: bytes as <0xE2> where they are no whole or no visible character."""
        try:
            text = spelling.decode()
        except UnicodeDecodeError:
            return _hexadecimal(spelling)
        return "".join(_visible(letter) for letter in text)


def _visible(letter: str) -> str:
    # Cf: joiners inside words and emoji, which shape their neighbours.
    if letter == " ":
        return "▁"
    seen = letter.isprintable() or unicodedata.category(letter) == "Cf"
    return letter if seen else _hexadecimal(letter.encode())


def _hexadecimal(spelling: bytes) -> str:
    return "".join(f"<0x{byte:02X}>" for byte in spelling)
