"""Subwords by SentencePiece (Kudo and Richardson 2018): byte-pair encoding and unigram.

SentencePiece writes a space as `▁` (U+2581), so a text's own `▁` would come back as a space. It
is hidden behind a code point that Unicode keeps for use inside programs, and that one, should a
text hold it, behind another. With byte fallback every text then comes back as it went in.
"""

import codecs
import hashlib
import io
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sentencepiece

from regard.atomic_io import write_atomic
from regard.errors import TextError
from regard.interruption import interruptible
from regard.text.serialization import TokenizerCard, save_card
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from regard.text.table import TableTokenizer
from regard.text.unigram_sampling import UnigramSampler

if TYPE_CHECKING:  # arrays are for training: who only translates imports no NumPy
    from regard.text.bpe_dropout import BpeDropout
    from regard.text.ragged import Ragged

_ESCAPE, _UNDERSCORE = "\ufdd0", "\ufdd1"
_TO_ESCAPE = re.compile(f"[{_ESCAPE}{_UNDERSCORE}]")
_ESCAPED = re.compile(f"{_ESCAPE}([{_ESCAPE}{_UNDERSCORE}])|{_UNDERSCORE}")

# A piece must not reach across a space of any kind, or `words` could not tell what it is part of.
# The trainer makes no piece that holds a special one: so one beside each such space parts them.
_OTHER_SPACE = re.compile(r"[^\S ]")
_BOUNDARY = SPECIAL_PIECES[EOS]
# What the trainer keeps for itself: it would drop a word that holds one of these.
_RESERVED = re.compile("[\0\t\u2585]")
_MAX_WORD_CHARACTERS = 1000  # the trainer kills the process at 65,536 characters without a space

# What training may hold. For BPE each character of each different word takes some 110 bytes: with
# spaces between words there are seldom so many, without them a few hundred thousand sentences are.
# For unigram each character of the text takes some 30 bytes, and a stretch that repeats itself
# takes time square in its length, so the copies of a word are limited and mixed with others.
_BPE_CHARACTERS = 3_000_000
_UNIGRAM_CHARACTERS = 10_000_000
_UNIGRAM_COPIES = 1000

_MIN_BATCHED_TEXTS = (
    64  # below, one by one: SentencePiece starts a thread for a list, however short
)
_MIN_THREADED_TEXTS = 1000  # from here on starting threads pays

# What is cut at random at a time: a word with the space before it, or a part of an endless one.
_WORD = re.compile(" [^ ]{,63}|[^ ]{1,64}")


