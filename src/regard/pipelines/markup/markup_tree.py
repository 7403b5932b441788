"""Text with tags and placeholders -> a tree of what it is made of."""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Union

from regard.pipelines.markup.tag_scanner import MarkupToken, scan_markup
from regard.text.segmentation import CHARACTER_REFERENCE, CODE, URL_OR_EMAIL

CODE_ELEMENTS = frozenset(["code", "kbd", "samp", "tt", "var", "math", "svg"])
"""Elements whose content is no language."""
MAX_TAG_DEPTH = 64
"""Tags within tags: those that lie deeper are not paired."""

SUBTITLE_OVERRIDE = re.compile(r"\{\\[^{}\n]*\}")
"""Of a subtitle: {\\an8}."""
_PROTECTED = re.compile(f"(?P<override>{SUBTITLE_OVERRIDE.pattern})|{CODE.pattern}", re.IGNORECASE)
_NO_TRANSLATE = re.compile(
    r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*(?:"[^"]*|'[^']*|)\bnotranslate\b""",
    re.IGNORECASE,
)


class TextNode(NamedTuple):
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
        text = CHARACTER_REFERENCE.sub(lambda found: html.unescape(found[0]), self.raw)
        return unicodedata.normalize("NFC", text)


class SingleTag(NamedTuple):
    """Markup that stands between words: a tag that wraps nothing, or that nothing closes."""

    raw: str
    separates_words: bool = False
    """Whether it parts the words beside it, as a line break does."""
    opens: frozenset[str] = frozenset()
    """The name of a tag that nothing closes."""
    closes: frozenset[str] = frozenset()
    """The name of a tag that nothing opens."""


class ProtectedNode(NamedTuple):
    """What stands in a sentence like a word, and stays as it is."""

    raw: str
    closes: frozenset[str] = frozenset()
    """The names of tags in it that nothing opens."""


@dataclass(frozen=True)
class Element:
    """Two tags and what they wrap."""

    opening: str
    closing: str
    inside: "tuple[TreeNode, ...]"

    @property
    def raw(self) -> str:
        return "".join((self.opening, *(node.raw for node in self.inside), self.closing))

    @property
    def closes(self) -> frozenset[str]:
        """The names of tags in it that nothing opens."""
        return frozenset().union(*map(closes, self.inside))


TreeNode = Union[TextNode, SingleTag, ProtectedNode, Element]  # noqa: UP007  # `|` cannot name what is not there yet


@dataclass
class _OpenTag:
    """A tag that waits for the one that closes it."""

    tag: MarkupToken
    inside: list[TreeNode]


def parse_markup(text: str) -> tuple[TreeNode, ...]:
    """The pieces of `text`, whose `raw` together are the text.

    A closing tag closes the last open one of its name; what was opened since, and what is never
    closed or never opened, wraps nothing.
    """
    stack = [_OpenTag(MarkupToken("text", ""), [])]
    for markup_token in scan_markup(text):
        if markup_token.kind == "open" and len(stack) <= MAX_TAG_DEPTH:
            stack.append(_OpenTag(markup_token, []))
        elif markup_token.kind == "close":
            _close(stack, markup_token)
        elif markup_token.kind == "text":
            stack[-1].inside.extend(_split_protected(markup_token.text))
        else:
            stack[-1].inside.append(SingleTag(markup_token.text, markup_token.name in ("br", "hr")))
    _leave_unpaired(stack, 1)
    return tuple(stack[0].inside)


def parse_protected(text: str) -> tuple[TreeNode, ...]:
    """The addresses and placeholders of `text` and what is between them: tags are text, too."""
    tree: list[TreeNode] = []
    first = 0
    for found in CODE.finditer(text):
        tree += TextNode(text[first : found.start()], literal=True), ProtectedNode(found[0])
        first = found.end()
    return tuple(node for node in (*tree, TextNode(text[first:], literal=True)) if node.raw)


def opens(node: TreeNode) -> frozenset[str]:
    """The names of tags that would be closed by any closing tag behind the piece."""
    return node.opens if isinstance(node, SingleTag) else frozenset()


def closes(node: TreeNode) -> frozenset[str]:
    """The names of tags that would be closed in the piece, if any were open before it."""
    return frozenset() if isinstance(node, TextNode) else node.closes


def list_markup(tree: Sequence[TreeNode]) -> Iterator[str]:
    """Every tag and placeholder, in order."""
    for node in tree:
        if isinstance(node, Element):
            yield node.opening
            yield from list_markup(node.inside)
            yield node.closing
        elif not isinstance(node, TextNode):
            yield node.raw


def has_same_markup(tree: Sequence[TreeNode], written: Sequence[TreeNode]) -> bool:
    """Whether `written` has all markup of `pieces`, and no tags or placeholders besides."""
    before, after = Counter(list_markup(tree)), Counter(list_markup(written))
    more = after - before
    return not before - after and all(map(URL_OR_EMAIL.fullmatch, more))


def is_untranslated(tag: MarkupToken) -> bool:
    """Whether what an opening tag wraps is not to be translated."""
    return tag.name in CODE_ELEMENTS or _NO_TRANSLATE.search(tag.text) is not None


def _close(stack: list[_OpenTag], tag: MarkupToken) -> None:
    depth = next((i for i in range(len(stack) - 1, 0, -1) if stack[i].tag.name == tag.name), 0)
    if not depth:
        stack[-1].inside.append(SingleTag(tag.text, closes=frozenset([tag.name])))
        return
    _leave_unpaired(stack, depth + 1)
    opened = stack.pop()
    pair = Element(opened.tag.text, tag.text, tuple(opened.inside))
    stack[-1].inside.append(
        ProtectedNode(pair.raw, pair.closes) if is_untranslated(opened.tag) else pair
    )


def _leave_unpaired(stack: list[_OpenTag], depth: int) -> None:
    """Give up waiting for what closes the tags from `depth` on."""
    while len(stack) > depth:
        opened = stack.pop()
        atom = SingleTag(opened.tag.text, opens=frozenset([opened.tag.name]))
        stack[-1].inside += [atom, *opened.inside]


def _split_protected(text: str) -> Iterator[TreeNode]:
    first = 0
    for found in _PROTECTED.finditer(text):
        if first < found.start():
            yield TextNode(text[first : found.start()])
        yield SingleTag(found[0]) if found["override"] else ProtectedNode(found[0])
        first = found.end()
    if first < len(text):
        yield TextNode(text[first:])
