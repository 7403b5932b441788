"""Text with tags and placeholders -> a tree of elements, tags, text and protected text."""

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
"""Elements whose content is not translated."""
MAX_TAG_DEPTH = 64
"""Nesting of tags; deeper ones are not paired."""

SUBTITLE_OVERRIDE = re.compile(r"\{\\[^{}\n]*\}")
"""An override tag of a subtitle: {\\an8}."""
_PROTECTED = re.compile(f"(?P<override>{SUBTITLE_OVERRIDE.pattern})|{CODE.pattern}", re.IGNORECASE)
_NO_TRANSLATE = re.compile(
    r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*(?:"[^"]*|'[^']*|)\bnotranslate\b""",
    re.IGNORECASE,
)


class TextNode(NamedTuple):
    """Text to translate."""

    raw: str
    """As written, with character references."""
    literal: bool = False
    """Whether `&amp;` is not a character reference but these characters."""

    @property
    def text(self) -> str:
        """As read: references resolved, in normal form C."""
        if self.literal:
            return self.raw
        text = CHARACTER_REFERENCE.sub(lambda found: html.unescape(found[0]), self.raw)
        return unicodedata.normalize("NFC", text)


class SingleTag(NamedTuple):
    """A tag that wraps nothing, or that has no partner."""

    raw: str
    separates_words: bool = False
    """Whether it separates the words beside it, like a line break."""
    opens: frozenset[str] = frozenset()
    """The name of an opening tag without its closing one."""
    closes: frozenset[str] = frozenset()
    """The name of a closing tag without its opening one."""


class ProtectedNode(NamedTuple):
    """Part of a sentence that is kept unchanged."""

    raw: str
    closes: frozenset[str] = frozenset()
    """The names of closing tags in it without their opening ones."""


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
        """The names of closing tags in it without their opening ones."""
        return frozenset().union(*map(closes, self.inside))


TreeNode = Union[TextNode, SingleTag, ProtectedNode, Element]  # noqa: UP007  # a forward reference


@dataclass
class _OpenTag:
    """An opening tag whose closing tag has not been read."""

    tag: MarkupToken
    inside: list[TreeNode]


def parse_markup(text: str, *, tags: bool = True) -> tuple[TreeNode, ...]:
    """The nodes of `text`, whose `raw` joined are the text.

    A closing tag closes the last open one of its name; those opened since, and tags without a
    partner, become single tags. Without `tags` these are text, as are character references.
    """
    if not tags:
        return tuple(_split_protected(text, CODE, literal=True))
    stack = [_OpenTag(MarkupToken("text", ""), [])]
    for markup_token in scan_markup(text):
        if markup_token.kind == "open" and len(stack) <= MAX_TAG_DEPTH:
            stack.append(_OpenTag(markup_token, []))
        elif markup_token.kind == "close":
            _close(stack, markup_token)
        elif markup_token.kind == "text":
            stack[-1].inside.extend(_split_protected(markup_token.text, _PROTECTED))
        else:
            stack[-1].inside.append(SingleTag(markup_token.text, markup_token.name in ("br", "hr")))
    _leave_unpaired(stack, 1)
    return tuple(stack[0].inside)


def opens(node: TreeNode) -> frozenset[str]:
    """The names of tags that a closing tag behind the node would close."""
    return node.opens if isinstance(node, SingleTag) else frozenset()


def closes(node: TreeNode) -> frozenset[str]:
    """The names of tags that the node would close if they were open before it."""
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
    """Whether `written` has all markup of `tree`, and no other tags or placeholders."""
    before, after = Counter(list_markup(tree)), Counter(list_markup(written))
    return not before - after and all(map(URL_OR_EMAIL.fullmatch, after - before))


def is_untranslated(tag: MarkupToken) -> bool:
    """Whether the content of an element is not translated, by its opening tag."""
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
    """Turn the open tags from `depth` on into single tags."""
    while len(stack) > depth:
        opened = stack.pop()
        atom = SingleTag(opened.tag.text, opens=frozenset([opened.tag.name]))
        stack[-1].inside += [atom, *opened.inside]


def _split_protected(
    text: str, pattern: re.Pattern[str], *, literal: bool = False
) -> Iterator[TreeNode]:
    """The protected text that a pattern finds, and the text between."""
    first = 0
    for found in pattern.finditer(text):
        if first < found.start():
            yield TextNode(text[first : found.start()], literal)
        is_override = found.groupdict().get("override")
        yield SingleTag(found[0]) if is_override else ProtectedNode(found[0])
        first = found.end()
    if first < len(text):
        yield TextNode(text[first:], literal)
