"""The token ids of pairs on disk: flat arrays, mapped into memory.

The file holds the ids of each source and of its target in turn, pair after pair, as int32; then
where each of these begins and the last one ends (2N + 1 numbers), as int64; then a `PairsFooter` in
JSON, its length in 8 bytes, and the mark of the format.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, ValidationError

from regard.atomic_io import atomic_file
from regard.errors import CorpusError
from regard.json_files import describe_error
from regard.manifest import open_plain
from regard.settings import Settings
from regard.text.ragged import IntArray, Ragged, flatten, ragged_arange

MAX_FOOTER = 1 << 16  # bytes


class TokenPairs(NamedTuple):
    """The ids of sentences and of their translations, without BOS and EOS."""

    source: Ragged
    target: Ragged


class TokenChunk(NamedTuple):
    """Some pairs to write into a store."""

    source: Sequence[Sequence[int]]
    target: Sequence[Sequence[int]]


class Lengths(NamedTuple):
    """How many ids each pair has."""

    source: NDArray[np.int32]  # (N,)
    target: NDArray[np.int32]  # (N,)


class FlatFooter(Settings):
    """What follows the numbers of a file that is mapped into memory."""

    kind: ClassVar[str]
    """What such a file is called in messages."""
    magic: ClassVar[bytes]
    """The mark of the format, with which such a file ends."""

    version: Literal[1] = 1
    fingerprint: str
    """What the numbers were made from; another text or tokenizer has another."""

    @property
    def num_bytes(self) -> int:
        """The bytes of the numbers."""
        raise NotImplementedError

    def append_to(self, file: BinaryIO) -> None:
        """Write the footer behind the numbers."""
        content = self.model_dump_json().encode()
        file.write(content + len(content).to_bytes(8, "little") + self.magic)

    @classmethod
    def read(cls, path: Path, fingerprint: str | None = None) -> Self:
        """The footer of the file at `path`, which must fit its size; with a `fingerprint`, an error
        if it was written with another.
        """
        try:
            footer = cls._read(path)
        except FileNotFoundError:
            raise CorpusError(f"{path}: no such {cls.kind}; prepare the corpus first") from None
        except (OSError, ValueError) as error:
            reason = describe_error(error) if isinstance(error, ValidationError) else error
            raise CorpusError(
                f"{path}: not a complete {cls.kind} ({reason}); remove it and prepare the corpus "
                "again"
            ) from None
        if fingerprint not in (None, footer.fingerprint):
            raise CorpusError(
                f"{path}: made from another text or with another tokenizer: its fingerprint is "
                f"{footer.fingerprint!r}, asked for {fingerprint!r}; prepare the corpus again"
            )
        return footer

    @classmethod
    def matches(cls, path: Path, fingerprint: str) -> bool:
        """Whether a complete file with this fingerprint is at `path`."""
        try:
            cls.read(path, fingerprint)
        except CorpusError:
            return False
        return True

    @classmethod
    def _read(cls, path: Path) -> Self:
        behind = 8 + len(cls.magic)
        with open_plain(path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - behind))
            end = file.read(behind)
            if len(end) < behind or end[8:] != cls.magic:
                raise ValueError("its end is missing")
            length = int.from_bytes(end[:8], "little")
            if length > min(MAX_FOOTER, size - behind):
                raise ValueError(f"a footer of {length} bytes in a file of {size}")
            file.seek(size - behind - length)
            footer = cls.model_validate_json(file.read(length))
        numbers = size - behind - length
        if numbers != footer.num_bytes:
            raise ValueError(f"{numbers} bytes of ids where {footer.num_bytes} were written")
        return footer


class PairsFooter(FlatFooter):
    """What follows the numbers in the file."""

    kind: ClassVar[str] = "token store"
    magic: ClassVar[bytes] = b"RegardPairs01\n"

    pairs: NonNegativeInt
    tokens: NonNegativeInt

    @property
    def padded_tokens(self) -> int:
        """The ids and one zero if they are odd in number, so that 8 bytes divide what follows."""
        return self.tokens + self.tokens % 2

    @property
    def num_bytes(self) -> int:
        return 4 * self.padded_tokens + 8 * (2 * self.pairs + 1)


def fingerprint(*parts: str) -> str:
    """A SHA-256, in hex, that changes with any of `parts` and with their boundaries."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


def write_store(path: Path, chunks: Iterable[TokenChunk], fingerprint: str) -> None:
    """Write `chunks`, of any size, to `path`: all of them, or none, and then keep an old store."""
    counts: list[NDArray[np.int32]] = []  # of each chunk
    tokens = 0
    with atomic_file(path) as file:
        for chunk in chunks:
            sides = flatten([*chain.from_iterable(zip(*chunk, strict=True))])
            file.write(sides.ids.tobytes())
            counts.append(sides.counts.astype(np.int32))
            tokens += len(sides.ids)
        pairs = sum(map(len, counts)) // 2
        footer = PairsFooter(fingerprint=fingerprint, pairs=pairs, tokens=tokens)
        file.write(bytes(4 * (footer.padded_tokens - tokens)))
        last = np.zeros(1, np.int64)
        file.write(last.tobytes())
        for lengths in filter(len, counts):
            ends = last + np.cumsum(lengths, dtype=np.int64)
            file.write(ends.tobytes())
            last = ends[-1:]
        footer.append_to(file)


class TokenStore:
    """The pairs of a store by their row, from 0; made by `open`. The ids stay in the file."""

    def __init__(self, path: Path, footer: PairsFooter) -> None:
        self.path, self._pairs = path, footer.pairs
        numbers = np.asarray(np.memmap(path, np.uint8, "r"))
        bounds = 4 * footer.padded_tokens
        self._ids = numbers[:bounds].view(np.int32)
        self._bounds = numbers[bounds : footer.num_bytes].view(np.int64)  # (2N + 1,)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).open, (self.path,)  # another process maps the file itself

    @classmethod
    def open(cls, path: Path, fingerprint: str | None = None) -> Self:
        """The store at `path`; with a `fingerprint`, an error if it was written with another."""
        return cls(path, PairsFooter.read(path, fingerprint))

    def __len__(self) -> int:
        return self._pairs

    def lengths(self) -> Lengths:
        """The lengths of all pairs; each call computes them again."""
        starts, middles, ends = self._bounds[:-1:2], self._bounds[1::2], self._bounds[2::2]
        source, target = middles - starts, ends - middles
        return Lengths(source.astype(np.int32), target.astype(np.int32))

    def take(self, rows: NDArray[np.integer[Any]]) -> TokenPairs:
        """The pairs of `rows`, in that order."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(
                f"{self.path}: rows {rows.min()} to {rows.max()} asked for, of {len(self)}"
            )
        sides = 2 * rows.astype(np.int64)
        return TokenPairs(self._take(sides), self._take(sides + 1))

    def _take(self, sides: IntArray) -> Ragged:
        first = self._bounds[sides]
        counts = self._bounds[sides + 1] - first
        return Ragged(self._ids[ragged_arange(first, counts)], counts)
