"""The kinds of documents: by name, and as bytes."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Literal, get_args

from regard.corpora.readers.pair_files import not_utf8
from regard.errors import CorpusError
from regard.pipelines.documents.document import Document
from regard.pipelines.documents.html import read_html
from regard.pipelines.documents.plain_text import read_text
from regard.pipelines.documents.subtitles import read_subtitles

DocumentFormat = Literal["text", "html", "srt", "vtt"]
DOCUMENT_FORMATS: tuple[DocumentFormat, ...] = get_args(DocumentFormat)
FORMAT_OF_SUFFIX: Mapping[str, DocumentFormat] = {
    ".txt": "text",
    ".text": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".srt": "srt",
    ".vtt": "vtt",
}
"""What the end of a file's name tells of it."""


def format_of(name: str) -> DocumentFormat | None:
    """The kind of document that a file's name tells of, with or without .gz behind it."""
    return FORMAT_OF_SUFFIX.get(PurePath(name.lower().removesuffix(".gz")).suffix)


def decode(data: bytes, name: str) -> str:
    """The text of a document, its byte order mark included; an error if it is none."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{name}: {not_utf8(error, 'file')}") from None
    if "\0" in text:
        raise CorpusError(
            f"{name}: holds a null character, the {text.index(chr(0)) + 1:,}th: is it a text?"
        )
    return text


def read(text: str, kind: DocumentFormat, name: str) -> Document:
    """The document taken apart; an error if a file of subtitles has none, unless it is blank."""
    if kind == "text":
        return read_text(text)
    if kind == "html":
        return read_html(text)
    subtitles = read_subtitles(text)
    rest = text.removeprefix("\ufeff").strip()
    if rest and not subtitles and not (kind == "vtt" and rest.startswith("WEBVTT")):
        raise CorpusError(
            f"{name}: holds no subtitle, which would have a line of times such as "
            f"00:00:01,000 --> 00:00:02,500: is it {kind}?"
        )
    return subtitles