class SentencePieceTokenizer(TableTokenizer):
    """A SentencePiece model, its normalisation and how wildly it samples."""

    def __init__(self, model: bytes, settings: TokenizerSettings) -> None:
        """`model` is what SentencePiece writes into a `.model` file, as `learn` has it trained."""
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = range(len(SPECIAL_PIECES), self._processor.get_piece_size())
        super().__init__(settings, [_piece_bytes(self._processor, i) for i in ids], model)
        self._byte_ids = [i for i in ids if self._processor.is_byte(i)]
        letters = (i for i in ids if not self._processor.is_byte(i))
        self._ids = {self._id_bytes[i].decode(): i for i in letters}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._model, self.settings)  # all the rest is made from these

    @classmethod
    def train(cls, texts: Iterable[str], settings: TokenizerSettings) -> "SentencePieceTokenizer":
        """The vocabulary of `texts`, which are normalised already: the same texts, the same model.

        It is smaller than `settings.size` where the texts do not hold so many subwords.
        """
        counts = _count_words(texts)
        if not counts:
            raise TextError("the training text holds nothing to learn from; add text")
        lines = _bpe_lines(counts) if settings.kind == "bpe" else _unigram_lines(counts)
        return cls(_train(lines, settings), settings)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        escaped = [_escape(self._normalize(text)) for text in texts]
        if len(escaped) < _MIN_BATCHED_TEXTS:
            return [self._processor.encode(text, out_type=int) for text in escaped]
        num_threads = -1 if len(escaped) >= _MIN_THREADED_TEXTS else 1
        ids: list[list[int]] = self._processor.encode(
            escaped, out_type=int, num_threads=num_threads
        )
        return ids

    def sample_segmentation(self, texts: "Ragged", seed: int) -> "Ragged":
        if not self.settings.sampling:
            return texts
        if self.settings.kind == "bpe":
            return self._bpe_dropout.cut(texts, seed)
        rng = random.Random(seed)
        cut: Ragged = import_module("regard.text.ragged").flatten(
            [self._cut(row.tolist(), rng) for row in texts.rows()]
        )
        return cut

    def decode(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> str:
        # SentencePiece puts a space before every text, so that its first word is like any other.
        return _unescape(self._decode_bytes(ids, unknown).removeprefix(" "))

    def save(self, folder: Path, name: str) -> None:
        write_atomic(folder / f"{name}.model", self._model)
        digest = hashlib.sha256(self._model).hexdigest()
        save_card(
            TokenizerCard(version=1, settings=self.settings, model_sha256=digest), folder, name
        )

    @cached_property
    def _bpe_dropout(self) -> "BpeDropout":
        make: type[BpeDropout] = import_module("regard.text.bpe_dropout").BpeDropout
        return make(self._ids, self._scores(), self.size, self.settings.sampling)

    @cached_property
    def _unigram_sampler(self) -> UnigramSampler:
        return UnigramSampler(self._scores(), self.settings.sampling)

    def _scores(self) -> dict[str, float]:
        return {piece: self._processor.get_score(i) for piece, i in self._ids.items()}

    def _cut(self, ids: Sequence[int], rng: random.Random) -> list[int]:
        """The text of some ids, cut by the lattice; what is unknown stays so, and parts words."""
        cut: list[int] = []
        for unknown, stretch in groupby(ids, UNK.__eq__):
            words = [] if unknown else _WORD.findall(self._decode_bytes(list(stretch), ()))
            pieces = (piece for word in words for piece in self._unigram_sampler.cut(word, rng))
            cut += [UNK] if unknown else self._look_up(pieces)
        return cut

    def _look_up(self, pieces: Iterable[str]) -> list[int]:
        ids: list[int] = []
        for piece in pieces:
            if piece in self._ids:
                ids.append(self._ids[piece])
            elif self._byte_ids:
                ids += [self._byte_ids[byte] for byte in piece.encode()]
            elif ids[-1:] != [UNK]:  # of several in a row SentencePiece makes one
                ids.append(UNK)
        return ids

    def _split_surfaces(self, text: str) -> list[str]:
        escaped = _escape(text)
        ids: list[int] = self._processor.encode(escaped, out_type=int)
        pieces: list[str] = self._processor.encode(escaped, out_type=str)
        unknown = [piece for i, piece in zip(ids, pieces, strict=True) if i == UNK]
        decoder = codecs.getincrementaldecoder("utf-8")()
        surfaces = [
            _unescape(decoder.decode(spelling)) for spelling in self._bytes_of(ids, unknown)
        ]
        return [surfaces[0].removeprefix(" "), *surfaces[1:]] if ids else []

    def _display(self, spelling: bytes) -> str:
        return super()._display(spelling.replace(_UNDERSCORE.encode(), "▁".encode()))


def _piece_bytes(processor: sentencepiece.SentencePieceProcessor, i: int) -> bytes:
    piece: str = processor.id_to_piece(i)
    if processor.is_byte(i):
        return bytes([int(piece[3:5], 16)])  # <0xE2>
    return piece.replace("▁", " ").encode()


def _escape(text: str) -> str:
    return _TO_ESCAPE.sub(rf"{_ESCAPE}\g<0>", text).replace("▁", _UNDERSCORE)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: found.group(1) or "▁", text)


def _count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs, a word being what stands between plain spaces."""
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


def _bpe_lines(counts: Counter[str]) -> Iterator[str]:
    """The most frequent words, as many as there is room for, each with its count."""
    words = sorted(counts)
    random.Random(0).shuffle(words)  # of equally frequent words any may be kept
    words.sort(key=counts.__getitem__, reverse=True)
    budget = _BPE_CHARACTERS
    for word in words:
        budget -= len(word)
        if budget < 0:
            return
        yield f"{word}\t{counts[word]}"


def _unigram_lines(counts: Counter[str]) -> Iterator[str]:
    """Each word about as often as it was counted, in a mixed order, as there is room."""
    capped = {word: min(counts[word], _UNIGRAM_COPIES) for word in sorted(counts)}
    characters = sum((len(word) + 1) * count for word, count in capped.items())
    share = min(1.0, _UNIGRAM_CHARACTERS / characters)
    copies: list[str] = []
    wanted = 0.0
    for word, count in capped.items():
        wanted += count * share
        copies += [word] * (round(wanted) - len(copies))
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
        "max_sentence_length": 16 * _MAX_WORD_CHARACTERS,  # in bytes, with borders
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "num_threads": 4,  # a fixed number: sums in another order would be other sums
        "minloglevel": 2,
    }
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
            f"special pieces, {'bytes and ' if settings.byte_fallback else ''}characters alone "
            f"are {needed.group(1)}; raise size or lower character_coverage"
        ) from None
    return model.getvalue()
