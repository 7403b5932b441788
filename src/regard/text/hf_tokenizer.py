"""Tokenizers of imported models: a `tokenizer.json`, read by the library `tokenizers`."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from regard.errors import TextError
from regard.json_files import parse_json
from regard.settings import abbreviate
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import (
    BYTE_PIECE,
    REPLACEMENT_CHARACTER,
    SPECIAL_PIECES,
    spell_piece,
)
from regard.text.tokenizer import Tokenizer, normalize
from regard.text.vocabulary_extension import INSTEAD, Merge, Spell, learn_merges, letter_runs
from regard.text.vocabulary_map import VocabularyMap

try:
    import tokenizers
except ImportError:
    raise TextError(
        "the tokenizer of an imported model needs the package tokenizers, which is not installed; "
        "install it: pip install 'regard[exchange]'"
    ) from None


def _byte_letters() -> dict[str, int]:
    """The byte that each character of a byte-level piece stands for (Radford et al. 2019, code).

    Visible characters of Latin-1 stand for themselves; the other bytes, in order, are the
    characters from U+0100 on.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(0x100) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + n): b for n, b in enumerate(others)}


BYTE_LETTERS = _byte_letters()
PROBES, PROBE_LENGTH = "aA0 \n!é漢", 1000  # letters on which patterns are tried, and how many
PROBE_SECONDS = 0.3  # that a pattern may take for them; published ones take milliseconds


