"""The formats of documents, and how they are read."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Literal, get_args

from regard.corpora.readers.pair_files import not_utf8
from regard.errors import CorpusError
from regard.tasks.translation.documents.html import read_html
from regard.tasks.translation.documents.markdown import Markdown, read_markdown
from regard.tasks.translation.documents.subtitles import Subtitles, read_subtitles
from regard.text.segmentation import Segments, split_lines

DocumentFormat = Literal["text", "markdown", "html", "srt", "vtt"]
DOCUMENT_FORMATS: tuple[DocumentFormat, ...] = get_args(DocumentFormat)
FORMAT_OF_SUFFIX: Mapping[str, DocumentFormat] = {
    ".txt": "text",
    ".text": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".srt": "srt",
    ".vtt": "vtt",
}

Document = Segments | Markdown | Subtitles
"""`lines` are the texts to translate, which may have inline markup; `join` inserts translations."""


def format_of(name: str) -> DocumentFormat | None:
    """The format of a file by its name, with or without .gz."""
    return FORMAT_OF_SUFFIX.get(PurePath(name.lower().removesuffix(".gz")).suffix)


def decode_document(data: bytes, name: str) -> str:
    """The text of a document, with its byte order mark; an error if it is not UTF-8 text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{name}: {not_utf8(error, 'file')}") from None
    if "\0" in text:
        raise CorpusError(
            f"{name}: has a null character, the {text.index(chr(0)) + 1:,}th: is it a text?"
        )
    return text


def read_document(text: str, kind: DocumentFormat, name: str) -> Document:
    """The parsed document; an error if a file of subtitles has none, unless it is blank.

    Lines of plain text are not joined: paragraphs cannot be distinguished from lists and poems.
    """
    if kind == "text":
        return split_lines(text)
    if kind == "markdown":
        return read_markdown(text)
    if kind == "html":
        return read_html(text)
    subtitles = read_subtitles(text)
    rest = text.removeprefix("\ufeff").strip()
    if rest and not subtitles and not (kind == "vtt" and rest.startswith("WEBVTT")):
        raise CorpusError(
            f"{name}: has no subtitles, that is, no line of times such as "
            f"00:00:01,000 --> 00:00:02,500: is it {kind}?"
        )
    return subtitles
