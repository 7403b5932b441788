"""Inputs of a bulk translation: files of any size, read as numbered blocks of lines."""

import hashlib
from collections.abc import Collection, Iterator
from functools import partial
from importlib import import_module
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

from pydantic import Field, NonNegativeInt

from regard.corpora.readers.pair_files import (
    STDIN,
    find_columns,
    not_utf8,
    open_local,
    read_raw_lines,
)
from regard.errors import CorpusError, SettingsError
from regard.iterate import chunked
from regard.settings import Settings, counted
from regard.tasks.translation.pipeline import CHUNK

PARQUET = ".parquet"
COMPRESSED = (".gz", ".xz")
LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")


class InputFile(Settings):
    """A file of a bulk translation, and its contents when the translation was started."""

    path: str
    """A path on this machine, absolute after the scan, or a URI such as s3://bucket/news.fr.gz."""
    column: NonNegativeInt | str | None = None
    """The column of a table: a number from 0, or a name."""
    lines: NonNegativeInt = 0
    sha256: str = ""
    """The digest of its decompressed lines."""
    block_sha256: tuple[bytes, ...] = Field(default=(), exclude=True)
    """The digests of the lines of each block."""

    @property
    def is_remote(self) -> bool:
        """Whether the file is named by a URI, which every machine of a cluster can read."""
        return "://" in self.path

    @property
    def output(self) -> str:
        """The name of the file of translations: that of the input, with .txt added for tables."""
        name = PurePosixPath(self.path).name
        name = name.removesuffix(next((end for end in COMPRESSED if name.endswith(end)), ""))
        is_table = self.column is not None or name.endswith(PARQUET)
        return f"{name}.txt" if is_table else name

    @property
    def num_blocks(self) -> int:
        return -(-self.lines // CHUNK)

    def block_lines(self, number: int) -> int:
        """The number of lines of a block: the same for all except the last."""
        return min(CHUNK, self.lines - number * CHUNK)


class SourceBlock(Settings):
    """Consecutive lines of an input."""

    input: NonNegativeInt
    """The number of the input, from 0."""
    number: NonNegativeInt
    """The number of the block in its input, from 0."""
    texts: tuple[str, ...]
    notes: tuple[tuple[NonNegativeInt, str], ...] = ()
    """The index of a line in the block, and a note about it."""


class SourceLine(NamedTuple):
    """A line, and a note about it."""

    text: str
    note: str = ""


def scan_input(file: InputFile) -> InputFile:
    """The file with the number and the digests of its lines; reads it all, a block at a time.

    Its path becomes absolute: it is read again in the folder where Ray was started.
    """
    lines, digest, of_blocks = 0, hashlib.sha256(), []
    for block in chunked(_read_source_lines(file), CHUNK):
        content = _block_bytes(block)
        lines += len(block)
        digest.update(content)
        of_blocks.append(hashlib.sha256(content).digest())
    found = {"lines": lines, "sha256": digest.hexdigest(), "block_sha256": tuple(of_blocks)}
    path = file.path if file.is_remote else str(Path(file.path).absolute())
    return file.model_copy(update={"path": path, **found})


def read_blocks(file: InputFile, index: int, finished: Collection[int]) -> Iterator[SourceBlock]:
    """The unfinished blocks of the input number `index`, in order.

    Raises an error at the first block that has changed since the file was scanned, so that only
    scanned lines are translated.
    """
    blocks = chunked(_read_source_lines(file), CHUNK)
    for number, (block, digest) in enumerate(zip_longest(blocks, file.block_sha256)):
        if block is None or hashlib.sha256(_block_bytes(block)).digest() != digest:
            raise CorpusError(
                f"{file.path}: has changed while it was translated; restore it, or restart with "
                "another --out"
            )
        if number not in finished:
            texts, notes = zip(*block, strict=True)
            noted = tuple((place, note) for place, note in enumerate(notes) if note)
            yield SourceBlock(input=index, number=number, texts=texts, notes=noted)


def _block_bytes(block: list[SourceLine]) -> bytes:
    return "".join(f"{line.text}\n" for line in block).encode()


def _read_source_lines(file: InputFile) -> Iterator[SourceLine]:
    """The lines, or the cells of a column, of a file."""
    if file.path == STDIN:
        raise SettingsError("bulk reads only files, so that it can continue: save the input to one")
    if PurePosixPath(file.path).name.endswith(PARQUET):
        return _read_parquet(file)
    override = None if file.column is not None else "--column 0"
    raw_lines = read_raw_lines(file.path, _open_uri if file.is_remote else None, override=override)
    if file.column is None:
        return map(_decode, raw_lines)
    return _read_column(file.path, raw_lines, file.column)


def _decode(raw: bytes) -> SourceLine:
    try:
        return SourceLine(raw.decode())
    except UnicodeDecodeError as error:
        return SourceLine(raw.decode(errors="replace"), not_utf8(error).split(";")[0])


def _read_column(path: str, raw_lines: Iterator[bytes], column: int | str) -> Iterator[SourceLine]:
    """The cells of a column of TSV; one that is missing is an empty line with a note."""
    if isinstance(column, str):  # the first line is a header
        names = _decode(next(raw_lines, b"")).text.split("\t")
        [column] = find_columns([column], names, path)
    most, found = 0, False
    for raw in raw_lines:
        cells = raw.split(b"\t")
        most, found = max(most, len(cells)), found or column < len(cells)
        if column < len(cells):
            yield _decode(cells[column])
        else:
            wanted = f"column {column} was asked for, counted from 0, and {len(cells)} found"
            yield SourceLine("", wanted)
    if most and not found:
        raise CorpusError(
            f"{path}: --column {column} was asked for, counted from 0, and no line has more than "
            f"{counted(most, 'column')}; give one from 0 to {most - 1}"
        )


def _read_parquet(file: InputFile) -> Iterator[SourceLine]:
    """The cells of a column of text; a null is an empty line with a note, and line breaks become
    spaces.
    """
    open_file = partial(_open_uri, seekable=True) if file.is_remote else open_local
    null = SourceLine("", "the cell is empty")
    with open_file(file.path) as stream:
        for cell in _arrow().read_texts(stream, file.path, file.column, CHUNK):
            yield null if cell is None else _decode(cell.translate(LINE_BREAKS))


def _open_uri(path: str | Path, *, seekable: bool = False) -> BinaryIO:
    return cast(BinaryIO, _arrow().open_uri(str(path), seekable=seekable))


def _arrow() -> Any:
    """The reader of Parquet and of URIs; its library comes with Ray."""
    return import_module("regard.cluster.arrow_files")
