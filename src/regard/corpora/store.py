"""Token ids on disk: an Arrow file that is mapped into memory, never read into it."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from regard.corpora.pairs import Pair
from regard.errors import CorpusError
from regard.files import whole_file

ROWS = 16_384
"""Pairs in a record batch."""
MARK = b"regard.fingerprint"
"""The key of the fingerprint among the metadata of the schema."""

_IDS = {name: pa.list_(pa.int32()) for name in ("source", "target")}
_TEXTS = {name: pa.large_string() for name in ("source_text", "target_text")}

Ids = Sequence[int] | NDArray[np.int32]


class TokenPair(NamedTuple):
    """The ids of a sentence and of its translation, without BOS and EOS."""

    source: Ids
    target: Ids


class TokenChunk(NamedTuple):
    """Some pairs on their way into a store."""

    source: Sequence[Sequence[int]]
    target: Sequence[Sequence[int]]
    texts: Sequence[Pair] = ()
    """What the ids were made from; only asked for by a store with text."""


class Lengths(NamedTuple):
    """How many ids each pair has."""

    source: NDArray[np.int32]  # (N,)
    target: NDArray[np.int32]  # (N,)


def fingerprint(*parts: str) -> str:
    """A SHA-256, in hex, that changes when any of `parts` does, or where one ends."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


def write_store(
    path: Path, chunks: Iterable[TokenChunk], fingerprint: str, *, with_text: bool
) -> None:
    """Write `chunks`, of any size, to `path`: all of them, or nothing.

    Whatever fails, a store that was at `path` before is still there, whole.
    """
    columns = _IDS | _TEXTS if with_text else _IDS
    schema = pa.schema(columns, metadata={MARK: fingerprint.encode()})
    with whole_file(path) as file, pa.ipc.new_file(file, schema) as sink:
        for rows in _batches(chunks, len(schema)):
            sink.write_batch(pa.record_batch(rows, schema=schema))


def _batches(chunks: Iterable[TokenChunk], width: int) -> Iterator[list[list[Any]]]:
    """The chunks as columns of `ROWS` rows; the last ones may be shorter."""
    columns: list[list[Any]] = [[] for _ in range(width)]
    for chunk in chunks:
        parts: list[Iterable[Any]] = [chunk.source, chunk.target]
        if width > len(_IDS):
            parts += [[text.source for text in chunk.texts], [text.target for text in chunk.texts]]
        for column, part in zip(columns, parts, strict=True):
            column.extend(part)
        counts = [len(column) for column in columns]
        if len(set(counts)) > 1:
            raise ValueError(f"a chunk's columns differ in length: {counts} rows so far")
        while len(columns[0]) >= ROWS:
            yield [column[:ROWS] for column in columns]
            columns = [column[ROWS:] for column in columns]
    if columns[0]:
        yield columns


class _Lists(NamedTuple):
    """One column of ids in one record batch: views of the mapped file."""

    offsets: memoryview  # quicker than an array where one number is asked for
    values: NDArray[np.int32]

    def row(self, number: int) -> NDArray[np.int32]:
        return self.values[self.offsets[number] : self.offsets[number + 1]]


def _lists(batches: Sequence[Any], name: str) -> list[_Lists]:
    columns = [batch.column(name) for batch in batches]
    return [_Lists(x.offsets.to_numpy().data, x.values.to_numpy()) for x in columns]


class TokenStore:
    """The pairs of a store by their row, from 0; made by `open`.

    What stays in memory is a few objects for each `ROWS` pairs; the ids themselves are pages of
    the file, which the system drops and reads again as it sees fit.
    """

    def __init__(self, path: Path, batches: Sequence[Any]) -> None:
        self.path = path
        self._source, self._target = (_lists(batches, name) for name in _IDS)
        self._texts = [
            [x.column(name) for name in _TEXTS if name in x.schema.names] for x in batches
        ]
        # of each batch, the row behind its last
        self._ends = np.cumsum([batch.num_rows for batch in batches], dtype=np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).open, (self.path,)  # another process maps the file itself

    @classmethod
    def open(cls, path: Path, fingerprint: str | None = None) -> Self:
        """The store at `path`; with a `fingerprint`, only one that was written under the same."""
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            found = (reader.schema.metadata or {}).get(MARK, b"").decode()
            if [reader.schema.field(name).type for name in _IDS] != list(_IDS.values()):
                columns = ", ".join(f"{field.name}: {field.type}" for field in reader.schema)
                raise ValueError(f"its columns are {columns}")
            store = cls(path, [reader.get_batch(n) for n in range(reader.num_record_batches)])
        except FileNotFoundError:
            raise CorpusError(f"{path}: no such token store; prepare the corpus first") from None
        except (OSError, ValueError, KeyError) as error:
            raise CorpusError(
                f"{path}: not a whole token store ({error}); remove it and prepare the corpus again"
            ) from error
        if fingerprint is not None and found != fingerprint:
            raise CorpusError(
                f"{path}: made from other texts or with another tokenizer: its fingerprint is "
                f"{found!r}, asked for {fingerprint!r}; prepare the corpus again"
            )
        return store

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def lengths(self) -> Lengths:
        """The lengths of all pairs, computed anew by each call."""
        return Lengths(*(_lengths(columns) for columns in (self._source, self._target)))

    def take(self, rows: NDArray[np.integer[Any]]) -> list[TokenPair]:
        """The pairs of `rows`, in that order, as read-only views of the file."""
        return [
            TokenPair(self._source[batch].row(row), self._target[batch].row(row))
            for batch, row in self._places(rows)
        ]

    def texts(self, rows: NDArray[np.integer[Any]]) -> list[Pair]:
        """The texts of `rows`, in that order."""
        if not all(self._texts):
            raise CorpusError(
                f"{self.path}: holds ids but no text; prepare the corpus again with its text"
            )
        return [
            Pair(*(column[row].as_py() for column in self._texts[batch]))
            for batch, row in self._places(rows)
        ]

    def _places(self, rows: NDArray[np.integer[Any]]) -> Iterator[tuple[int, int]]:
        """The batch of each row, and its number there."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(
                f"{self.path}: rows {rows.min()} to {rows.max()} asked for, of {len(self)}"
            )
        batches = np.searchsorted(self._ends, rows, side="right")
        firsts = np.concatenate(([0], self._ends))[batches]
        return zip(batches.tolist(), (rows - firsts).tolist(), strict=True)


def _lengths(columns: Sequence[_Lists]) -> NDArray[np.int32]:
    counts = [np.diff(np.asarray(column.offsets)) for column in columns]
    return np.concatenate([np.empty(0, np.int32), *counts])


def store_matches(path: Path, fingerprint: str) -> bool:
    """Whether a whole store with this fingerprint is at `path`."""
    try:
        TokenStore.open(path, fingerprint)
    except CorpusError:
        return False
    return True
