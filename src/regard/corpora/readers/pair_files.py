"""Files of pairs, read as a stream: only one line is in memory at a time."""

import csv
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

from pydantic import NonNegativeInt, model_validator

from regard.corpora.corpus import Pair, ReadReport
from regard.corpora.languages import shortest_code
from regard.corpora.readers.binary_files import UTF16, refuse_binary
from regard.corpora.readers.structured_files import refuse_structured
from regard.corpora.readers.tmx import read_tmx
from regard.errors import BadLineError, CorpusError
from regard.settings import Settings
from regard.size_limits import SizeLimit, max_bytes, too_large

Format = Literal["tsv", "csv", "tmx", "jsonl"]
FORMATS: tuple[Format, ...] = ("tsv", "csv", "tmx", "jsonl")
STDIN = "-"
SIDE_NAMES = ("source", "src"), ("target", "tgt", "trg")  # of columns not named by language
KNOWN_LANGUAGE_NAMES = ("english", "french", "german", "spanish")  # in headers, of any corpus
BLANK_ROWS: tuple[list[str], ...] = ([], [""])  # a blank line as a row of CSV, and of TSV

OpenFile = Callable[[str | Path], BinaryIO]

_GZIP_MAGIC, _XZ_MAGIC, _BOM = b"\x1f\x8b", b"\xfd7zXZ\0", b"\xef\xbb\xbf"
_CHUNK = 1 << 16
_NEWLINE, _COLUMN_NAME = re.compile(r"\r\n?|\n"), re.compile(r"\s*[A-Za-z_-]{2,20}\s*")


