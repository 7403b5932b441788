"""Token ids on disk, in a memory-mapped Arrow file."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from regard.atomic_io import atomic_file
from regard.errors import CorpusError
from regard.manifest import open_plain
from regard.text.ragged import IntArray, Ragged, ragged_arange

ROWS = 16_384  # pairs in a record batch
FINGERPRINT_KEY = b"regard.fingerprint"  # among the metadata of the schema

_COLUMNS = {name: pa.list_(pa.int32()) for name in ("source", "target")}


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


def fingerprint(*parts: str) -> str:
    """A SHA-256, in hex, that changes with any of `parts` and with their boundaries."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


def write_store(path: Path, chunks: Iterable[TokenChunk], fingerprint: str) -> None:
    """Write `chunks`, of any size, to `path`: all of them, or none, and then keep an old store."""
    schema = pa.schema(_COLUMNS, metadata={FINGERPRINT_KEY: fingerprint.encode()})
    with atomic_file(path) as file, pa.ipc.new_file(file, schema) as sink:
        for rows in _batches(chunks):
            sink.write_batch(pa.record_batch(rows, schema=schema))


def _batches(chunks: Iterable[TokenChunk]) -> Iterator[list[list[Any]]]:
    """The chunks as columns of `ROWS` rows; the last ones may be shorter."""
    columns: list[list[Any]] = [[] for _ in _COLUMNS]
    for chunk in chunks:
        for column, part in zip(columns, chunk, strict=True):
            column.extend(part)
        counts = [len(column) for column in columns]
        if len(set(counts)) > 1:
            raise ValueError(f"a chunk's columns differ in length: {counts} rows so far")
        while len(columns[0]) >= ROWS:
            yield [column[:ROWS] for column in columns]
            columns = [column[ROWS:] for column in columns]
    if columns[0]:
        yield columns


class _Column:
    """One side of all pairs: where its ids are in the file, taken as an array of int32."""

    def __init__(self, file: NDArray[np.int32], batches: Sequence[Any], name: str) -> None:
        columns = [batch.column(name) for batch in batches]
        self._file, start = file, file.ctypes.data
        self._offsets, self._values = (
            np.array([(x.buffers()[1].address - start) // 4 + x.offset for x in some], np.int64)
            for some in ([x.offsets for x in columns], [x.values for x in columns])  # per batch
        )

    def take(self, batches: IntArray, rows: IntArray) -> Ragged:
        """The ids of some `rows` of some `batches`."""
        offsets = self._offsets[batches] + rows
        first = self._file[offsets]
        counts = (self._file[offsets + 1] - first).astype(np.int64)
        return Ragged(self._file[ragged_arange(self._values[batches] + first, counts)], counts)

    def lengths(self, rows: Sequence[int]) -> NDArray[np.int32]:
        """How many ids each pair has; `rows` are the pairs of each batch."""
        spans = zip(self._offsets.tolist(), rows, strict=True)
        counts = [np.diff(self._file[first : first + count + 1]) for first, count in spans]
        return np.concatenate([np.empty(0, np.int32), *counts])


class TokenStore:
    """The pairs of a store by their row, from 0; made by `open`. The ids stay in the file."""

    def __init__(self, path: Path, file: Any, batches: Sequence[Any]) -> None:
        """`file` is a buffer of all that is at `path`, and holds the `batches`."""
        self.path = path
        numbers = np.frombuffer(file, np.int32, file.size // 4)
        self._source, self._target = (_Column(numbers, batches, name) for name in _COLUMNS)
        self._rows = [batch.num_rows for batch in batches]
        self._ends = np.cumsum(self._rows, dtype=np.int64)  # the row after the last of each batch

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).open, (self.path,)  # another process maps the file itself

    @classmethod
    def open(cls, path: Path, fingerprint: str | None = None) -> Self:
        """The store at `path`; with a `fingerprint`, an error if it was written with another."""
        try:
            open_plain(path).close()
            file = pa.memory_map(str(path)).read_buffer()
            reader = pa.ipc.open_file(file)
            found = (reader.schema.metadata or {}).get(FINGERPRINT_KEY, b"").decode()
            if [reader.schema.field(name).type for name in _COLUMNS] != list(_COLUMNS.values()):
                columns = ", ".join(f"{field.name}: {field.type}" for field in reader.schema)
                raise ValueError(f"its columns are {columns}")
            batches = [reader.get_batch(n) for n in range(reader.num_record_batches)]
            store = cls(path, file, batches)
        except FileNotFoundError:
            raise CorpusError(f"{path}: no such token store; prepare the corpus first") from None
        except (OSError, ValueError, KeyError) as error:
            raise CorpusError(
                f"{path}: not a complete token store ({error}); remove it and prepare the corpus "
                "again"
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
        """The lengths of all pairs; each call computes them again."""
        return Lengths(self._source.lengths(self._rows), self._target.lengths(self._rows))

    def take(self, rows: NDArray[np.integer[Any]]) -> TokenPairs:
        """The pairs of `rows`, in that order."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(
                f"{self.path}: rows {rows.min()} to {rows.max()} asked for, of {len(self)}"
            )
        batches = np.searchsorted(self._ends, rows, side="right")
        inside = rows.astype(np.int64) - np.concatenate(([0], self._ends))[batches]
        return TokenPairs(self._source.take(batches, inside), self._target.take(batches, inside))


def store_matches(path: Path, fingerprint: str) -> bool:
    """Whether a complete store with this fingerprint is at `path`."""
    try:
        TokenStore.open(path, fingerprint)
    except CorpusError:
        return False
    return True
