"""Text files whose lines are not what somebody wrote, recognised by their beginning or name."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from regard.errors import CorpusError


class _Structure(NamedTuple):
    """A format of text files."""

    name: str
    document: str  # the name of the format as a document, if it is translated as one
    endings: frozenset[str]
    begins: re.Pattern[bytes]


_STRUCTURES: Sequence[_Structure] = [
    _Structure(
        name,
        document,
        frozenset(endings.split()),
        re.compile(rb"(?:\xef\xbb\xbf)?\s*+(?:" + begins + rb")", re.IGNORECASE),
    )
    for name, document, endings, begins in (
        ("HTML", "html", "html htm xhtml", rb"(?:<\?xml[^>]*>\s*+)?(?:<!doctype html|<html[\s>])"),
        ("Markdown", "markdown", "md markdown", rb"(?!)"),
        ("SubRip", "srt", "srt", rb"\d+[ \t]*\r?\n(?:\d+:)?\d+:\d+[.,]\d+[ \t]+-->"),
        ("WebVTT", "vtt", "vtt", rb"WEBVTT\s"),
        ("SubStation Alpha", "", "ass ssa", rb"\[Script Info\]"),
        (
            "XML",
            "",
            "xml xliff xlf sdlxliff mqxliff tmx tbx ttx resx",
            rb"<\?xml\s|<(?:xliff|tmx|tbx|svg|resources)[\s>]",
        ),
        ("PO", "", "po pot", rb'(?:#[^\n]*+\n|\s)*+(?:msgctxt|msgid)\s+"'),
        (
            "JSON",
            "",
            "json jsonl ndjson ipynb arb",
            rb"\[?\s*+\{\s*+STRING\s*+:|\[\s*+STRING\s*+(?:\]|,\s*+STRING)".replace(
                b"STRING", rb'"(?:[^"\\]|\\.)*+"'
            ),
        ),
        ("RTF", "", "rtf", rb"\{\\rtf"),
        ("LaTeX", "", "tex", rb"(?:%[^\n]*+\n|\s)*+\\documentclass"),
        ("YAML", "", "yaml yml", rb"%YAML\s"),
        ("key-value pairs", "", "properties strings", rb"(?!)"),
    )
]


def refuse_structured(head: bytes, name: str, ending: str, *, override: str) -> None:
    """An error if a file that begins with `head` is not lines of text, but JSON for example.

    `override` is the option that reads the lines of such a file all the same, if there is one.
    """
    for known in _STRUCTURES:
        if ending in known.endings or known.begins.match(head):
            advice = ["save its text as UTF-8 first"]
            if known.document:
                advice = [f"translate it as a document (--format {known.document})"]
            if override:
                advice.append(f"or give {override} if its lines are meant")
            raise CorpusError(
                f"{name}: is {known.name}, and not lines of text; {', '.join(advice)}"
            )
