"""Plain text -> plain text: each line is translated, the space around it stays.

A line that ends where the page does, in the midst of a sentence, is not joined with the next: what
is a paragraph and what is a list or a poem cannot be told for sure.
"""

import re
from collections.abc import Iterator

from regard.serving.formats.document import Document, Segment, Segments
from regard.serving.inline.pieces import says

_BEFORE = re.compile(r"[\s\ufeff]*+(?:(?:[-*+•–—>#]+|\d{1,3}[.)])[ \t][\s\ufeff]*+)*+")
"""Indentation, bullets, and the number of an item."""
_END = re.compile(r"(\r\n|\r|\n)")


def read_text(document: str) -> Document:
    """The lines of a text, and what is around them: bullets, numbers, indentation, line ends."""
    return Segments(list(_cut(document)))


def _cut(document: str) -> Iterator[Segment]:
    for number, piece in enumerate(_END.split(document)):
        if number % 2 or not says(piece):
            yield Segment(piece)
            continue
        found = _BEFORE.match(piece)
        assert found is not None  # it may be empty
        rest = piece[found.end() :]
        inner = rest.rstrip()
        yield Segment(found[0])
        yield Segment(inner, says=True)
        yield Segment(rest[len(inner) :])
