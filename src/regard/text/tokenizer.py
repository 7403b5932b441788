"""Tokenizers: text <-> ids without loss, by the bytes of each id; those of words and characters.

A tokenizer is saved as a card, `name.json`, and for subwords `name.model` beside it.
"""

import hashlib
import json
import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import ValidationError, model_validator

from regard.atomic_io import read_limited, write_atomic
from regard.errors import TextError
from regard.json_files import describe_error
from regard.manifest import check_file
from regard.settings import Settings
from regard.text.settings import FILE_KINDS, IMPORTED_KINDS, Form, TokenizerSettings
from regard.text.special_tokens import SPECIAL_PIECES, UNK, UNK_SURFACE
from regard.text.vocabulary_extension import INSTEAD, Merge
from regard.text.vocabulary_map import VocabularyMap
from regard.text.word_units import COMBINING, JOINERS, byte_word_ids

if TYPE_CHECKING:  # only training needs arrays: translation must not import NumPy
    from regard.text.ragged import Ragged

_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACED_PIECE = re.compile(r" ?\S+|\s")
# `\w` excludes combining marks, which would split words.
_WORD_PIECE = re.compile(rf" ?(?:\w[\w{JOINERS}{COMBINING}]*|[^\w\s])|\s")


def normalize(text: str, form: Form, *, lowercase: bool) -> str:
    """`text` in a Unicode form and, if asked, in lower case; the function is idempotent."""
    if found := _SURROGATE.search(text):
        raise TextError(
            f"the text has half a surrogate pair, {found.group()!r}, as character "
            f"{found.start() + 1} of {len(text)}, which UTF-8 cannot encode; "
            "read its file as UTF-8 or repair the text"
        )
    if lowercase:
        # Compose before and after lower(): NFKC maps ℌ to a capital, lower() may decompose.
        text = _compose(text, form).lower()
    return _compose(text, form)


def _compose(text: str, form: Form) -> str:
    if form == "none":
        return text
    return unicodedata.normalize("NFC" if form == "nfc" else "NFKC", text)


