"""HTML -> HTML: the text of each block is translated, every byte of the rest stays as it is.

A block is text, with the inline markup in it, between tags that are not inline: a paragraph, a
heading, a cell. Two line breaks in a row end one as well. Scripts, styles, comments, attributes,
code and what is marked `translate="no"` or `class="notranslate"` are not translated. In `<pre>`
each line is a block, and so are the columns that two spaces or a tab part.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.serving.formats.document import Document
from regard.serving.inline.pieces import Element, Piece, Text, is_kept, parse
from regard.serving.inline.scanning import Stretch, scan
from regard.text.segments import Segment, Segments

INLINE = frozenset(
    re.findall(
        r"[^ ]+",
        "a abbr acronym area b bdi bdo big br cite code data del dfn em font i img input ins "
        "kbd label map mark math meter nobr output picture progress q rb rp rt rtc ruby s samp "
        "small source span strike strong sub sup svg time tt u var wbr",
    )
)
DRAWINGS = frozenset(("svg", "math"))
"""Elements that hold no text of the line they stand in."""
SELF_ENDING = frozenset(("p", "li", "dt", "dd", "tr", "td", "th", "option"))
"""Elements that the next of their kind ends, where nothing closes them."""
_COLUMNS = re.compile(r"(\s*\n\s*|\s{2,}|\t)")


def read_html(document: str) -> Document:
    """The blocks of a document, or fragment, and what is around them.

    Broken markup stays as broken as it is. A block without text is not translated.
    """
    reader = _Reader()
    for stretch in scan(document):
        reader.read(stretch)
    reader.end_block()
    return Segments(reader.parts)


@dataclass
class _Reader:
    """A document, as far as it has been read."""

    parts: list[Segment] = field(default_factory=list)
    block: list[Stretch] = field(default_factory=list)
    """The text and the inline tags since the last block ended."""
    kept: list[str] = field(default_factory=list)
    """The name of the element that is not translated, once for each of them that is open."""
    drawing: str = ""
    """The name of the drawing that is open, and how many of that name."""
    deep: int = 0
    preformatted: int = 0

    def read(self, stretch: Stretch) -> None:
        again = stretch.kind == "open" and stretch.name in self.kept
        if again and stretch.name in SELF_ENDING:
            self.kept.clear()
        if self.kept:
            self.parts.append(Segment(stretch.text))
            if again:
                self.kept.append(stretch.name)
            elif stretch.kind == "close" and stretch.name in self.kept:
                self.kept.pop()
        elif self.deep or (stretch.kind == "open" and stretch.name in DRAWINGS):
            self.drawing = self.drawing if self.deep else stretch.name
            self.read_drawing(stretch)
        elif stretch.kind == "text" and self.preformatted:
            self.read_columns(stretch.text)
        elif stretch.kind in ("text", "other") or stretch.name in INLINE or "-" in stretch.name:
            self.block.append(stretch)
            if stretch.name == "br" and self.breaks_twice():
                self.end_block()
        else:
            self.read_border(stretch)

    def read_drawing(self, stretch: Stretch) -> None:
        """What is within a drawing or a formula, which is one thing in a line."""
        self.block.append(stretch)
        if stretch.name == self.drawing:
            self.deep += {"open": 1, "close": -1}.get(stretch.kind, 0)

    def read_border(self, stretch: Stretch) -> None:
        """What is between blocks."""
        self.end_block()
        self.parts.append(Segment(stretch.text))
        if stretch.kind == "open" and is_kept(stretch):
            self.kept.append(stretch.name)
        if stretch.name == "pre":
            self.preformatted = max(0, self.preformatted + (1 if stretch.kind == "open" else -1))

    def read_columns(self, text: str) -> None:
        """Text whose lines and columns are blocks of their own."""
        for number, piece in enumerate(_COLUMNS.split(text)):
            if number % 2:
                self.end_block()
                self.parts.append(Segment(piece))
            elif piece:
                self.block.append(Stretch("text", piece))

    def breaks_twice(self) -> bool:
        """Whether the block ends in two line breaks."""
        shown = (one for one in reversed(self.block) if one.kind != "text" or one.text.strip())
        return [one.name for one, _ in zip(shown, range(2), strict=False)] == ["br", "br"]

    def end_block(self) -> None:
        """Hand the block over, if it says anything, but not the space around it."""
        text = "".join(stretch.text for stretch in self.block)
        if _says(parse(text)):
            inner = text.strip()
            first = text.find(inner)
            before, behind = text[:first], text[first + len(inner) :]
            self.parts += Segment(before), Segment(inner, says=True), Segment(behind)
        else:
            self.parts.append(Segment(text))
        self.block.clear()


def _says(pieces: Sequence[Piece]) -> bool:
    """Whether there is anything to translate in a block."""
    return any(
        _says(piece.inside)
        if isinstance(piece, Element)
        else isinstance(piece, Text) and bool(piece.text.strip())
        for piece in pieces
    )
