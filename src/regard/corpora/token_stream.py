"""The token ids of a running text on disk: one array, mapped into memory, with its counts.

The file holds the ids end to end, as unsigned numbers of 16 or 32 bits, and after them a
`StreamFooter`.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from regard.atomic_io import atomic_file
from regard.corpora.running_text import TextPart
from regard.corpora.token_store import FlatFooter
from regard.settings import Settings
from regard.text.special_tokens import EOS, UNK
from regard.text.tokenizer import Tokenizer

PARTS_PER_CHUNK = 4096  # parts tokenised at a time, and the limit of their characters
CHUNK_CHARACTERS = 1 << 22

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class StreamCounts(Settings):
    """The size of a text: the divisors of perplexities per token, word and character."""

    tokens: NonNegativeInt = 0
    """Ids, with an EOS for each end of a document."""
    words: NonNegativeInt = 0
    """Words, separated by white space."""
    line_ends: NonNegativeInt = 0
    """Line ends and ends of documents; by the convention of PTB and WikiText each counts as a
    word."""
    characters: NonNegativeInt = 0
    """Unicode characters, with line ends and ends of documents."""
    documents: NonNegativeInt = 0
    """Documents that end in EOS."""
    unknown: NonNegativeInt = 0
    """Unknown-word ids, for words that the vocabulary lacks."""


class StreamFooter(FlatFooter):
    """What follows the ids in the file."""

    kind: ClassVar[str] = "token stream"
    magic: ClassVar[bytes] = b"RegardTokens1\n"

    dtype: Literal["<u2", "<u4"]
    counts: StreamCounts

    @property
    def num_bytes(self) -> int:
        return self.counts.tokens * np.dtype(self.dtype).itemsize


class EncodedPart(NamedTuple):
    """The ids of some parts of a text, and what they were made from."""

    ids: NDArray[np.int64]  # (N,)
    counts: StreamCounts


class _Line(NamedTuple):
    """A line of a part, or all of a part that has no line end."""

    text: str
    begins_document: bool
    ends_document: bool


def encode_stream(tokenizer: Tokenizer, parts: Iterable[TextPart]) -> Iterator[EncodedPart]:
    """The ids of a text, part by part; an EOS follows the end of each document.

    The ids of a whole document decode to its normalised text.
    """
    begins = True  # whether the next part begins a document
    for chunk in _chunks(parts):
        lines: list[_Line] = []
        for part in chunk:
            texts = _LINE.findall(part.text) or [""]
            last = len(texts) - 1
            for number, text in enumerate(texts):
                lines.append(
                    _Line(text, begins and not number, part.ends_document and number == last)
                )
            begins = part.ends_document
        first = iter(tokenizer.encode([line.text for line in lines if line.begins_document]))
        others = [line.text for line in lines if not line.begins_document]
        later = iter(tokenizer.encode_continued(others) if others else ())
        ids: list[int] = []
        for line in lines:
            ids += next(first if line.begins_document else later)
            if line.ends_document:
                ids.append(EOS)
        array = np.array(ids, np.int64)
        yield EncodedPart(array, _count(chunk, array))


def _chunks(parts: Iterable[TextPart]) -> Iterator[list[TextPart]]:
    """Consecutive parts, limited in number and in total characters."""
    chunk: list[TextPart] = []
    size = 0
    for part in parts:
        size += len(part.text)
        if chunk and (len(chunk) >= PARTS_PER_CHUNK or size > CHUNK_CHARACTERS):
            yield chunk
            chunk, size = [], len(part.text)
        chunk.append(part)
    if chunk:
        yield chunk


def _count(parts: list[TextPart], ids: NDArray[np.int64]) -> StreamCounts:
    ends = sum(part.ends_document for part in parts)
    return StreamCounts(
        tokens=len(ids),
        words=sum(len(part.text.split()) for part in parts),
        line_ends=sum(part.text.count("\n") for part in parts) + ends,
        characters=sum(len(part.text) for part in parts) + ends,
        documents=ends,
        unknown=int((ids == UNK).sum()),
    )


def write_token_stream(
    path: Path, parts: Iterable[EncodedPart], fingerprint: str, *, vocabulary: int
) -> StreamCounts:
    """Write `parts` to `path`, all of them or nothing; ids are below `vocabulary`."""
    dtype: Literal["<u2", "<u4"] = "<u2" if vocabulary <= 1 << 16 else "<u4"
    total = dict.fromkeys(StreamCounts.model_fields, 0)
    with atomic_file(path) as file:
        for ids, counts in parts:
            if len(ids) and not 0 <= ids.min() <= ids.max() < vocabulary:
                raise ValueError(f"ids {ids.min()} to {ids.max()}, of a vocabulary of {vocabulary}")
            file.write(ids.astype(dtype).tobytes())
            total = {name: count + getattr(counts, name) for name, count in total.items()}
        found = StreamCounts(**total)
        StreamFooter(dtype=dtype, fingerprint=fingerprint, counts=found).append_to(file)
    return found


class TokenStream:
    """The ids of a text; made by `open`. They stay in the file."""

    def __init__(self, path: Path, footer: StreamFooter) -> None:
        self.path, self.counts = path, footer.counts
        shape = (footer.counts.tokens,)
        self.ids: NDArray[np.unsignedinteger[Any]] = (
            np.memmap(path, footer.dtype, "r", shape=shape)
            if footer.counts.tokens
            else np.empty(0, footer.dtype)
        )

    def counts_after_first(self, tokenizer: Tokenizer) -> StreamCounts:
        """The counts of the text after its first token."""
        first, counts = self.ids[:1].tolist(), self.counts
        text = tokenizer.decode(first)
        following = tokenizer.decode(self.ids[:2].tolist())[len(text) :]
        ends = text.count("\n") + first.count(EOS)
        is_word = bool(text.strip()) and (following[:1].isspace() or EOS in self.ids[1:2])
        return StreamCounts(
            tokens=counts.tokens - len(first),
            words=counts.words - is_word,
            line_ends=counts.line_ends - ends,
            characters=counts.characters - len(text.rstrip("\ufffd")) - first.count(EOS),
            documents=counts.documents - first.count(EOS),
            unknown=counts.unknown - first.count(UNK),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).open, (self.path,)  # another process maps the file itself

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def open(cls, path: Path, fingerprint: str | None = None) -> Self:
        """The stream at `path`; with a `fingerprint`, an error if it was written with another."""
        return cls(path, StreamFooter.read(path, fingerprint))
