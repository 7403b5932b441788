"""Text with tags and placeholders -> a tree of what it is made of."""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Union

from regard.serving.inline.scanning import Stretch, scan
from regard.text.codes import ADDRESS, CODE, REFERENCE

VERBATIM = frozenset(["code", "kbd", "samp", "tt", "var", "math", "svg"])
"""Elements whose content is no language."""
DEPTH = 64
"""Tags within tags: those that lie deeper are not paired."""

OVERRIDE = re.compile(r"\{\\[^{}\n]*\}")
"""Of a subtitle: {\\an8}."""
_HELD = re.compile(f"(?P<override>{OVERRIDE.pattern})|{CODE.pattern}", re.IGNORECASE)
_KEPT = re.compile(
    r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*(?:"[^"]*|'[^']*|)\bnotranslate\b""",
    re.IGNORECASE,
)


class Text(NamedTuple):
    """What is translated."""

    raw: str
    """As it is written: with references to characters."""
    literal: bool = False
    """Whether `&amp;` is no such reference, but these letters."""

    @property
    def text(self) -> str:
        """As it is read: composed, so that letters and their accents stay together."""
        if self.literal:
            return self.raw
        text = REFERENCE.sub(lambda found: html.unescape(found[0]), self.raw)
        return unicodedata.normalize("NFC", text)


class Atom(NamedTuple):
    """Markup that stands between words: a tag that wraps nothing, or that nothing closes."""

    raw: str
    parts: bool = False
    """Whether it parts the words beside it, as a line break does."""
    opens: frozenset[str] = frozenset()
    """The name of a tag that nothing closes."""
    closes: frozenset[str] = frozenset()
    """The name of a tag that nothing opens."""


class Hold(NamedTuple):
    """What stands in a sentence like a word, and stays as it is."""

    raw: str
    closes: frozenset[str] = frozenset()
    """The names of tags in it that nothing opens."""


@dataclass(frozen=True)
class Element:
    """Two tags and what they wrap."""

    opening: str
    closing: str
    inside: "tuple[Piece, ...]"

    @property
    def raw(self) -> str:
        return "".join((self.opening, *(piece.raw for piece in self.inside), self.closing))

    @property
    def closes(self) -> frozenset[str]:
        """The names of tags in it that nothing opens."""
        return frozenset().union(*map(closes, self.inside))


Piece = Union[Text, Atom, Hold, Element]  # noqa: UP007  # `|` cannot name what is not there yet


@dataclass
class _Open:
    """A tag that waits for the one that closes it."""

    tag: Stretch
    inside: list[Piece]


def parse(text: str) -> tuple[Piece, ...]:
    """The pieces of `text`, whose `raw` together are the text.

    A closing tag closes the last open one of its name; what was opened since, and what is never
    closed or never opened, wraps nothing.
    """
    stack = [_Open(Stretch("text", ""), [])]
    for stretch in scan(text):
        if stretch.kind == "open" and len(stack) <= DEPTH:
            stack.append(_Open(stretch, []))
        elif stretch.kind == "close":
            _close(stack, stretch)
        elif stretch.kind == "text":
            stack[-1].inside.extend(_find_holds(stretch.text))
        else:
            stack[-1].inside.append(Atom(stretch.text, stretch.name in ("br", "hr")))
    _unwind(stack, 1)
    return tuple(stack[0].inside)


def parse_codes(text: str) -> tuple[Piece, ...]:
    """The addresses and placeholders of `text` and what is between them: tags are text, too."""
    pieces: list[Piece] = []
    first = 0
    for found in CODE.finditer(text):
        pieces += Text(text[first : found.start()], literal=True), Hold(found[0])
        first = found.end()
    return tuple(piece for piece in (*pieces, Text(text[first:], literal=True)) if piece.raw)


def opens(piece: Piece) -> frozenset[str]:
    """The names of tags that would be closed by any closing tag behind the piece."""
    return piece.opens if isinstance(piece, Atom) else frozenset()


def closes(piece: Piece) -> frozenset[str]:
    """The names of tags that would be closed in the piece, if any were open before it."""
    return frozenset() if isinstance(piece, Text) else piece.closes


def markup_of(pieces: Sequence[Piece]) -> Iterator[str]:
    """Every tag and placeholder, in order."""
    for piece in pieces:
        if isinstance(piece, Element):
            yield piece.opening
            yield from markup_of(piece.inside)
            yield piece.closing
        elif not isinstance(piece, Text):
            yield piece.raw


def keeps(pieces: Sequence[Piece], written: Sequence[Piece]) -> bool:
    """Whether `written` has all markup of `pieces`, and no tags or placeholders besides."""
    before, after = Counter(markup_of(pieces)), Counter(markup_of(written))
    more = after - before
    return not before - after and all(map(ADDRESS.fullmatch, more))


def is_kept(tag: Stretch) -> bool:
    """Whether what an opening tag wraps is not to be translated."""
    return tag.name in VERBATIM or _KEPT.search(tag.text) is not None


def _close(stack: list[_Open], tag: Stretch) -> None:
    depth = next((i for i in range(len(stack) - 1, 0, -1) if stack[i].tag.name == tag.name), 0)
    if not depth:
        stack[-1].inside.append(Atom(tag.text, closes=frozenset([tag.name])))
        return
    _unwind(stack, depth + 1)
    opened = stack.pop()
    pair = Element(opened.tag.text, tag.text, tuple(opened.inside))
    stack[-1].inside.append(Hold(pair.raw, pair.closes) if is_kept(opened.tag) else pair)


def _unwind(stack: list[_Open], depth: int) -> None:
    """Give up waiting for what closes the tags from `depth` on."""
    while len(stack) > depth:
        opened = stack.pop()
        atom = Atom(opened.tag.text, opens=frozenset([opened.tag.name]))
        stack[-1].inside += [atom, *opened.inside]


def _find_holds(text: str) -> Iterator[Piece]:
    first = 0
    for found in _HELD.finditer(text):
        if first < found.start():
            yield Text(text[first : found.start()])
        yield Atom(found[0]) if found["override"] else Hold(found[0])
        first = found.end()
    if first < len(text):
        yield Text(text[first:])