class Tokenizer(ABC):
    """A vocabulary, and how text is segmented into its pieces, which may be parts of a character.

    Ids exclude BOS, EOS, PAD. Without unknown pieces `decode(encode(text))` is the normalised text.
    """

    leading_space: bool = False  # whether a space is put before each text to encode
    separators: int = 1
    """How many EOS stand between the two texts of a pair."""
    pair_segments: bool = True
    """Whether the second text of a pair has another segment than the first."""
    text_prefix: tuple[int, ...] | None = None
    """The ids that an imported tokenizer puts before each text; None: the recipe decides."""
    opening: tuple[int, ...] = ()
    """Ids that `encode` puts before each text, such as its language."""
    vocabulary_map: VocabularyMap | None = None
    """How ids map to those of the imported vocabulary; None: it was learned here."""

    def __init__(
        self,
        settings: TokenizerSettings,
        piece_bytes: Sequence[bytes],
        content: bytes,
        markers: Mapping[int, str] | None = None,
    ) -> None:
        """`piece_bytes`: the bytes of all ids but the special ones; `content` is fingerprinted.

        `markers`: the names of special ids, which have no text: languages, for example, and BOS if
        it has another name than ours.
        """
        self.settings, self._markers = settings, dict(markers or {})
        unknown = UNK_SURFACE if self.vocabulary_map is None else ""
        special = [unknown.encode() if i == UNK else b"" for i in range(len(SPECIAL_PIECES))]
        self._id_bytes = (*special, *piece_bytes)
        self._content = content

    @property
    def content(self) -> bytes:
        """The content of the file beside its card."""
        return self._content

    @property
    def pieces_hold_spaces(self) -> bool:
        """Whether the space before a word is a part of the word's first piece."""
        return self.leading_space

    @property
    def size(self) -> int:
        """Ids run from 0 to `size` - 1, the four special ones first."""
        return len(self._id_bytes)

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, after the normalisation of the settings."""

    def encode_continued(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts that each continue another text: no space is put before them.

        A text that is cut after line ends has the same ids in parts as in one piece.
        """
        if not self.leading_space:
            return self.encode(texts)
        first = len(self.encode(["\n"])[0])  # no piece continues after a line end
        return [ids[first:] for ids in self.encode([f"\n{text}" for text in texts])]

    @abstractmethod
    def _split_surfaces(self, text: str) -> list[str]:
        """The surfaces of a normalised text, with the leading space if there is one."""

    def sample_segmentation(self, texts: "Ragged", seed: int) -> "Ragged":
        """Ids of texts segmented at random by the seed, given the ids of `encode`."""
        return texts

    def decode(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> str:
        """The text of the ids, without special ones; each UNK is `⁇`, or the next of `unknown`.

        With an imported vocabulary UNK has no text, as in `transformers`.
        """
        text = b"".join(self._text_bytes(ids, unknown)).decode("utf-8", "replace")
        return text.removeprefix(" ") if self.leading_space else text

    def save(self, folder: Path, name: str) -> None:
        """Write `name`.* into `folder`, for `text.build.load_tokenizer` to read."""
        if self.settings.kind in FILE_KINDS:
            write_atomic(folder / f"{name}.model", self._content)
            digest, mapped = hashlib.sha256(self._content).hexdigest(), self.vocabulary_map
            card = TokenizerCard(
                version=1,
                settings=self.settings,
                model_sha256=digest,
                vocabulary=mapped,
                opening=self.opening or None,
            )
        else:
            pieces = tuple(json.loads(self._content))
            card = TokenizerCard(version=1, settings=self.settings, pieces=pieces)
        text = card.model_dump_json(indent=1, exclude_none=True)
        write_atomic(folder / f"{name}.json", f"{text}\n".encode())

    def surfaces(self, text: str) -> list[str]:
        """For each id of `encode([text])`, the part of `text` that it covers; of the normalised
        text if characters do not map one to one. A character of several ids belongs to the last of
        them.
        """
        normal = self._normalize(text)
        surfaces = self._split_surfaces(normal)
        if self.leading_space and surfaces:
            surfaces[0] = surfaces[0].removeprefix(" ")
        # Equal lengths are not enough: one character may become two, and two others one.
        one_to_one = text.isascii() or all(len(self._normalize(char)) == 1 for char in text)
        if len(normal) != len(text) or not one_to_one:
            return surfaces
        offsets = accumulate(map(len, surfaces), initial=0)
        return [text[first:last] for first, last in pairwise(offsets)]

    def words(self) -> list[str]:
        """The text of each id, without the space before it; special ones as they are written."""
        ids = range(len(SPECIAL_PIECES), self.size)
        return [*SPECIAL_PIECES, *(self._markers.get(i) or self.decode([i]) for i in ids)]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each id in readable form: `▁` for a space, `<0x0A>` for an invisible byte."""
        return [
            self._markers.get(i) or self._special_name(i) or self._display(spelling)
            for i, spelling in zip(ids, self._bytes_of(ids), strict=True)
        ]

    def row_names(self) -> list[str | bytes]:
        """What each id stands for: a special token by name, a piece by its bytes."""
        return [self._special_name(i) or spelled for i, spelled in enumerate(self._id_bytes)]

    def _special_name(self, i: int) -> str | None:
        """How a special id is written; None if the id is not special."""
        return SPECIAL_PIECES[i] if i < len(SPECIAL_PIECES) else self._markers.get(i)

    def learn_pieces(self, texts: Iterable[str], count: int) -> list[Merge]:
        """At most `count` pieces that are frequent in `texts` and not in the vocabulary."""
        raise self._extension_error()

    def with_pieces(self, merges: Sequence[Merge]) -> "Tokenizer":
        """The tokenizer with further pieces after all others, which keep their ids."""
        raise self._extension_error()

    def _extension_error(self) -> TextError:
        return TextError(f"a vocabulary of kind {self.settings.kind} cannot be extended; {INSTEAD}")

    def _extended_settings(self, size: int) -> TokenizerSettings:
        """The settings of a larger vocabulary; a size of 0 (all pieces) stays 0."""
        return self.settings.model_copy(update={"size": size if self.settings.size else 0})

    def word_ids(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> list[int | None]:
        """For each id the index of the first word (of `split_units`) of `decode(ids, unknown)` that
        it is part of; None for a space.
        """
        return byte_word_ids(self._text_bytes(ids, unknown))

    def space_edges(self) -> list[tuple[bool, bool]]:
        """For each id, whether its text begins, and whether it ends, with white space."""
        return [(one[:1].isspace(), one[-1:].isspace()) for one in self._id_bytes]

    def same_ids(self, other: "Tokenizer") -> bool:
        """Whether each id is the same piece in both."""
        same = self.row_names() == other.row_names()
        return same and self.vocabulary_map == other.vocabulary_map

    def fingerprint(self) -> str:
        """A short hash of all that determines the tokenizer's results."""
        kept = self.settings.model_dump(include={"kind", "form", "lowercase", "sampling"})
        before = json.dumps(self.opening).encode() if self.opening else b""
        return hashlib.sha256(json.dumps(kept).encode() + before + self._content).hexdigest()[:16]

    def _normalize(self, text: str) -> str:
        return normalize(text, self.settings.form, lowercase=self.settings.lowercase)

    def _bytes_of(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> list[bytes]:
        """The bytes of each id; those of the n-th UNK are `unknown[n]`, if given."""
        for i in ids:
            if not 0 <= i < self.size:
                raise ValueError(f"id {i} is not in the vocabulary of ids 0 to {self.size - 1}")
        spelled = [self._id_bytes[i] for i in ids]
        if unknown:
            places = [place for place, i in enumerate(ids) if i == UNK]
            for place, text in zip(places, unknown, strict=True):
                spelled[place] = text.encode()
        return spelled

    def _text_bytes(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> list[bytes]:
        """The bytes that each id adds to the text of all of them."""
        return self._bytes_of(ids, unknown)

    def _display(self, spelling: bytes) -> str:
        """A readable piece: incomplete and invisible characters as bytes, such as <0xE2>."""
        try:
            text = spelling.decode()
        except UnicodeDecodeError:
            return _hexadecimal(spelling)
        return "".join(_visible(char) for char in text)


def _visible(char: str) -> str:
    if char == " ":
        return "▁"
    # Cf: joiners inside words and emoji, which shape their neighbours.
    visible = char.isprintable() or unicodedata.category(char) == "Cf"
    return char if visible else _hexadecimal(char.encode())


def _hexadecimal(spelling: bytes) -> str:
    return "".join(f"<0x{byte:02X}>" for byte in spelling)


class TokenizerCard(Settings):
    """The content of `name.json`."""

    version: Literal[1]
    settings: TokenizerSettings
    pieces: tuple[str, ...] | None = None
    """For words and characters: the vocabulary after the special pieces."""
    model_sha256: str | None = None
    """For subwords: the digest of the file beside the card, to notice files that do not match."""
    vocabulary: VocabularyMap | None = None
    """For imported tokenizers: the ids of the tokens in the imported vocabulary."""
    opening: tuple[int, ...] | None = None
    """For imported tokenizers: ids before each text."""

    @model_validator(mode="after")
    def _refuse_what_no_tokenizer_saves(self) -> Self:
        has_file = self.settings.kind in FILE_KINDS
        imported = self.settings.kind in IMPORTED_KINDS
        if (self.model_sha256 is not None, self.pieces is not None) != (has_file, not has_file):
            wanted = "model_sha256" if has_file else "pieces"
            raise ValueError(f"kind {self.settings.kind} needs {wanted} and nothing else")
        if (self.vocabulary is not None) != imported:
            raise ValueError("imported tokenizers, and only these, need vocabulary")
        pieces = self.pieces or ()
        if "" in pieces or len({*pieces}) < len(pieces):
            raise ValueError("a piece is empty or listed twice")
        return self


class VocabTokenizer(Tokenizer):
    """The most frequent pieces of the training text; all others are unknown."""

    required_pieces: ClassVar[tuple[str, ...]] = ()  # pieces that are always in the vocabulary
    unknown_pieces: ClassVar[tuple[str, ...]] = ()  # pieces that are never in it

    def __init__(self, pieces: Sequence[str], settings: TokenizerSettings) -> None:
        """`pieces` exclude the special ones."""
        piece_bytes = [piece.encode() for piece in pieces]
        super().__init__(settings, piece_bytes, json.dumps(pieces).encode())
        self._ids = {piece: i for i, piece in enumerate(pieces, start=len(SPECIAL_PIECES))}

    @classmethod
    def train(cls, texts: Iterable[str], settings: TokenizerSettings) -> Self:
        """A tokenizer of the most frequent pieces of `texts`, which are normalised already."""
        symbols = settings.symbols
        fixed = (*cls.required_pieces, *map(cls.spell_symbol, symbols))
        counts = Counter(piece for text in texts for piece in cls.split_pieces(text, symbols))
        learned = _most_frequent(counts, settings, {*fixed, *cls.unknown_pieces})
        if not learned:
            most = max(counts.values(), default=0)
            raise TextError(
                f"none of the {settings.kind} occurs min_count={settings.min_count} times in the "
                f"training text (at most {most} times); lower min_count or add text"
            )
        limit = settings.size - len(SPECIAL_PIECES) if settings.size else None
        return cls([*fixed, *learned][:limit], settings)

    @staticmethod
    @abstractmethod
    def cut(text: str) -> list[str]:
        """The pieces of a normalised text, or of a part of it, with its leading space."""

    @classmethod
    def split_pieces(cls, text: str, symbols: Sequence[str] = ()) -> list[str]:
        """The pieces of a normalised text, in which each of `symbols` is one piece."""
        if cls.leading_space and text:
            text = f" {text}"
        if not symbols:
            return cls.cut(text)
        before = " " if cls.leading_space else r"(?<!\S)"
        pieces: list[str] = []
        for number, part in enumerate(re.split(f"({before}(?:{'|'.join(symbols)}))", text)):
            is_symbol = number % 2  # `re.split` returns the groups of its pattern in between
            pieces += [part] if is_symbol else cls.cut(part)
        return pieces

    @classmethod
    def spell_symbol(cls, symbol: str) -> str:
        """The piece of a symbol, with the space before it if pieces have it."""
        return f" {symbol}" if cls.leading_space else symbol

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [
            [self._ids.get(piece, UNK) for piece in self._split_surfaces(self._normalize(text))]
            for text in texts
        ]

    def _split_surfaces(self, text: str) -> list[str]:
        return self.split_pieces(text, self.settings.symbols)

    def learn_pieces(self, texts: Iterable[str], count: int) -> list[Merge]:
        normal = map(self._normalize, texts)
        symbols = self.settings.symbols
        counts = Counter(piece for text in normal for piece in self.split_pieces(text, symbols))
        known = {*self._ids, *self.unknown_pieces}
        return [Merge(piece) for piece in _most_frequent(counts, self.settings, known)[:count]]

    def with_pieces(self, merges: Sequence[Merge]) -> Self:
        pieces = [*self._ids, *(one.piece for one in merges)]
        return type(self)(pieces, self._extended_settings(len(SPECIAL_PIECES) + len(pieces)))


def _most_frequent(
    counts: Counter[str], settings: TokenizerSettings, known: Container[str]
) -> list[str]:
    """The unknown pieces that occur often enough, the most frequent first."""
    return [
        piece
        for piece, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if count >= settings.min_count and piece not in known
    ]


class WordTokenizer(VocabTokenizer):
    """Words and punctuation marks, each with the space before it; other spaces are pieces.

    An unknown word becomes a piece for its space, then one UNK.
    """

    required_pieces = (" ",)
    leading_space = True

    @staticmethod
    def cut(text: str) -> list[str]:
        return _WORD_PIECE.findall(text)

    def _split_surfaces(self, text: str) -> list[str]:
        """An unknown piece is split further from the space before it."""
        pieces = []
        for piece in super()._split_surfaces(text):
            if piece in self._ids or len(piece) == 1 or piece[0] != " ":
                pieces.append(piece)
            else:
                pieces += [" ", piece[1:]]
        return pieces


class WhitespaceTokenizer(VocabTokenizer):
    """Stretches without white space, each with the space before it; other spaces are pieces.

    For text that is tokenised already. An unknown word is one UNK, and so is `<unk>`.
    """

    unknown_pieces = (f" {SPECIAL_PIECES[UNK]}", SPECIAL_PIECES[UNK])
    leading_space = True

    def __init__(self, pieces: Sequence[str], settings: TokenizerSettings) -> None:
        super().__init__(pieces, settings)
        spelled = list(self._id_bytes)
        spelled[UNK] = f" {UNK_SURFACE}".encode()
        self._id_bytes = tuple(spelled)

    @staticmethod
    def cut(text: str) -> list[str]:
        return _SPACED_PIECE.findall(text)


class CharacterTokenizer(VocabTokenizer):
    """Characters (code points), including spaces."""

    @staticmethod
    def cut(text: str) -> list[str]:
        return list(text)


def load_card(folder: Path, name: str) -> TokenizerCard:
    """The card `name`.json in `folder`."""
    path = folder / f"{name}.json"
    try:
        return TokenizerCard.model_validate_json(read_file(path))
    except ValidationError as error:
        raise TextError(
            f"{path}: not a tokenizer of this version of regard, or damaged: "
            f"{describe_error(error)}; "
            "copy or train it again"
        ) from None


def read_file(path: Path) -> bytes:
    """The content of a tokenizer's file, checked by the manifest."""
    try:
        content = read_limited(path, "json")
    except FileNotFoundError:
        raise TextError(
            f"{path}: missing; give the folder that the tokenizer was saved into"
        ) from None
    except OSError as error:
        raise TextError(f"{path}: cannot be read: {error.strerror or error}") from None
    check_file(path, content)
    return content


def unknown_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words of a text that a model does not know, as they were written."""
    [ids], surfaces = tokenizer.encode([text]), tokenizer.surfaces(text)
    words = zip(ids, surfaces, strict=True)
    return [surface.strip() or UNK_SURFACE for token, surface in words if token == UNK]
