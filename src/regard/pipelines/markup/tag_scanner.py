"""A scanner of HTML: text -> tokens.

`html.parser` is not used: its time is quadratic in the length of unclosed tags (47 s for 50 kB of
`<a ` in Python 3.11.7), and it gives up at `<![`. This scanner takes linear time on any text.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

MarkupTokenKind = Literal["text", "open", "close", "void", "other", "raw"]

VOID_ELEMENTS = frozenset(
    re.split(" ", "area base br col embed hr img input link meta param source track wbr")
)
"""Elements without content and closing tag."""
RAW_TEXT_ELEMENTS = frozenset(
    ["script", "style", "textarea", "xmp", "iframe", "noembed", "noframes"]
)
"""Elements whose content is not markup."""

_NAME = r"<(?P<slash>/?)(?P<name>[A-Za-z][^\s<>/\"'=]*+)"
_ATTRIBUTES = r"""(?:[^"'<>=]++|=\s*+(?:"[^"{no}]*+"|'[^'{no}]*+')|[="'])*+"""
_END = r"(?P<end>>?)"
_TAG = re.compile(_NAME + _ATTRIBUTES.format(no="") + _END)
_STRICT_TAG = re.compile(_NAME + _ATTRIBUTES.format(no="<") + _END)
_TIME = re.compile(r"<\d[\d:.]*+>")
_MAX_UNCLOSED_READ = 1 << 25
"""Characters read for unclosed tags after which tags may not contain a `<`."""
_CLOSED_BY = {"<!--": "-->", "<![CDATA[": "]]>", "<!": ">", "<?": ">"}


class MarkupToken(NamedTuple):
    """A part of a text."""

    kind: MarkupTokenKind
    text: str
    name: str = ""
    """Of a tag, in lower case."""


def scan_markup(text: str) -> Iterator[MarkupToken]:
    """The tokens of `text`, which joined are the text; a `<` that begins no tag is text.

    `void` are tags without content; `other` are comments, declarations and the times in subtitles;
    `raw` is the content of scripts and the like.
    """
    first = place = unclosed_read = 0
    unclosed: set[str] = set()  # closing strings that do not occur any more
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
        yield from _text_token(text[first:place])
        yield markup_token
        first = place = place + len(markup_token.text)
        if markup_token.kind == "open" and markup_token.name in RAW_TEXT_ELEMENTS:
            ending = re.compile(rf"</{markup_token.name}(?![^\s/>])", re.IGNORECASE).search(
                text, place
            )
            place = ending.start() if ending else len(text)
            if first < place:
                yield MarkupToken("raw", text[first:place])
            first = place
    yield from _text_token(text[first:])


def _text_token(text: str) -> Iterator[MarkupToken]:
    if text:
        yield MarkupToken("text", text)


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
