"""HTML -> HTML: the text of each block is translated, everything else is copied.

A block is text with inline markup between other tags, or up to two line breaks; in `<pre>` it is a
line, or a column separated by two spaces or a tab. Scripts, styles, comments, attributes, code and
elements with `translate="no"` or `class="notranslate"` are copied.
"""

import re
from dataclasses import dataclass, field

from regard.tasks.translation.markup.flat_text import flatten
from regard.tasks.translation.markup.markup_tree import MarkupToken, parse_markup, scan_markup
from regard.text.segmentation import Segment, Segments, strip_segments

INLINE_ELEMENTS = frozenset(
    re.split(
        " ",
        "a abbr acronym area b bdi bdo big br cite code data del dfn em font i img input ins "
        "kbd label map mark math meter nobr output picture progress q rb rp rt rtc ruby s samp "
        "small source span strike strong sub sup svg time tt u var wbr",
    )
)
EMBEDDED_ELEMENTS = frozenset(("svg", "math"))  # elements without text of the line that they are in
OPTIONAL_END_TAG = frozenset(("p", "li", "dt", "dd", "tr", "td", "th", "option"))
"""Elements that are ended by the next of the same name if they are not closed."""
_COLUMNS = re.compile(r"(\s*\n\s*|\s{2,}|\t)")


def read_html(document: str) -> Segments:
    """The blocks of a document or fragment, and everything between; broken markup is kept."""
    reader = _BlockReader()
    for token in scan_markup(document):
        reader.read(token)
    reader.end_block()
    return Segments(reader.parts)


@dataclass
class _BlockReader:
    """Collects the blocks of a document."""

    parts: list[Segment] = field(default_factory=list)
    block: list[MarkupToken] = field(default_factory=list)  # text and inline tags so far
    untranslated: list[str] = field(default_factory=list)
    """The name of the open element that is not translated, once for each level of nesting."""
    embedded: list[str] = field(default_factory=list)
    """The same for an embedded element, such as a drawing, which counts as inline."""
    preformatted: int = 0

    def read(self, token: MarkupToken) -> None:
        reopened = token.kind == "open" and token.name in self.untranslated
        if reopened and token.name in OPTIONAL_END_TAG:
            self.untranslated.clear()
        if self.untranslated:
            self.parts.append(Segment(token.text))
            _nest(self.untranslated, token)
        elif self.embedded or (token.kind == "open" and token.name in EMBEDDED_ELEMENTS):
            self.block.append(token)
            _nest(self.embedded, token)
        elif token.kind == "text" and self.preformatted:
            self.read_columns(token.text)
        elif token.kind in ("text", "other") or token.name in INLINE_ELEMENTS or "-" in token.name:
            self.block.append(token)
            if token.name == "br" and self.ends_in_two_breaks():
                self.end_block()
        else:
            self.read_block_tag(token)

    def read_block_tag(self, token: MarkupToken) -> None:
        """Add a tag between blocks."""
        self.end_block()
        self.parts.append(Segment(token.text))
        if token.kind == "open" and token.is_untranslated:
            self.untranslated.append(token.name)
        if token.name == "pre":
            self.preformatted = max(0, self.preformatted + (1 if token.kind == "open" else -1))

    def read_columns(self, text: str) -> None:
        """Add preformatted text, whose lines and columns are blocks."""
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
        """Add the block; if it has text, that is to be translated."""
        text = "".join(token.text for token in self.block)
        has_text = flatten(parse_markup(text), {}).text
        self.parts += strip_segments(text) if has_text else [Segment(text)]
        self.block.clear()


def _nest(levels: list[str], token: MarkupToken) -> None:
    """Begin or end a level of nesting of an element, if a tag of its name does."""
    if token.kind == "open" and (not levels or token.name in levels):
        levels.append(token.name)
    elif token.kind == "close" and token.name in levels:
        levels.pop()
