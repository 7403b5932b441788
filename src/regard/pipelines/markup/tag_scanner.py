"""Text with tags -> its stretches: the text, the tags, and what is neither.

The parser of the standard library is not used: it takes time square in the length of what never
closes (47 s for 50 kB of `<a ` in Python 3.11.7), and it gives up at `<![`. Here each character is
read a few times at most, whatever the text.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

MarkupTokenKind = Literal["text", "open", "close", "void", "other", "raw"]

VOID_ELEMENTS = frozenset(
    re.findall(
        r"[^ ]+",
        "area base br col embed hr img input link meta param source track wbr",
    )
)
"""Elements that hold nothing and are never closed."""
RAW_TEXT_ELEMENTS = frozenset(
    ["script", "style", "textarea", "xmp", "iframe", "noembed", "noframes"]
)
"""Elements whose content is no markup, up to their end."""

_NAME = r"<(?P<slash>/?)(?P<name>[A-Za-z][^\s<>/\"'=]*+)"
_ATTRIBUTES = r"""(?:[^"'<>=]++|=\s*+(?:"[^"{no}]*+"|'[^'{no}]*+')|[="'])*+"""
_END = r"(?P<end>>?)"
_TAG = re.compile(_NAME + _ATTRIBUTES.format(no="") + _END)
_STRICT_TAG = re.compile(_NAME + _ATTRIBUTES.format(no="<") + _END)
_TIME = re.compile(r"<\d[\d:.]*+>")
_MAX_UNCLOSED_READ = 1 << 25
"""Characters that may be read for tags that never end; from then on no tag may hold a `<`."""
_CLOSED_BY = {"<!--": "-->", "<![CDATA[": "]]>", "<!": ">", "<?": ">"}


class MarkupToken(NamedTuple):
    """A part of a text, which is the sum of its parts."""

    kind: MarkupTokenKind
    text: str
    name: str = ""
    """Of a tag, in small letters."""


def scan_markup(text: str) -> Iterator[MarkupToken]:
    """The stretches of `text`, together the whole of it; a `<` that begins no tag is text.

    A `void` is a tag that stands alone; `other` are comments, declarations, and the times of a
    subtitle; `raw` is what a script or its like holds.
    """
    first = place = unclosed_read = 0
    unclosed: set[str] = set()  # what closes no more
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
    """What begins at the `<` of `place`, if anything does."""
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
