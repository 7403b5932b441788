"""Subwords by SentencePiece (Kudo and Richardson 2018): byte-pair encoding and unigram.

A `▁` (U+2581) in the text would be decoded as a space, so it becomes a Unicode noncharacter, which
itself is escaped: with byte fallback every text round-trips. With `byte_level`, SentencePiece gets
a character for each byte of the text in UTF-8 instead.
"""

import codecs
import io
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sentencepiece

from regard.errors import TextError
from regard.interruption import interruptible
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary_extension import Merge, extend_sentencepiece, learn_sentencepiece

if TYPE_CHECKING:  # only training needs arrays: translation must not import NumPy
    from regard.text.ragged import Ragged
    from regard.text.subword_sampling import BpeDropout, UnigramSampler

_ESCAPE, _UNDERSCORE = "\ufdd0", "\ufdd1"
_TO_ESCAPE = re.compile(f"[{_ESCAPE}{_UNDERSCORE}]")
_ESCAPED = re.compile(f"{_ESCAPE}([{_ESCAPE}{_UNDERSCORE}])|{_UNDERSCORE}")

_BYTE_CHARACTERS = [chr(n if 0x20 <= n < 0x7F else 0x100 + n) for n in range(0x100)]
"""The character for each byte with `byte_level`: printable ASCII itself, else a Latin letter."""

# No piece may contain white space other than U+0020, or `word_ids` would be ambiguous. The trainer
# makes no piece across a special one, so a special piece is put on both sides of other white space.
_OTHER_SPACE = re.compile(r"[^\S ]")
_SPLIT_SPACE = re.compile(r"([^\S ])")
_BOUNDARY = SPECIAL_PIECES[EOS]
# Reserved by the trainer, which would drop words that contain these.
_RESERVED = re.compile("[\0\t\u2585]")
_MAX_WORD_CHARACTERS = 1000  # the trainer aborts at 65,536 characters without a space

# Memory limits of training. BPE takes about 110 bytes for each character of each distinct word;
# only scripts without spaces reach the limit. Unigram takes about 30 bytes for each character of
# the text, and quadratic time for repetitions, so copies of a word are limited and shuffled.
_BPE_CHARACTERS = 3_000_000
_UNIGRAM_CHARACTERS = 10_000_000
_UNIGRAM_COPIES = 1000

