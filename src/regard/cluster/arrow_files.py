"""Columns of Parquet files, and files at URIs, read by pyarrow as in Ray."""

from collections.abc import Iterator
from typing import BinaryIO, cast

import pyarrow as pa
from pyarrow import fs, parquet

from regard.errors import CorpusError


def open_uri(uri: str, *, seekable: bool = False) -> BinaryIO:
    """The bytes of the file at a URI."""
    try:
        filesystem, place = fs.FileSystem.from_uri(uri)
        if seekable:
            return cast(BinaryIO, filesystem.open_input_file(place))
        return cast(BinaryIO, filesystem.open_input_stream(place, compression=None))
    except (OSError, pa.ArrowException) as error:
        raise CorpusError(f"{uri}: cannot be opened: {error}") from None


def read_texts(
    stream: BinaryIO, path: str, column: int | str | None, batch_size: int
) -> Iterator[bytes | None]:
    """The cells of a column of text of a Parquet file; None for a null."""
    try:
        table = parquet.ParquetFile(stream)
        name = _find_column(path, column, table.schema_arrow)
        for batch in table.iter_batches(batch_size=batch_size, columns=[name]):
            yield from batch.column(0).cast(pa.large_binary()).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise CorpusError(f"{path}: cannot be read as Parquet: {error}") from None


def _find_column(path: str, column: int | str | None, schema: pa.Schema) -> str:
    """The name of the column to translate: the one asked for, or the only one with text."""
    texts = [field.name for field in schema if _is_text(field.type)]
    name = None if column is None else str(column)
    if isinstance(column, int) and column < len(schema):
        name = schema.names[column]
    if name in texts or (name is None and len(texts) == 1):
        return texts[0] if name is None else name
    asked = "no --column was given" if column is None else f"--column {column} was asked for"
    asked += f", which is {name}" if name not in (None, str(column)) else ""
    raise CorpusError(f"{path}: {asked}; its columns of text are {', '.join(texts) or 'none'}")


def _is_text(kind: pa.DataType) -> bool:
    """Whether the values of a column are texts, plain or dictionary-encoded."""
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    return str(values) in ("string", "large_string", "string_view")
