"""Text with tags and placeholders -> tokens -> a tree of elements, tags, text and protected text.

`html.parser` is not used: its time is quadratic in the length of unclosed tags (47 s for 50 kB of
`<a ` in Python 3.11.7), and it gives up at `<![`. This scanner takes linear time on any text.
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Union

from regard.text.segmentation import CHARACTER_REFERENCE, CODE, URL_OR_EMAIL

VOID_ELEMENTS = frozenset(
    re.split(" ", "area base br col embed hr img input link meta param source track wbr")
)  # elements without content and closing tag
RAW_TEXT_ELEMENTS = frozenset(re.split(" ", "script style textarea xmp iframe noembed noframes"))
"""Elements whose content is not markup."""
CODE_ELEMENTS = frozenset(["code", "kbd", "samp", "tt", "var", "math", "svg"])  # not translated
MAX_TAG_DEPTH = 64  # nesting of tags; deeper ones are not paired
SUBTITLE_OVERRIDE = re.compile(r"\{\\[^{}\n]*\}")  # an override tag of a subtitle: {\an8}

_NAME = r"<(?P<slash>/?)(?P<name>[A-Za-z][^\s<>/\"'=]*+)"
_ATTRIBUTES = r"""(?:[^"'<>=]++|=\s*+(?:"[^"{no}]*+"|'[^'{no}]*+')|[="'])*+"""
_END = r"(?P<end>>?)"
_TAG = re.compile(_NAME + _ATTRIBUTES.format(no="") + _END)
_STRICT_TAG = re.compile(_NAME + _ATTRIBUTES.format(no="<") + _END)
_TIME = re.compile(r"<\d[\d:.]*+>")
_MAX_UNCLOSED_READ = 1 << 25  # characters read for unclosed tags; then tags may not contain `<`
_CLOSED_BY = {"<!--": "-->", "<![CDATA[": "]]>", "<!": ">", "<?": ">"}
_PROTECTED = re.compile(f"(?P<override>{SUBTITLE_OVERRIDE.pattern})|{CODE.pattern}", re.IGNORECASE)
_NO_TRANSLATE = re.compile(
    r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*(?:"[^"]*|'[^']*|)\bnotranslate\b""",
    re.IGNORECASE,
)


class MarkupToken(NamedTuple):
    """A part of a text.

    `void` are tags without content; `other` are comments, declarations and the times in subtitles;
    `raw` is the content of scripts and the like.
    """

    kind: Literal["text", "open", "close", "void", "other", "raw"]
    text: str
    name: str = ""  # of a tag, in lower case

    @property
    def is_untranslated(self) -> bool:
        """Whether it opens an element whose content is not translated."""
        return self.name in CODE_ELEMENTS or _NO_TRANSLATE.search(self.text) is not None


def scan_markup(text: str) -> Iterator[MarkupToken]:
    """The tokens of `text`, which joined are the text; a `<` that does not begin a tag is text."""
    first = place = unclosed_read = 0
    unclosed: set[str] = set()  # closing strings that do not occur in the rest
    while (place := text.find("<", place)) >= 0:
        found = (_TAG if unclosed_read < _MAX_UNCLOSED_READ else _STRICT_TAG).match(text, place)
        if found and found["end"]:
            markup_token: MarkupToken | None = _tag_token(found)
        else:
            unclosed_read += found.end() - place if found else 0
            markup_token = None if found else _comment_or_declaration(text, place, unclosed)
        if markup_token is None:
            place += 1
            continue
        if first < place:
            yield MarkupToken("text", text[first:place])
        yield markup_token
        first = place = place + len(markup_token.text)
        if markup_token.kind == "open" and markup_token.name in RAW_TEXT_ELEMENTS:
            closing_tag = re.compile(rf"</{markup_token.name}(?![^\s/>])", re.IGNORECASE)
            closed = closing_tag.search(text, place)
            place = closed.start() if closed else len(text)
            if first < place:
                yield MarkupToken("raw", text[first:place])
            first = place
    if first < len(text):
        yield MarkupToken("text", text[first:])


def _tag_token(found: re.Match[str]) -> MarkupToken:
    name = found["name"].lower()
    if found["slash"]:
        return MarkupToken("close", found[0], name)
    alone = name in VOID_ELEMENTS or found[0].endswith("/>")
    return MarkupToken("void" if alone else "open", found[0], name)


def _comment_or_declaration(text: str, place: int, unclosed: set[str]) -> MarkupToken | None:
    """The comment, declaration or time that begins at `place`, if any."""
    if time := _TIME.match(text, place):
        return MarkupToken("other", time[0])
    for opening, closing in _CLOSED_BY.items():
        if text.startswith(opening, place):
            last = -1 if closing in unclosed else text.find(closing, place + len(opening))
            if last >= 0:
                return MarkupToken("other", text[place : last + len(closing)])
            unclosed.add(closing)
            return None
    return None