_MIN_BATCHED_TEXTS = 64  # SentencePiece starts a thread for every list: too slow for short ones
_MIN_THREADED_TEXTS = 1000


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model with its normalisation and, for training, its random segmentation."""

    leading_space = True

    def __init__(self, model: bytes, settings: TokenizerSettings) -> None:
        """`model` is the content of a SentencePiece `.model` file."""
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = range(len(SPECIAL_PIECES), self._processor.get_piece_size())
        spell = _spell_bytes if settings.byte_level else _spell
        spelled = [
            bytes([int(piece[3:5], 16)]) if self._processor.is_byte(i) else spell(piece)  # <0xE2>
            for i in ids
            for piece in [self._processor.id_to_piece(i)]
        ]
        super().__init__(settings, spelled, model)
        self._escape = to_byte_characters if settings.byte_level else _escape
        self._unescape = str if settings.byte_level else _unescape

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._content, self.settings)  # the rest is derived

    @classmethod
    def train(cls, texts: Iterable[str], settings: TokenizerSettings) -> "SentencePieceTokenizer":
        """A vocabulary of `texts`, which are normalised already; training is deterministic."""
        counts = (_count_byte_words if settings.byte_level else _count_words)(texts)
        if not counts:
            raise TextError("the training text has nothing to learn from; add text")
        lines = _bpe_lines(counts) if settings.kind == "bpe" else _unigram_lines(counts)
        return cls(_train(lines, settings), settings)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        escaped = [self._escape(self._normalize(text)) for text in texts]
        if len(escaped) < _MIN_BATCHED_TEXTS:
            return [self._processor.encode(text, out_type=int) for text in escaped]
        threads = -1 if len(escaped) >= _MIN_THREADED_TEXTS else 1
        ids: list[list[int]] = self._processor.encode(escaped, out_type=int, num_threads=threads)
        return ids

    def sample_segmentation(self, texts: "Ragged", seed: int) -> "Ragged":
        return self._sampler.sample(texts, seed) if self.settings.sampling else texts

    def decode(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> str:
        return self._unescape(super().decode(ids, unknown))

    def learn_pieces(self, texts: Iterable[str], count: int) -> list[Merge]:
        words = Counter(
            word for text in texts for word in self._escape(self._normalize(text)).split()
        )
        known = {self._processor.id_to_piece(i) for i in range(self.size)}
        spell = _spell_bytes if self.settings.byte_level else _spell
        return learn_sentencepiece(self._content, words, count, known=known, spell=spell)

    def with_pieces(self, merges: Sequence[Merge]) -> "SentencePieceTokenizer":
        model = extend_sentencepiece(self._content, merges)
        return SentencePieceTokenizer(model, self._extended_settings(self.size + len(merges)))

    @cached_property
    def _byte_ids(self) -> list[int]:
        known = range(len(SPECIAL_PIECES), self.size)
        return [i for i in known if self._processor.is_byte(i)]

    @cached_property
    def _ids(self) -> dict[str, int]:
        known = set(range(len(SPECIAL_PIECES), self.size)).difference(self._byte_ids)
        return {self._id_bytes[i].decode(): i for i in sorted(known)}

    @cached_property
    def _sampler(self) -> "BpeDropout | UnigramSampler":
        from regard.text.subword_sampling import BpeDropout, UnigramSampler  # NumPy

        scores = {piece: self._processor.get_score(i) for piece, i in self._ids.items()}
        if self.settings.kind == "bpe":
            return BpeDropout(self._ids, scores, self.size, self.settings.sampling)
        tables = self._ids, self._id_bytes, self._byte_ids
        atomic = frozenset({UNK, *(self._ids[f" {symbol}"] for symbol in self.settings.symbols)})
        return UnigramSampler(scores, self.settings.sampling, *tables, atomic)

    def _split_surfaces(self, text: str) -> list[str]:
        escaped = self._escape(text)
        ids: list[int] = self._processor.encode(escaped, out_type=int)
        pieces: list[str] = self._processor.encode(escaped, out_type=str)
        unknown = [piece for i, piece in zip(ids, pieces, strict=True) if i == UNK]
        decoder = codecs.getincrementaldecoder("utf-8")()
        return [
            self._unescape(decoder.decode(spelling)) for spelling in self._bytes_of(ids, unknown)
        ]

    def _display(self, spelling: bytes) -> str:
        if self.settings.byte_level:
            return super()._display(spelling)
        return super()._display(spelling.replace(_UNDERSCORE.encode(), "▁".encode()))


def _spell(piece: str) -> bytes:
    """The text of a piece."""
    return piece.replace("▁", " ").encode()


def _spell_bytes(piece: str) -> bytes:
    """The bytes of a piece of a byte-level vocabulary."""
    return bytes(ord(char) % 0x100 for char in piece.replace("▁", " "))


def to_byte_characters(text: str) -> str:
    """A character for each byte of the text in UTF-8."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_BYTE_CHARACTERS.__getitem__, text.encode()))


def _escape(text: str) -> str:
    return _TO_ESCAPE.sub(rf"{_ESCAPE}\g<0>", text).replace("▁", _UNDERSCORE)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: found.group(1) or "▁", text)