class FilesSettings(Settings):
    """Where pairs are read from: two parallel text files, or one file with both sides.

    Any of them may be compressed by gzip or xz, regardless of its name, and one may be `-`, the
    standard input. Text is UTF-8, with or without a byte order mark.
    """

    source: str | None = None
    """A text file with one sentence a line; used together with `target`."""
    target: str | None = None
    """A text file with the translations, line by line."""
    data: str | None = None
    """One file with both sides: .tsv, .csv or .tmx, or .jsonl for dialogues, optionally followed by
    .gz or .xz."""
    format: Format | None = None
    """The format of `data`, if its name does not tell."""
    columns: tuple[NonNegativeInt | str, NonNegativeInt | str] = (0, 1)
    """The columns of source and target in TSV or CSV: numbers from 0, or names of the header."""
    header: bool = False
    """Whether the first line of TSV or CSV is a header; names in `columns` imply it. A line that
    names the sides or their languages, such as `source,target` or `en,de`, is recognised as one."""
    languages: tuple[str, str] | None = None
    """The codes of source and target in TMX, if they differ from those of the corpus."""
    skip_bad: bool = False
    """Skip and count what cannot be read, instead of stopping there: lines that are not UTF-8, rows
    with too few columns, units of TMX that are not XML."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        texts = (self.source, self.target)
        if self.data is not None and texts != (None, None):
            raise ValueError("give either data, or source and target, not both")
        if self.data is None and None in texts:
            raise ValueError("give data, or both source and target")
        if texts == (STDIN, STDIN):
            raise ValueError("source and target cannot both be the standard input")
        if self.data == STDIN and self.format is None:
            raise ValueError(f"data is the standard input: give format ({', '.join(FORMATS)})")
        self._refuse_unused()
        return self

    def _refuse_unused(self) -> None:
        """An error if a setting was given that has no effect."""
        kind = "two text files" if self.data is None else self.kind()
        table, tmx = kind in ("tsv", "csv", None), kind in ("tmx", None)
        unused = {
            "format": self.format is not None and self.data is None,
            "columns": self.columns != (0, 1) and not table,
            "header": self.header and not table,
            "languages": self.languages is not None and not tmx,
        }
        if any(unused.values()):
            names = ", ".join(name for name, is_unused in unused.items() if is_unused)
            raise ValueError(f"{names} would have no effect: the pairs are read from {kind}")

    def kind(self) -> Format | None:
        """The format of `data`, as given or by its name; None if neither tells."""
        ending = name_ending(self.data or "")
        return self.format or next((known for known in FORMATS if known == ending), None)


def read_pairs(
    settings: FilesSettings, languages: tuple[str, str], report: ReadReport | None = None
) -> Iterator[Pair]:
    """The pairs of the files, in their order; `languages` are those of the corpus.

    A blank line of a table is a pair of empty sentences, which cleaning counts. A line break
    inside a CSV cell or a TMX segment becomes a space. What is skipped is counted in `report`.
    """
    report = report or ReadReport()
    if settings.source is not None and settings.target is not None:
        return _read_parallel(settings.source, settings.target, report, settings.skip_bad)
    assert settings.data is not None  # the settings have been validated
    kind = settings.kind()
    if kind is None:
        raise CorpusError(
            f"{settings.data}: its name ends in none of .tsv, .csv, .tmx and .jsonl, with or "
            f"without .gz; rename it, or give its format ({', '.join(FORMATS)}), as in "
            "--set corpus.train.format=tsv; plain text is for a language model: regard train text "
            "--data FILE"
        )
    report.start_file(file_label(settings.data))
    if kind == "tmx":
        return _read_tmx_file(settings, settings.languages or languages, report)
    return _read_table(settings, settings.languages or languages, report)


def read_lines(
    path: str | Path,
    *,
    replace: bool = False,
    override: str | None = None,
    limit: SizeLimit = "text",
) -> Iterator[str]:
    """The lines of a text file, or of the standard input for `-`, without their ends.

    A line ends in \\n or \\r\\n and nowhere else, so that lines count as in other tools. With
    `replace`, bytes that are not UTF-8 become U+FFFD instead of an error. `override` and
    `limit` are as in `read_raw_lines`.
    """
    for number, raw in enumerate(read_raw_lines(path, override=override, limit=limit), 1):
        try:
            yield raw.decode("utf-8", "replace" if replace else "strict")
        except UnicodeDecodeError as error:
            raise BadLineError(f"{file_label(path)}: line {number}: {not_utf8(error)}") from None


def read_or_skip_lines(
    path: str, report: ReadReport, *, skip_bad: bool, limit: SizeLimit = "text"
) -> Iterator[str | None]:
    """The lines of a file. One that is not UTF-8 is an error; with `skip_bad` it is None, and is
    counted in `report`.
    """
    if not skip_bad:
        yield from read_lines(path, limit=limit)
        return
    for number, raw in enumerate(read_raw_lines(path, limit=limit), 1):
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError:
            report.skip(file_label(path), "lines that are not UTF-8", f"line {number:,}")
            yield None


def read_raw_lines(
    path: str | Path,
    open_file: OpenFile | None = None,
    *,
    override: str | None = None,
    limit: SizeLimit = "text",
) -> Iterator[bytes]:
    """The lines of a file without line ends and byte order mark; `open_file` opens a file that is
    not on this machine.

    With `override`, an option that reads it all the same, a file of another format than lines of
    text, such as JSON, is an error. `limit` is "examples" if the caller holds all lines.
    """
    longest = max_bytes("line")
    with open_bytes(path, open_file, limit) as stream:
        if override is not None:
            name, head = file_label(path), stream.peek(_CHUNK)
            refuse_structured(head, name, name_ending(str(path)), override=override)
        for number, raw in enumerate(iter(partial(stream.readline, longest + 1), b""), 1):
            if len(raw) > longest:
                raise CorpusError(
                    f"{file_label(path)}: line {number}: {too_large('line')}; is this a text file "
                    "with one sentence a line?"
                )
            line = raw.removesuffix(b"\n").removesuffix(b"\r") if raw.endswith(b"\n") else raw
            yield line.removeprefix(_BOM) if number == 1 else line


def read_bytes(path: str | Path) -> bytes:
    """All bytes of a document, or of the standard input for `-`, decompressed."""
    with open_bytes(path, limit="document") as stream:
        return stream.read()


def not_utf8(error: UnicodeDecodeError, of: str = "line") -> str:
    """Why a line (or another part `of` a file) is not UTF-8, and what to do."""
    byte = f"byte {error.start + 1} of the {of} is 0x{error.object[error.start]:02x}"
    if error.object.startswith(UTF16):
        return f"not UTF-8 but apparently UTF-16 ({byte}); convert it: iconv -f UTF-16 -t UTF-8"
    return f"not UTF-8: {byte}; convert it, from Latin-1 for example: iconv -f LATIN1 -t UTF-8"


def _read_parallel(source: str, target: str, report: ReadReport, skip_bad: bool) -> Iterator[Pair]:
    """Line n of one file with line n of the other."""
    sides: list[Iterator[str | None]] = []
    for path in (source, target):
        report.start_file(file_label(path))
        sides.append(read_or_skip_lines(path, report, skip_bad=skip_bad))
    count, end = 0, object()
    for left, right in zip_longest(*sides, fillvalue=end):
        if left is end or right is end:
            lines = [
                count + (line is not end) + sum(1 for _ in side)
                for line, side in zip((left, right), sides, strict=True)
            ]
            raise CorpusError(
                f"{file_label(source)} has {lines[0]} lines and {file_label(target)} has {lines[1]}"
                ": parallel files must have the same number; look for a line lost or split in two"
            )
        count += 1
        if isinstance(left, str) and isinstance(right, str):
            yield Pair(left, right)
    if not count:
        raise CorpusError(f"{file_label(source)} and {file_label(target)} are empty")


def _read_table(
    settings: FilesSettings, languages: tuple[str, str], report: ReadReport
) -> Iterator[Pair]:
    """The two columns of each row."""
    path = str(settings.data)
    name, columns = file_label(path), settings.columns
    rows = read_rows(path, settings.kind(), report, skip_bad=settings.skip_bad)
    if settings.header or any(isinstance(column, str) for column in columns):
        places = find_columns(columns, next(rows, (1, []))[1], name)
    else:
        places = [int(column) for column in columns]
    empty = True
    for number, row in rows:
        empty = False
        header = None if settings.header or number > 1 else header_places(row, languages)
        if header is not None:
            places = header if header and columns == (0, 1) else places
            source, target = (row[place] if place < len(row) else "?" for place in places)
            report.add_note(
                name,
                f"line 1 is a header ({', '.join(row)}), not a pair: {source!r} is read as source, "
                f"{target!r} as target; corpus.train.columns sets other columns",
            )
        elif len(row) > max(places):
            yield Pair(*(_NEWLINE.sub(" ", row[place]) for place in places))
        elif row in BLANK_ROWS:
            yield Pair("", "")
        elif settings.skip_bad:
            report.skip(name, "rows with too few columns", f"line {number:,}")
        else:
            raise BadLineError(
                f"{name}: line {number}: column {max(places)} was asked for, counted from 0, and "
                f"{len(row)} found; the line begins {row[0][:40]!r}"
            )
    if empty:
        raise CorpusError(_empty_message(path))


def header_places(row: Sequence[str], languages: tuple[str, str]) -> list[int] | None:
    """The columns of source and target if `row` is a header, [] if it names none; else None."""
    # a header has two or more names of sides or languages
    if sum(bool(_COLUMN_NAME.fullmatch(cell)) for cell in row) < 2:
        return None
    names = [shortest_code(cell) for cell in row]
    sides = [
        {*fixed, shortest_code(language)}
        for fixed, language in zip(SIDE_NAMES, languages, strict=True)
    ]
    known = set(map(shortest_code, KNOWN_LANGUAGE_NAMES)).union(*sides)
    if sum(name in known for name in names) < 2:
        return None
    places = [[place for place, name in enumerate(names) if name in side] for side in sides]
    unique = all(len(found) == 1 for found in places) and places[0] != places[1]
    return [found[0] for found in places] if unique else []


def read_rows(
    path: str,
    kind: Format | None = "csv",
    report: ReadReport | None = None,
    *,
    skip_bad: bool = False,
    limit: SizeLimit = "text",
) -> Iterator[tuple[int, list[str]]]:
    """Each row of a table, with the number of its first line."""
    report = report or ReadReport()
    lines = read_or_skip_lines(path, report, skip_bad=skip_bad, limit=limit)
    return _csv_rows(path, lines, report, skip_bad) if kind == "csv" else _tsv_rows(lines)


def _tsv_rows(lines: Iterator[str | None]) -> Iterator[tuple[int, list[str]]]:
    """Each line with its number, split at tabs; quotes have no meaning."""
    for number, line in enumerate(lines, 1):
        if line is not None:
            yield number, line.split("\t")


def _csv_rows(
    path: str, lines: Iterator[str | None], report: ReadReport, skip_bad: bool
) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its first line."""
    bad: list[int] = []  # lines of the current row
    size = 0  # of the current row

    def row_lines() -> Iterator[str]:
        nonlocal size
        for line in lines:
            if line is None:
                bad.append(reader.line_num + 1)
            size += len(line or "")
            if size > max_bytes("line"):
                raise CorpusError(
                    f"{file_label(path)}: the row that begins in line {number}: "
                    f"{too_large('line')}; is a quote not closed?"
                )
            yield f"{line or ''}\n"

    reader = csv.reader(row_lines(), strict=True)
    while True:
        number = reader.line_num + 1
        bad.clear()
        size = 0
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if not skip_bad:
                raise BadLineError(
                    f"{file_label(path)}: line {number}: not CSV: {error}; is a quote not closed, "
                    "or not doubled inside a quoted cell?"
                ) from None
            report.skip(file_label(path), "rows that are not CSV", f"line {number:,}")
            continue
        if not bad:
            yield number, row


