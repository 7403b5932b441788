"""Subwords, by SentencePiece."""

import hashlib
import io
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sentencepiece

from regard.errors import TextError
from regard.files import write_whole
from regard.text.normalize import escape, normalize
from regard.text.pieces import PieceTokenizer
from regard.text.settings import TokenizerSettings
from regard.text.special import BOS, EOS, PAD, SPECIAL_PIECES, UNK

_SEED = threading.Lock()
"""SentencePiece has one seed for the whole process."""
_THREADS = 2
"""A fixed number: what is learned may depend on it."""
_RESERVED = "▅"  # SentencePiece's own mark for the unknown: it skips texts that hold it


class SentencePieceTokenizer(PieceTokenizer):
    """Byte pair encoding, or a unigram model."""

    def __init__(self, model: bytes, settings: TokenizerSettings) -> None:
        self._model, self._settings = model, settings
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces = [self._processor.id_to_piece(n) for n in range(len(self._processor))]
        first_byte = next((n for n in range(len(pieces)) if self._processor.is_byte(n)), None)
        super().__init__(pieces, space_first=True, bytes_from=first_byte)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self._processor.encode(self._ready(texts))
        return ids

    def sample(self, texts: Sequence[str], seed: int) -> list[list[int]]:
        if not self._settings.sampling:
            return self.encode(texts)
        ready = self._ready(texts)
        # A thread's generator is made from the seed when it is first used, and never reseeded:
        # only in a new thread does the seed decide what is drawn.
        with _SEED, ThreadPoolExecutor(1) as fresh:
            sentencepiece.set_random_generator_seed(seed % 0x7FFFFFFF + 1)
            ids: list[list[int]] = fresh.submit(self._draw, ready).result()
        return ids

    def _draw(self, texts: list[str]) -> list[list[int]]:
        ids: list[list[int]] = self._processor.encode(
            texts,
            enable_sampling=True,
            alpha=self._settings.sampling,
            nbest_size=-1,
            num_threads=1,
        )
        return ids

    def _ready(self, texts: Sequence[str]) -> list[str]:
        return [escape(normalize(text, self._settings)) for text in texts]

    def fingerprint(self) -> str:
        known = self._settings.model_dump_json().encode()
        return hashlib.sha256(known + self._model).hexdigest()[:32]

    def save(self, folder: Path, name: str) -> None:
        write_whole(folder / f"{name}.model", self._model)


def train_sentencepiece(texts: Iterable[str], settings: TokenizerSettings) -> bytes:
    """A SentencePiece model that spells `texts` well."""
    learned = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_lessons(texts, settings),
            model_writer=learned,
            model_type=settings.kind,
            vocab_size=settings.size,
            hard_vocab_limit=False,
            character_coverage=settings.coverage,
            byte_fallback=settings.byte_fallback,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            max_sentence_length=1 << 24,
            num_threads=_THREADS,
            minloglevel=2,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            pad_piece=SPECIAL_PIECES[PAD],
            unk_piece=SPECIAL_PIECES[UNK],
            bos_piece=SPECIAL_PIECES[BOS],
            eos_piece=SPECIAL_PIECES[EOS],
        )
    except RuntimeError as error:
        raise _explain(str(error), settings) from None
    return learned.getvalue()


def _lessons(texts: Iterable[str], settings: TokenizerSettings) -> Iterator[str]:
    for text in texts:
        ready = escape(normalize(text, settings)).replace(_RESERVED, "")
        if ready.strip():
            yield ready


def _explain(message: str, settings: TokenizerSettings) -> TextError:
    """What SentencePiece's message means for whoever chose the settings."""
    if "sentences_.empty()" in message:
        return TextError("no text to learn a vocabulary from: every line is blank")
    needed = re.search(r"smaller than required_chars\. (\d+) vs (\d+)", message)
    if needed:
        return TextError(
            f"a vocabulary of {settings.size} is too small: letters, bytes and special tokens "
            f"alone take {needed[2]}; raise size, lower coverage ({settings.coverage}) or turn "
            "byte_fallback off"
        )
    return TextError(f"SentencePiece cannot learn a {settings.kind} vocabulary: {message}")
