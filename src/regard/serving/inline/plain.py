"""A tree of markup -> the text that a model reads, and where the markup was in it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Union

from regard.serving.inline.pieces import Atom, Element, Hold, Piece, Text, closes, opens


class Wrapped(NamedTuple):
    """Two tags around some of the text, which begins and ends with a character that is no space."""

    opening: str
    closing: str
    first: int
    last: int
    """The place behind its last character."""
    inside: "tuple[Node, ...]"
    closes: frozenset[str] = frozenset()
    """The names of tags that would be closed in it, if any were open before it."""


@dataclass
class Standing:
    """Markup at a place of the text."""

    raw: str
    place: int
    """How many characters are before it; a space at that place may be before it or behind it."""
    before: bool
    """Whether a space is written before it."""
    after: bool = False
    opens: frozenset[str] = frozenset()
    """The names of tags that would be closed by any closing tag behind it."""
    closes: frozenset[str] = frozenset()
    """The names of tags that would be closed in it, if any were open before it."""


Node = Union[Wrapped, Standing]  # noqa: UP007  # `|` cannot name what is not there yet


class Plain(NamedTuple):
    """A text without its markup; spaces in a row have become one."""

    text: str
    nodes: tuple[Node, ...]


def flatten(pieces: Sequence[Piece], words: Mapping[str, str]) -> Plain:
    """The plain text of `pieces`.

    What is held stands in it as the word that `words` has for it; what has none is taken out.
    """
    making = _Making(words)
    nodes = making.add(pieces)
    return Plain("".join(making.written), nodes)


def holds_of(pieces: Sequence[Piece]) -> Iterator[str]:
    """What is held, in order, but for what would close a tag that is open before it."""
    for piece in pieces:
        if isinstance(piece, Hold):
            if not piece.closes:
                yield piece.raw
        elif isinstance(piece, Element):
            yield from holds_of(piece.inside)


@dataclass
class _Making:
    """A plain text, as far as it has been written."""

    words: Mapping[str, str]
    written: list[str] = field(default_factory=list)
    length: int = 0
    parted: bool = False
    """Whether what comes next is parted from the last word."""
    spaced: bool = False
    """Whether there was a space since the last character or markup."""
    waiting: list[Standing] = field(default_factory=list)
    """Markup since the last character."""

    def add(self, pieces: Sequence[Piece]) -> tuple[Node, ...]:
        """Write the pieces, and say where their markup is."""
        nodes: list[Node] = []
        for piece in pieces:
            if isinstance(piece, Text):
                self.write(piece.text)
            elif isinstance(piece, Hold) and piece.raw in self.words:
                self.write(self.words[piece.raw])
            elif isinstance(piece, Element) and self.says(piece):
                nodes.append(self.wrap(piece))
            else:
                self.stand(piece, nodes)
        return tuple(nodes)

    def write(self, text: str) -> None:
        self.part(text[:1].isspace())
        for number, word in enumerate(text.split()):
            self.part(number > 0)
            for one in self.waiting:
                one.after = self.spaced
            self.waiting.clear()
            space = " " if self.parted and self.length else ""
            self.written += space, word
            self.length += len(space) + len(word)
            self.parted = self.spaced = False
        self.part(text[-1:].isspace())

    def part(self, spaced: bool) -> None:
        self.parted |= spaced
        self.spaced |= spaced

    def wrap(self, pair: Element) -> Wrapped:
        before, entries = self.length, len(self.written)
        inside = self.add(pair.inside)
        first = before + len(self.written[entries])  # behind the space before its first word
        return Wrapped(pair.opening, pair.closing, first, self.length, inside, pair.closes)

    def stand(self, piece: Piece, nodes: list[Node]) -> None:
        """Put markup between words; what follows other markup at once goes with it."""
        last = nodes[-1] if nodes else None
        if isinstance(last, Standing) and last.place == self.length:
            last.raw += " " * self.spaced + piece.raw
        else:
            last = Standing(piece.raw, self.length, self.spaced)
            nodes.append(last)
            self.waiting.append(last)
        last.opens |= opens(piece)
        last.closes |= closes(piece)
        self.spaced = False
        self.parted |= _parts(piece)

    def says(self, pair: Element) -> bool:
        """Whether a pair wraps anything that is written."""
        return any(
            self.says(piece)
            if isinstance(piece, Element)
            else piece.raw in self.words
            if isinstance(piece, Hold)
            else isinstance(piece, Text) and not piece.text.isspace()
            for piece in pair.inside
        )


def _parts(piece: Piece) -> bool:
    """Whether markup parts the words beside it: a line break, a space in it, or what is held."""
    if isinstance(piece, Element):
        return any(map(_parts, piece.inside))
    return piece.parts if isinstance(piece, Atom) else True
