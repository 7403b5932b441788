"""Text with tags -> its stretches: the text, the tags, and what is neither.

The parser of the standard library is not used: it takes time square in the length of what never
closes (47 s for 50 kB of `<a ` in Python 3.11.7), and it gives up at `<![`. Here each character is
read a few times at most, whatever the text.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["text", "open", "close", "void", "other", "raw"]

VOID = frozenset(
    re.findall(
        r"[^ ]+",
        "area base br col embed hr img input link meta param source track wbr",
    )
)
"""Elements that hold nothing and are never closed."""
RAW = frozenset(["script", "style", "textarea", "xmp", "iframe", "noembed", "noframes"])
"""Elements whose content is no markup, up to their end."""

_NAME = r"<(?P<slash>/?)(?P<name>[A-Za-z][^\s<>/\"'=]*+)"
_ATTRIBUTES = r"""(?:[^"'<>=]++|=\s*+(?:"[^"{no}]*+"|'[^'{no}]*+')|[="'])*+"""
_END = r"(?P<end>>?)"
_TAG = re.compile(_NAME + _ATTRIBUTES.format(no="") + _END)
_STRICT_TAG = re.compile(_NAME + _ATTRIBUTES.format(no="<") + _END)
_TIME = re.compile(r"<\d[\d:.]*+>")
_WASTE = 1 << 25
"""Characters that may be read for tags that never end; from then on no tag may hold a `<`."""
_CLOSED_BY = {"<!--": "-->", "<![CDATA[": "]]>", "<!": ">", "<?": ">"}


class Stretch(NamedTuple):
    """A part of a text, which is the sum of its parts."""

    kind: Kind
    text: str
    name: str = ""
    """Of a tag, in small letters."""


def scan(text: str) -> Iterator[Stretch]:
    """The stretches of `text`, together the whole of it; a `<` that begins no tag is text.

    A `void` is a tag that stands alone; `other` are comments, declarations, and the times of a
    subtitle; `raw` is what a script or its like holds.
    """
    first = place = wasted = 0
    missing: set[str] = set()  # what closes no more
    while (place := text.find("<", place)) >= 0:
        found = (_TAG if wasted < _WASTE else _STRICT_TAG).match(text, place)
        if found and found["end"]:
            stretch: Stretch | None = _tag(found)
        else:
            wasted += found.end() - place if found else 0
            stretch = None if found else _other(text, place, missing)
        if stretch is None:
            place += 1
            continue
        yield from _plain(text[first:place])
        yield stretch
        first = place = place + len(stretch.text)
        if stretch.kind == "open" and stretch.name in RAW:
            ending = re.compile(rf"</{stretch.name}(?![^\s/>])", re.IGNORECASE).search(text, place)
            place = ending.start() if ending else len(text)
            if first < place:
                yield Stretch("raw", text[first:place])
            first = place
    yield from _plain(text[first:])


def _plain(text: str) -> Iterator[Stretch]:
    if text:
        yield Stretch("text", text)


def _tag(found: re.Match[str]) -> Stretch:
    name = found["name"].lower()
    if found["slash"]:
        return Stretch("close", found[0], name)
    alone = name in VOID or found[0].endswith("/>")
    return Stretch("void" if alone else "open", found[0], name)


def _other(text: str, place: int, missing: set[str]) -> Stretch | None:
    """What begins at the `<` of `place`, if anything does."""
    if time := _TIME.match(text, place):
        return Stretch("other", time[0])
    for opening, closing in _CLOSED_BY.items():
        if text.startswith(opening, place):
            last = -1 if closing in missing else text.find(closing, place + len(opening))
            if last >= 0:
                return Stretch("other", text[place : last + len(closing)])
            missing.add(closing)
            return None
    return None
