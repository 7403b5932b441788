"""The kinds of documents: by name, and as bytes."""

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Literal

from regard.corpora.readers import not_utf8
from regard.errors import CorpusError
from regard.serving.formats.document import Document
from regard.serving.formats.html import read_html
from regard.serving.formats.subtitles import read_subtitles
from regard.serving.formats.text import read_text

Kind = Literal["text", "html", "srt", "vtt"]
READERS: Mapping[Kind, Callable[[str], Document]] = {
    "text": read_text,
    "html": read_html,
    "srt": read_subtitles,
    "vtt": read_subtitles,
}
"""How each kind is taken apart."""
_SUFFIXES: Mapping[str, Kind] = {
    ".txt": "text",
    ".text": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".srt": "srt",
    ".vtt": "vtt",
}


def kind_of(name: str) -> Kind | None:
    """The kind of document that a file's name tells of, with or without .gz behind it."""
    return _SUFFIXES.get(PurePath(name.lower().removesuffix(".gz")).suffix)


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
