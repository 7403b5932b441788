"""A markup tree -> its plain text, and the positions of the markup in it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Union

from regard.pipelines.markup.markup_tree import (
    Element,
    ProtectedNode,
    SingleTag,
    TextNode,
    TreeNode,
    closes,
    opens,
)


class TagPair(NamedTuple):
    """Two tags around part of the text, which has no space at its ends."""

    opening: str
    closing: str
    first: int
    last: int
    """The position behind its last character."""
    inside: "tuple[PlacedMarkup, ...]"
    closes: frozenset[str] = frozenset()
    """The names of tags that it would close if they were open before it."""


@dataclass
class PointTag:
    """Markup at a position of the text."""

    raw: str
    place: int
    """The number of characters before it; a space there may be before or behind it."""
    before: bool
    """Whether a space is written before it."""
    after: bool = False
    opens: frozenset[str] = frozenset()
    """The names of tags that a closing tag behind it would close."""
    closes: frozenset[str] = frozenset()
    """The names of tags that it would close if they were open before it."""


PlacedMarkup = Union[TagPair, PointTag]  # noqa: UP007  # a forward reference


class FlatText(NamedTuple):
    """A text without its markup, with single spaces."""

    text: str
    nodes: tuple[PlacedMarkup, ...]


def flatten(tree: Sequence[TreeNode], stand_ins: Mapping[str, str]) -> FlatText:
    """The plain text of a tree, with stand-ins for protected text; without one it is left out."""
    flattener = _Flattener(stand_ins)
    nodes = flattener.add(tree)
    return FlatText("".join(flattener.written), nodes)


def protected_texts(tree: Sequence[TreeNode]) -> Iterator[str]:
    """The protected texts in order, except those that would close a tag before them."""
    for tree_node in tree:
        if isinstance(tree_node, ProtectedNode):
            if not tree_node.closes:
                yield tree_node.raw
        elif isinstance(tree_node, Element):
            yield from protected_texts(tree_node.inside)


@dataclass
class _Flattener:
    """Writes the plain text of a tree."""

    stand_ins: Mapping[str, str]
    written: list[str] = field(default_factory=list)
    length: int = 0
    needs_space: bool = False
    """Whether a space precedes the next word."""
    saw_space: bool = False
    """Whether there was a space since the last character or markup."""
    pending: list[PointTag] = field(default_factory=list)
    """Markup since the last character."""

    def add(self, tree: Sequence[TreeNode]) -> tuple[PlacedMarkup, ...]:
        """Write the text of the nodes; their markup with its positions."""
        nodes: list[PlacedMarkup] = []
        for tree_node in tree:
            if isinstance(tree_node, TextNode):
                self.write(tree_node.text)
            elif isinstance(tree_node, ProtectedNode) and tree_node.raw in self.stand_ins:
                self.write(self.stand_ins[tree_node.raw])
            elif isinstance(tree_node, Element) and self.has_text(tree_node):
                nodes.append(self.add_pair(tree_node))
            else:
                self.add_point(tree_node, nodes)
        return tuple(nodes)

    def write(self, text: str) -> None:
        self.mark_space(text[:1].isspace())
        for number, word in enumerate(text.split()):
            self.mark_space(number > 0)
            for one in self.pending:
                one.after = self.saw_space
            self.pending.clear()
            space = " " if self.needs_space and self.length else ""
            self.written += space, word
            self.length += len(space) + len(word)
            self.needs_space = self.saw_space = False
        self.mark_space(text[-1:].isspace())

    def mark_space(self, saw_space: bool) -> None:
        self.needs_space |= saw_space
        self.saw_space |= saw_space

    def add_pair(self, pair: Element) -> TagPair:
        before, entries = self.length, len(self.written)
        inside = self.add(pair.inside)
        first = before + len(self.written[entries])  # behind the space before its first word
        return TagPair(pair.opening, pair.closing, first, self.length, inside, pair.closes)

    def add_point(self, tree_node: TreeNode, nodes: list[PlacedMarkup]) -> None:
        """Add markup between words, joined with markup at the same position."""
        last = nodes[-1] if nodes else None
        if isinstance(last, PointTag) and last.place == self.length:
            last.raw += " " * self.saw_space + tree_node.raw
        else:
            last = PointTag(tree_node.raw, self.length, self.saw_space)
            nodes.append(last)
            self.pending.append(last)
        last.opens |= opens(tree_node)
        last.closes |= closes(tree_node)
        self.saw_space = False
        self.needs_space |= _separates(tree_node)

    def has_text(self, pair: Element) -> bool:
        """Whether an element has any text that is written."""
        return any(
            self.has_text(tree_node)
            if isinstance(tree_node, Element)
            else tree_node.raw in self.stand_ins
            if isinstance(tree_node, ProtectedNode)
            else isinstance(tree_node, TextNode) and not tree_node.text.isspace()
            for tree_node in pair.inside
        )


def _separates(tree_node: TreeNode) -> bool:
    """Whether markup separates the words beside it: line breaks and protected text do."""
    if isinstance(tree_node, Element):
        return any(map(_separates, tree_node.inside))
    return tree_node.separates_words if isinstance(tree_node, SingleTag) else True