def _count_words(texts: Iterable[str]) -> Counter[str]:
    """The frequency of each word; words are separated by U+0020."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_escape(text).split(" "))
    trainable: Counter[str] = Counter()
    for word, count in counts.items():
        for first in range(0, len(word), _MAX_WORD_CHARACTERS):
            part = _RESERVED.sub(_BOUNDARY, word[first : first + _MAX_WORD_CHARACTERS])
            if part.replace(_BOUNDARY, ""):
                trainable[_OTHER_SPACE.sub(rf"{_BOUNDARY}\g<0>{_BOUNDARY}", part)] += count
    return trainable


def _count_byte_words(texts: Iterable[str]) -> Counter[str]:
    """`_count_words` of a character for each byte."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split(" "))
    trainable: Counter[str] = Counter()
    for word, count in counts.items():
        for first in range(0, len(word), _MAX_WORD_CHARACTERS):
            part = word[first : first + _MAX_WORD_CHARACTERS]
            # White space at odd places, what it separates at even ones.
            split = [to_byte_characters(one) for one in _SPLIT_SPACE.split(part)]
            split[1::2] = [f"{_BOUNDARY}{space}{_BOUNDARY}" for space in split[1::2]]
            if part:
                trainable["".join(split)] += count
    if trainable:  # every byte gets a piece: it is as frequent as any word, so no limit drops it
        every_byte = (f"{_BOUNDARY}{char}" for char in _BYTE_CHARACTERS if char != " ")
        trainable["".join(every_byte)] = max(trainable.values())
    return trainable


def _bpe_lines(counts: Counter[str]) -> Iterator[str]:
    """The most frequent words within the memory limit, each with its count."""
    words = sorted(counts)
    random.Random(0).shuffle(words)  # break ties between equally frequent words at random
    words.sort(key=counts.__getitem__, reverse=True)
    budget = _BPE_CHARACTERS
    for word in words:
        budget -= len(word)
        if budget < 0:
            return
        yield f"{word}\t{counts[word]}"


def _unigram_lines(counts: Counter[str]) -> Iterator[str]:
    """Each word about as often as it was counted, shuffled, within the memory limit."""
    capped = {word: min(counts[word], _UNIGRAM_COPIES) for word in sorted(counts)}
    characters = sum((len(word) + 1) * count for word, count in capped.items())
    share = min(1.0, _UNIGRAM_CHARACTERS / characters)
    copies: list[str] = []
    expected = 0.0
    for word, count in capped.items():
        expected += count * share
        copies += [word] * (round(expected) - len(copies))
    random.Random(0).shuffle(copies)
    return iter(copies)


def _train(lines: Iterator[str], settings: TokenizerSettings) -> bytes:
    model = io.BytesIO()
    options: dict[str, Any] = {
        "model_type": settings.kind,
        "vocab_size": settings.size,
        "hard_vocab_limit": False,
        "byte_fallback": settings.byte_fallback,
        "character_coverage": settings.character_coverage,
        "input_format": "tsv" if settings.kind == "bpe" else "text",
        "max_sentence_length": 16 * _MAX_WORD_CHARACTERS,  # bytes
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "num_threads": 4,  # fixed: the order of sums depends on it
        "minloglevel": 2,
    }
    if settings.byte_level:
        options |= {"character_coverage": 1.0, "byte_fallback": False}
    if settings.symbols:
        options["user_defined_symbols"] = [f"▁{symbol}" for symbol in settings.symbols]
    for name, i in (("pad", PAD), ("unk", UNK), ("bos", BOS), ("eos", EOS)):
        options |= {f"{name}_id": i, f"{name}_piece": SPECIAL_PIECES[i]}
    try:
        interruptible(
            lambda: sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=lines, model_writer=model, **options
            )
        )
    except RuntimeError as error:
        needed = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
        if needed is None:
            raise TextError(f"SentencePiece cannot learn from this text: {error}") from error
        raise TextError(
            f"size: {settings.size} is too small for the {settings.kind} vocabulary of this text: "
            f"special pieces{', bytes' if settings.byte_fallback else ''} and characters alone "
            f"take {needed.group(1)}; raise size or lower character_coverage"
        ) from None
    return model.getvalue()
