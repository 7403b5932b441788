"""HTML -> HTML: the text of each block is translated, every byte of the rest stays as it is.

A block is text, with the inline markup in it, between tags that are not inline: a paragraph, a
heading, a cell. Two line breaks in a row end one as well. Scripts, styles, comments, attributes,
code and what is marked `translate="no"` or `class="notranslate"` are not translated. In `<pre>`
each line is a block, and so are the columns that two spaces or a tab part.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.pipelines.documents.document import Document
from regard.pipelines.markup.markup_tree import (
    Element,
    TextNode,
    TreeNode,
    is_untranslated,
    parse_markup,
)
from regard.pipelines.markup.tag_scanner import MarkupToken, scan_markup
from regard.text.segmentation import Segment, Segments

INLINE_ELEMENTS = frozenset(
    re.findall(
        r"[^ ]+",
        "a abbr acronym area b bdi bdo big br cite code data del dfn em font i img input ins "
        "kbd label map mark math meter nobr output picture progress q rb rp rt rtc ruby s samp "
        "small source span strike strong sub sup svg time tt u var wbr",
    )
)
EMBEDDED_ELEMENTS = frozenset(("svg", "math"))
"""Elements that hold no text of the line they stand in."""
OPTIONAL_END_TAG = frozenset(("p", "li", "dt", "dd", "tr", "td", "th", "option"))
"""Elements that the next of their kind ends, where nothing closes them."""
_COLUMNS = re.compile(r"(\s*\n\s*|\s{2,}|\t)")


def read_html(document: str) -> Document:
    """The blocks of a document, or fragment, and what is around them.

    Broken markup stays as broken as it is. A block without text is not translated.
    """
    reader = _BlockReader()
    for markup_token in scan_markup(document):
        reader.read(markup_token)
    reader.end_block()
    return Segments(reader.parts)


@dataclass
class _BlockReader:
    """A document, as far as it has been read."""

    parts: list[Segment] = field(default_factory=list)
    block: list[MarkupToken] = field(default_factory=list)
    """The text and the inline tags since the last block ended."""
    untranslated: list[str] = field(default_factory=list)
    """The name of the element that is not translated, once for each of them that is open."""
    embedded: str = ""
    """The name of the drawing that is open, and how many of that name."""
    embedded_depth: int = 0
    preformatted: int = 0

    def read(self, markup_token: MarkupToken) -> None:
        reopened = markup_token.kind == "open" and markup_token.name in self.untranslated
        if reopened and markup_token.name in OPTIONAL_END_TAG:
            self.untranslated.clear()
        if self.untranslated:
            self.parts.append(Segment(markup_token.text))
            if reopened:
                self.untranslated.append(markup_token.name)
            elif markup_token.kind == "close" and markup_token.name in self.untranslated:
                self.untranslated.pop()
        elif self.embedded_depth or (
            markup_token.kind == "open" and markup_token.name in EMBEDDED_ELEMENTS
        ):
            self.embedded = self.embedded if self.embedded_depth else markup_token.name
            self.read_embedded(markup_token)
        elif markup_token.kind == "text" and self.preformatted:
            self.read_columns(markup_token.text)
        elif (
            markup_token.kind in ("text", "other")
            or markup_token.name in INLINE_ELEMENTS
            or "-" in markup_token.name
        ):
            self.block.append(markup_token)
            if markup_token.name == "br" and self.ends_in_two_breaks():
                self.end_block()
        else:
            self.read_block_tag(markup_token)

    def read_embedded(self, markup_token: MarkupToken) -> None:
        """What is within a drawing or a formula, which is one thing in a line."""
        self.block.append(markup_token)
        if markup_token.name == self.embedded:
            self.embedded_depth += {"open": 1, "close": -1}.get(markup_token.kind, 0)

    def read_block_tag(self, markup_token: MarkupToken) -> None:
        """What is between blocks."""
        self.end_block()
        self.parts.append(Segment(markup_token.text))
        if markup_token.kind == "open" and is_untranslated(markup_token):
            self.untranslated.append(markup_token.name)
        if markup_token.name == "pre":
            self.preformatted = max(
                0, self.preformatted + (1 if markup_token.kind == "open" else -1)
            )

    def read_columns(self, text: str) -> None:
        """Text whose lines and columns are blocks of their own."""
        for number, piece in enumerate(_COLUMNS.split(text)):
            if number % 2:
                self.end_block()
                self.parts.append(Segment(piece))
            elif piece:
                self.block.append(MarkupToken("text", piece))

    def ends_in_two_breaks(self) -> bool:
        """Whether the block ends in two line breaks."""
        shown = (one for one in reversed(self.block) if one.kind != "text" or one.text.strip())
        return [one.name for one, _ in zip(shown, range(2), strict=False)] == ["br", "br"]

    def end_block(self) -> None:
        """Hand the block over, if it says anything, but not the space around it."""
        text = "".join(markup_token.text for markup_token in self.block)
        if _has_text(parse_markup(text)):
            inner = text.strip()
            first = text.find(inner)
            before, behind = text[:first], text[first + len(inner) :]
            self.parts += Segment(before), Segment(inner, says=True), Segment(behind)
        else:
            self.parts.append(Segment(text))
        self.block.clear()


def _has_text(pieces: Sequence[TreeNode]) -> bool:
    """Whether there is anything to translate in a block."""
    return any(
        _has_text(piece.inside)
        if isinstance(piece, Element)
        else isinstance(piece, TextNode) and bool(piece.text.strip())
        for piece in pieces
    )