class Leaf(NamedTuple):
    """Text, a tag without content or partner, or protected text.

    In `literal` text `&amp;` is not a character reference; a `break` separates the words around it.
    """

    kind: Literal["text", "literal", "tag", "break", "protected"]
    raw: str  # as written, with character references
    opens: frozenset[str] = frozenset()  # the name of an opening tag without its closing one
    closes: frozenset[str] = frozenset()  # names of closing tags without their opening ones

    @property
    def is_text(self) -> bool:
        return self.kind in ("text", "literal")

    @property
    def text(self) -> str:
        """Text as read: references resolved, in normal form C."""
        if self.kind == "literal":
            return self.raw
        text = CHARACTER_REFERENCE.sub(lambda found: html.unescape(found[0]), self.raw)
        return unicodedata.normalize("NFC", text)


@dataclass(frozen=True)
class Element:
    """Two tags and the nodes between them."""

    opening: str
    closing: str
    inside: "tuple[TreeNode, ...]"
    opens: ClassVar[frozenset[str]] = frozenset()

    @property
    def raw(self) -> str:
        return "".join((self.opening, *(node.raw for node in self.inside), self.closing))

    @property
    def closes(self) -> frozenset[str]:
        """The names of closing tags in it without their opening ones."""
        return frozenset().union(*(node.closes for node in self.inside))


TreeNode = Union[Leaf, Element]  # noqa: UP007  # a forward reference
_OpenTags = list[tuple[MarkupToken, list[TreeNode]]]  # unclosed tags, with the nodes after them


def parse_markup(text: str, *, tags: bool = True) -> tuple[TreeNode, ...]:
    """The nodes of `text`, whose `raw` joined are the text; without `tags`, tags are read as text.

    A closing tag closes the last open one of its name; those opened since become single tags.
    """
    if not tags:
        return tuple(_split_protected(text, CODE, "literal"))
    stack: _OpenTags = [(MarkupToken("text", ""), [])]
    for token in scan_markup(text):
        inside = stack[-1][1]
        if token.kind == "open" and len(stack) <= MAX_TAG_DEPTH:
            stack.append((token, []))
        elif token.kind == "close":
            _close(stack, token)
        elif token.kind == "text":
            inside += _split_protected(token.text, _PROTECTED, "text")
        else:
            inside.append(Leaf("break" if token.name in ("br", "hr") else "tag", token.text))
    _leave_unpaired(stack, 1)
    return tuple(stack[0][1])


def _close(stack: _OpenTags, tag: MarkupToken) -> None:
    depth = next((i for i in range(len(stack) - 1, 0, -1) if stack[i][0].name == tag.name), 0)
    if not depth:
        stack[-1][1].append(Leaf("tag", tag.text, closes=frozenset([tag.name])))
        return
    _leave_unpaired(stack, depth + 1)
    opened, inside = stack.pop()
    pair = Element(opened.text, tag.text, tuple(inside))
    stack[-1][1].append(
        Leaf("protected", pair.raw, closes=pair.closes) if opened.is_untranslated else pair
    )


def _leave_unpaired(stack: _OpenTags, depth: int) -> None:
    """Turn the open tags from `depth` on into single tags."""
    while len(stack) > depth:
        opened, inside = stack.pop()
        stack[-1][1].extend((Leaf("tag", opened.text, frozenset([opened.name])), *inside))


def _split_protected(
    text: str, pattern: re.Pattern[str], kind: Literal["text", "literal"]
) -> Iterator[Leaf]:
    """The protected text that a pattern finds, and the text between."""
    first = 0
    for found in pattern.finditer(text):
        if first < found.start():
            yield Leaf(kind, text[first : found.start()])
        yield Leaf("tag" if found.groupdict().get("override") else "protected", found[0])
        first = found.end()
    if first < len(text):
        yield Leaf(kind, text[first:])


def list_markup(tree: Sequence[TreeNode]) -> Iterator[str]:
    """Every tag and placeholder, in order."""
    for node in tree:
        if isinstance(node, Element):
            yield from (node.opening, *list_markup(node.inside), node.closing)
        elif not node.is_text:
            yield node.raw


def has_same_markup(tree: Sequence[TreeNode], written: Sequence[TreeNode]) -> bool:
    """Whether `written` has all markup of `tree`, and no other tags or placeholders."""
    before, after = Counter(list_markup(tree)), Counter(list_markup(written))
    return not before - after and all(map(URL_OR_EMAIL.fullmatch, after - before))