def find_columns(columns: Sequence[int | str], header: list[str], name: str) -> list[int]:
    """The indices of columns that are given by index or name."""
    for column in columns:
        if isinstance(column, str) and header.count(column) != 1:
            raise CorpusError(
                f"{name}: line 1: {header.count(column) or 'no'} columns are named {column!r}; "
                f"the header has {', '.join(map(repr, header)) or 'nothing'}"
            )
    return [header.index(column) if isinstance(column, str) else column for column in columns]


def _read_tmx_file(
    settings: FilesSettings, languages: tuple[str, str], report: ReadReport
) -> Iterator[Pair]:
    path = str(settings.data)
    with open_bytes(path) as stream:
        if not stream.peek(1):
            raise CorpusError(_empty_message(path))
        # units can be told apart before they are parsed only where letters are single bytes
        skip_bad = settings.skip_bad and not stream.peek(2).startswith(UTF16)
        for source, target in read_tmx(
            stream, file_label(path), languages, report, skip_bad=skip_bad
        ):
            yield Pair(_NEWLINE.sub(" ", source), _NEWLINE.sub(" ", target))


class _LocatingReader(io.RawIOBase):
    """The bytes of another stream; errors say where in it reading failed."""

    def __init__(self, stream: Any, name: str, limit: SizeLimit, compression: str = "") -> None:
        self._stream, self._label, self._compression = stream, name, compression
        self._limit, self._max_bytes = limit, max_bytes(limit)
        self._bytes = self._lines = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read1(len(buffer))  # returns what is available: a pipe may be slow
        except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
            cut = isinstance(error, EOFError)
            fault = "ends too early: the file is truncated" if cut else f"is damaged ({error})"
            raise CorpusError(
                f"{self._label}: line {self._lines + 1}: the {self._compression} data {fault}; "
                "copy or download it again"
            ) from None
        except OSError as error:
            raise CorpusError(
                f"{self._label}: cannot be read after byte {self._bytes}: {error.strerror or error}"
            ) from error
        self._bytes += len(data)
        if self._bytes > self._max_bytes:
            raise CorpusError(f"{self._label}: {too_large(self._limit)}")
        self._lines += data.count(b"\n")
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def open_bytes(
    path: str | Path, open_file: OpenFile | None = None, limit: SizeLimit = "text"
) -> Iterator["io.BufferedReader[_LocatingReader]"]:
    """The bytes of a file or of the standard input, decompressed (gzip, xz); an error if it is
    binary, or where it exceeds the limit.
    """
    name, opener = file_label(path), open_file or open_local
    with ExitStack() as stack:
        file = sys.stdin.buffer if str(path) == STDIN else stack.enter_context(opener(path))
        stream = io.BufferedReader(_LocatingReader(file, name, limit), _CHUNK)
        if stream.peek(2)[:2] == _GZIP_MAGIC:
            unzipped = stack.enter_context(gzip.GzipFile(fileobj=stream))
            stream = io.BufferedReader(_LocatingReader(unzipped, name, limit, "gzip"), _CHUNK)
        elif stream.peek(6)[:6] == _XZ_MAGIC:
            expanded = stack.enter_context(lzma.LZMAFile(stream))
            stream = io.BufferedReader(_LocatingReader(expanded, name, limit, "xz"), _CHUNK)
        refuse_binary(stream.peek(_CHUNK), name)
        yield stream


def open_local(path: str | Path) -> BinaryIO:
    """An opened file of this machine; an error says why it cannot be opened."""
    try:
        return open(path, "rb")
    except (OSError, ValueError) as error:  # a ValueError if the name has a null byte
        reasons: dict[type[Exception], str] = {
            FileNotFoundError: f"no such file (looked in {Path.cwd()})",
            IsADirectoryError: "a folder, where a file was expected",
            PermissionError: "no permission to read it",
        }
        reason = reasons.get(type(error), f"cannot be opened: {error}")
        raise CorpusError(f"{path}: {reason}") from None


def file_label(path: str | Path) -> str:
    """What messages call a file."""
    return "standard input" if str(path) == STDIN else str(path)


def name_ending(path: str) -> str:
    """The extension of a file's name (before `.gz` or `.xz`), in lower case and without a dot."""
    return Path(path.lower().removesuffix(".gz").removesuffix(".xz")).suffix[1:]


def _empty_message(path: str) -> str:
    once = "; it can be read only once" if path == STDIN else ""
    return f"{file_label(path)}: holds no pairs: it is empty{once}"
