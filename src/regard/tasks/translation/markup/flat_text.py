"""A markup tree -> its plain text, and the positions of the markup in it.

Protected text is left out, or replaced by a name, which models copy and which fits wherever a noun
does; the name of a person is tried first, then that of a place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple, Union

from regard.tasks.translation.markup.markup_tree import Element, TreeNode
from regard.text.special_tokens import UNK
from regard.text.tokenizer import Tokenizer

PERSONS = "Anna", "Paul", "Marie", "Thomas", "Jane", "David", "Maria", "Marc", "Julia", "Daniel"
PLACES = tuple(
    ["Paris", "Berlin", "Madrid", "Canada", "Milan", "Tokyo", "Lima", "Oslo", "Dublin", "Chicago"]
)  # spelled the same in many languages


class TagPair(NamedTuple):
    """Two tags around part of the text, which has no space at its ends."""

    opening: str
    closing: str
    first: int
    last: int  # the position after its last character
    inside: "tuple[PlacedMarkup, ...]"
    closes: frozenset[str] = frozenset()  # tags that it closes if they were open before it


@dataclass
class PointTag:
    """Markup at a position of the text."""

    raw: str
    place: int  # the number of characters before it; a space there may be before or after it
    before: bool  # whether a space is written before it
    after: bool = False
    opens: frozenset[str] = frozenset()  # tags that a closing tag after it would close
    closes: frozenset[str] = frozenset()


PlacedMarkup = Union[TagPair, PointTag]  # noqa: UP007  # a forward reference


class FlatText(NamedTuple):
    """A text without its markup, with single spaces."""

    text: str
    nodes: tuple[PlacedMarkup, ...]


def flatten(tree: Sequence[TreeNode], stand_ins: Mapping[str, str]) -> FlatText:
    """The plain text of a tree; protected text is replaced by its stand-in, or left out."""
    flattener = _Flattener(stand_ins)
    nodes = flattener.add(tree)
    return FlatText("".join(flattener.written), nodes)


@dataclass
class _Flattener:
    """Writes the plain text of a tree."""

    stand_ins: Mapping[str, str]
    written: list[str] = field(default_factory=list)
    length: int = 0
    needs_space: bool = False  # whether a space precedes the next word
    saw_space: bool = False  # whether there was a space since the last character or markup
    pending: list[PointTag] = field(default_factory=list)  # markup since the last character

    def add(self, tree: Sequence[TreeNode]) -> tuple[PlacedMarkup, ...]:
        """Write the text of the nodes; returns their markup with its positions."""
        nodes: list[PlacedMarkup] = []
        for node in tree:
            text = self.leaf_text(node)
            if text is not None:
                self.write(text)
            elif isinstance(node, Element) and self.has_text(node):
                before, entries = self.length, len(self.written)
                inside = self.add(node.inside)
                first = before + len(self.written[entries])  # after the space before its text
                ends = first, self.length
                nodes.append(TagPair(node.opening, node.closing, *ends, inside, node.closes))
            else:
                self.add_point(node, nodes)
        return tuple(nodes)

    def leaf_text(self, node: TreeNode) -> str | None:
        """The text that is written for a node; None for markup."""
        if isinstance(node, Element):
            return None
        return node.text if node.is_text else self.stand_ins.get(node.raw)

    def has_text(self, node: TreeNode) -> bool:
        """Whether any word of a node is written."""
        if isinstance(node, Element):
            return any(map(self.has_text, node.inside))
        return bool((self.leaf_text(node) or "").strip())

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

    def add_point(self, node: TreeNode, nodes: list[PlacedMarkup]) -> None:
        """Add markup between words, joined with markup at the same position."""
        last = nodes[-1] if nodes else None
        if isinstance(last, PointTag) and last.place == self.length:
            raw, last.raw = last.raw, ""  # a text with one reference grows in linear time
            raw += " " * self.saw_space + node.raw
            last.raw = raw
        else:
            last = PointTag(node.raw, self.length, self.saw_space)
            nodes.append(last)
            self.pending.append(last)
        last.opens |= node.opens
        last.closes |= node.closes
        self.saw_space = False
        self.needs_space |= _separates(node)


def _separates(node: TreeNode) -> bool:
    """Whether markup separates the words beside it: line breaks and protected text do."""
    return any(map(_separates, node.inside)) if isinstance(node, Element) else node.kind != "tag"


def protected_texts(tree: Sequence[TreeNode]) -> Iterator[str]:
    """The protected texts in order, except those that would close a tag before them."""
    for node in tree:
        if isinstance(node, Element):
            yield from protected_texts(node.inside)
        elif node.kind == "protected" and not node.closes:
            yield node.raw


def spellable_names(tokenizers: Sequence[Tokenizer]) -> list[list[str]]:
    """Persons and places that all vocabularies can spell."""
    return [
        [name for name in names if all(UNK not in one.encode([name])[0] for one in tokenizers)]
        for names in (PERSONS, PLACES)
    ]


def assign_names(
    protected: Iterable[str], names: Sequence[Sequence[str]], text: str
) -> dict[str, list[str]]:
    """The names to try for each protected text, all different and not in `text`."""
    free = [[name for name in kind if name not in text] for kind in names]
    choices = ([name for name in row if name] for row in zip_longest(*free))
    return dict(zip(dict.fromkeys(protected), choices, strict=False))