class HfTokenizer(Tokenizer):
    """The tokenizer of a `tokenizer.json`: its normalisation, its pieces, our ids.

    Special tokens that a text spells are read as such, as `transformers` does by default; decoded,
    they are left out, as by its `skip_special_tokens`.
    """

    def __init__(
        self,
        content: bytes,
        settings: TokenizerSettings,
        vocabulary: VocabularyMap,
        opening: Sequence[int] = (),
    ) -> None:
        """`content` is that of a `tokenizer.json`; `opening` are ids of ours."""
        self.opening = tuple(opening)
        self._tokenizer = parse_tokenizer(content)
        decoder = Decoding(parse_json(content))
        self.leading_space, self._byte_level = decoder.leading_space, decoder.byte_level
        self._spell = decoder.spell
        self.vocabulary_map = vocabulary
        added = self._tokenizer.get_added_tokens_decoder()
        top = max((*self._tokenizer.get_vocab(with_added_tokens=True).values(), 0))
        if top >= vocabulary.rows:
            raise TextError(
                f"its tokenizer has an id {top}, but its model a vocabulary of {vocabulary.rows:,}"
            )
        spelled, markers = list[bytes](), dict[int, str]()
        hidden = {one.content for one in added.values() if one.special}  # by name, as they do
        self._byte_ids = set[int]()  # of the decoder ByteFallback
        for ours, i in enumerate(vocabulary.theirs[len(SPECIAL_PIECES) :], len(SPECIAL_PIECES)):
            assert i is not None  # only special tokens may be absent
            if i not in added:
                piece = self._tokenizer.id_to_token(i)  # None: a row that no token uses
                spelled.append(b"" if piece is None or piece in hidden else decoder.spell(piece))
                if decoder.byte_fallback and BYTE_PIECE.fullmatch(piece or ""):
                    self._byte_ids.add(ours)
            elif added[i].special:
                spelled.append(b"")
                markers[ours] = added[i].content
            else:
                spelled.append(added[i].content.encode())
        for ours, i in enumerate(vocabulary.special):
            if i is not None and (name := self._tokenizer.id_to_token(i)):
                markers[ours] = name
        super().__init__(settings, spelled, content, markers)
        self.text_prefix = self._read_prefix()
        pair = self._tokenizer.encode("a", "a")
        texts = [i for i, special in enumerate(pair.special_tokens_mask) if not special]
        self.pair_segments = max(pair.type_ids) > 0
        self.separators = max((after - i - 1 for i, after in pairwise(texts)), default=0) or 1

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._content, self.settings, self.vocabulary_map, self.opening)

    @property
    def pieces_hold_spaces(self) -> bool:
        return self.leading_space or self._byte_level

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*self.opening, *self._mapped(self._encoding(text).ids)] for text in texts]

    def surfaces(self, text: str) -> list[str]:
        return [*[""] * len(self.opening), *self._split_surfaces(text)]

    def _text_bytes(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> list[bytes]:
        """As the library decodes: each byte of an invalid UTF-8 sequence becomes one U+FFFD."""
        spelled = self._bytes_of(ids, unknown)
        if self._byte_ids.isdisjoint(ids):
            return spelled
        places = (place for place, one in enumerate(spelled) if one)
        for are_bytes, run in groupby(places, lambda place: ids[place] in self._byte_ids):
            sequence = list(run)
            if are_bytes and not _is_text(b"".join(spelled[place] for place in sequence)):
                for place in sequence:
                    spelled[place] = REPLACEMENT_CHARACTER.encode()
        return spelled

    def _split_surfaces(self, text: str) -> list[str]:
        """The part of a text that each piece covers, with what no piece covers before it."""
        if not (offsets := self._encoding(text).offsets):
            return []
        starts = [start for start, _ in offsets[1:]]
        cuts, last = [], 0
        for (_, end), following in zip(offsets, [*starts, len(text)], strict=True):
            last = max(last, min(end, following))
            cuts.append(last)
        cuts[-1] = len(text)
        return [text[first:end] for first, end in zip([0, *cuts], cuts, strict=False)]

    def learn_pieces(self, texts: Iterable[str], count: int) -> list[Merge]:
        model, known = self._extensible_model(), {*self._tokenizer.get_vocab()}
        special = {one.content for one in self._tokenizer.get_added_tokens_decoder().values()}
        special.add(str(model.get("unk_token")))
        runs = Counter[tuple[str, ...]]()
        for text in texts:
            found = self._encoding(text)
            for _, word in groupby(zip(found.word_ids, found.tokens, strict=True), itemgetter(0)):
                pieces = (piece for _, piece in word)
                runs.update(
                    letter_runs(pieces, lambda one: b"" if one in special else self._spell(one))
                )
        prefix = str(model.get("continuing_subword_prefix") or "")
        return learn_merges(
            runs, count, known=known, join=lambda left, right: left + right.removeprefix(prefix)
        )

    def with_pieces(self, merges: Sequence[Merge]) -> "HfTokenizer":
        assert self.vocabulary_map is not None
        raw, model = parse_json(self._content), self._extensible_model()
        added = {one.piece: self.vocabulary_map.rows + n for n, one in enumerate(merges)}
        model["vocab"] = {**model["vocab"], **added}
        if model["type"] == "BPE":
            pairs = [[one.left, one.right] for one in merges]
            as_text = any(isinstance(one, str) for one in model["merges"])  # older files
            model["merges"] += map(" ".join, pairs) if as_text else pairs
        content = json.dumps({**raw, "model": model}, ensure_ascii=False).encode()
        vocabulary = self.vocabulary_map.with_rows(len(merges))
        settings = self._extended_settings(vocabulary.size)
        return HfTokenizer(content, settings, vocabulary, self.opening)

    def _extensible_model(self) -> dict[str, Any]:
        """The model of its `tokenizer.json`, if pieces can be added to it."""
        model: dict[str, Any] = parse_json(self._content)["model"]
        if model.get("type") not in ("BPE", "WordPiece"):
            raise TextError(
                f"tokenizer.json: pieces can be added to BPE and WordPiece only, and its model is "
                f"{model.get('type')}; {INSTEAD}"
            )
        return model

    def _encoding(self, text: str) -> "tokenizers.Encoding":
        with _told("a text cannot be split"):
            return self._tokenizer.encode(
                normalize(text, "none", lowercase=False), add_special_tokens=False
            )

    def _mapped(self, ids: Sequence[int]) -> list[int]:
        assert self.vocabulary_map is not None
        return self.vocabulary_map.to_ours(ids)

    def _read_prefix(self) -> tuple[int, ...]:
        """The ids that the tokenizer puts before a text."""
        plain = len(self._encoding("a").ids)
        framed = self._tokenizer.encode("a")
        first = framed.special_tokens_mask.index(0) if 0 in framed.special_tokens_mask else 0
        return tuple(self._mapped(framed.ids[:first])) if plain else ()


class Decoding:
    """How the pieces of a `tokenizer.json` spell text, by its decoder."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        decoder = raw.get("decoder") or {}
        parts = decoder.get("decoders") or [decoder]
        kinds = [str(part.get("type")) for part in parts]
        self.byte_level, self.byte_fallback = "ByteLevel" in kinds, "ByteFallback" in kinds
        self.leading_space = False
        self.spell: Spell
        if kinds == ["WordPiece"]:
            self._prefix = str(parts[0].get("prefix", "##"))
            self.leading_space, self.spell = True, self._spell_wordpiece
        elif kinds == ["ByteLevel"]:
            self.spell = _spell_bytes
        elif kinds == ["Metaspace"] or {"Replace", "ByteFallback", "Fuse"}.issuperset(
            set(kinds) - {"Strip"}
        ):
            self.leading_space, self.spell = "Strip" in kinds or _prepends(parts), spell_piece
        else:
            raise TextError(
                f"tokenizer.json: its decoder is {abbreviate(str(kinds))}; those that can be read "
                "are WordPiece, ByteLevel, Metaspace, and SentencePiece's with bytes"
            )

    def _spell_wordpiece(self, piece: str) -> bytes:
        whole = not piece.startswith(self._prefix)
        return (f" {piece}" if whole else piece[len(self._prefix) :]).encode()


def _prepends(parts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a Metaspace puts a space before each text."""
    first = parts[0]
    scheme = first.get("prepend_scheme", "always" if first.get("add_prefix_space", True) else "")
    return first.get("type") == "Metaspace" and scheme in ("always", "first")


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _spell_bytes(piece: str) -> bytes:
    if all(char in BYTE_LETTERS for char in piece):
        return bytes(BYTE_LETTERS[char] for char in piece)
    return piece.encode()


def parse_tokenizer(content: bytes) -> "tokenizers.Tokenizer":
    """The tokenizer that a `tokenizer.json` describes; it never truncates or pads texts."""
    with _told("cannot be read"), _silent():
        found = tokenizers.Tokenizer.from_buffer(content)
        found.no_truncation()
        found.no_padding()
        found.encode("a"), found.encode("a", "a")  # a template may name tokens that it lacks
        if b'"Regex"' in content:  # one may take forever, which the library ends by a panic
            letters = "".join(sorted({*PROBES, *"".join(_patterns(parse_json(content)))}))
            for letter in letters:
                before = time.thread_time()
                found.encode(f"{PROBE_LENGTH * letter}\0{letters}")
                if (seconds := time.thread_time() - before) > PROBE_SECONDS:
                    raise ValueError(
                        f"its patterns take {seconds:.1f} s for {PROBE_LENGTH:,} times {letter!r}"
                    )
    return found


def _patterns(value: Any) -> Iterator[str]:
    """The regular expressions in a JSON value."""
    if isinstance(value, dict):
        yield from [value["Regex"]] if isinstance(value.get("Regex"), str) else ()
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _patterns(one)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """A context in which errors and panics of the library become a `TextError`."""
    try:
        yield
    except BaseException as error:  # the library raises nothing more particular, or panics
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TextError(
            f"tokenizer.json: {what} by tokenizers {tokenizers.__version__}: "
            f"{abbreviate(str(error))}"
        ) from None


@contextmanager
def _silent() -> Iterator[None]:
    """A context in which nothing is written to standard error, where Rust tells of panics."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
