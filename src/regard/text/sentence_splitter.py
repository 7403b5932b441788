"""Where a sentence ends and the next begins, by rules that hold for many languages."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_END = re.compile(
    r"(?<![.!?…։؟।॥])(?P<marks>[.!?…։؟।॥]++[\"'»”’)\]]*+(?: [»”])?)"
    r"\s++(?=[^\w\s]*+\s?(?P<next>[^\W_]))"
    r"|(?<![。！？])[。！？]++[」』）”’]*+\s*+(?=\S)"
)
"""Nothing is tried again from inside a run of marks: of a line of dots that would take minutes."""
_LAST = re.compile(r"[.!?…։؟।॥。！？][\"'»”’)\]」』）]*(?: ?[»”])?\s*\Z")
_LAST_WORD = re.compile(r"[^\s(\[«“\"']*\Z")
_INITIAL = re.compile(r"[^\W\d_]|\d{1,2}")
_ABBREVIATIONS = frozenset(
    re.findall(
        r"[^ ]+",
        "mm mme mlle mr mrs ms dr prof st ste sr sra jr vs ex cf no nr art fig vol chap pp av "
        "bd tel tél hr fr bzw ca approx usw z.b d.h u.a e.g i.e",
    )
)
_CONTEXT = 40
"""Characters before a full stop that may hold the word it is of."""


class Span(NamedTuple):
    """Characters of a text: from `first` to before `last`."""

    first: int
    last: int


def split_sentences(text: str) -> list[Span]:
    """The sentences of `text`, in order; the spaces between them are in none.

    A full stop, and the like, ends a sentence if a space follows and then no small letter; but not
    behind an initial, a short number (an ordinal, or an item of a list) or a common abbreviation.
    """
    return list(_split(text))


def ends_sentence(text: str) -> bool:
    """Whether a text ends as a sentence does."""
    return _LAST.search(text) is not None


def _split(text: str) -> Iterator[Span]:
    first = len(text) - len(text.lstrip())
    for found in _END.finditer(text):
        if found["next"] and (found["next"].islower() or _is_abbreviation(text, found)):
            continue
        last = found.start() + len(found[0].rstrip())
        yield Span(first, last)
        first = found.end()
    end = len(text.rstrip())
    if first < end:
        yield Span(first, end)


def _is_abbreviation(text: str, end: re.Match[str]) -> bool:
    """Whether a full stop marks an abbreviation, not an end."""
    if end["marks"] != ".":
        return False
    word = _LAST_WORD.search(text[max(0, end.start() - _CONTEXT) : end.start()])
    assert word is not None  # it may be empty
    return _INITIAL.fullmatch(word[0]) is not None or word[0].lower() in _ABBREVIATIONS
