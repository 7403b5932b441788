"""A translation memory cut into its units before XML is parsed: a bad unit harms no other."""

import io
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

BLOCK, LARGEST = 1 << 16, 1 << 24
"""Bytes read at once, and those in which a unit must end."""
_ROOT = re.compile(rb"<tmx(?:\s[^<>]*)?>")
_UNIT = re.compile(  # one that lost its end stops where the next begins
    rb"<!--.*?(?:-->|\Z)|<tu[\s>](?:(?!<tu[\s>]).)*?(?:</tu\s*>|(?=<tu[\s>]))", re.DOTALL
)
_OPEN = re.compile(rb"<!--|<tu[\s>]")
_ENCODING = re.compile(rb"\s*(<\?xml[^>]*\?>)")


class UnitXml(NamedTuple):
    """One unit as a file of its own."""

    stream: BinaryIO
    line: int
    """Where it begins."""


def split_units_xml(stream: BinaryIO) -> Iterator[UnitXml]:
    """Each <tu> of a memory in an encoding that holds ASCII, with the head that the file has.

    What lies between units is left out, and so are comments.
    """
    head, line, left = b"", 1, b""
    root = b"<tmx>"
    while block := stream.read(BLOCK):
        left += block
        if not head:
            found = _ROOT.search(left)
            if found is None and len(left) < LARGEST:
                continue
            if found is None:
                return
            declared = _ENCODING.match(left.removeprefix(b"\xef\xbb\xbf"))
            root, head = found[0], declared[1] if declared else b" "
        end = 0
        for unit in _UNIT.finditer(left):
            if unit[0].startswith(b"<!--") and not unit[0].endswith(b"-->"):
                break  # the end of the comment is still to be read
            line += left.count(b"\n", end, unit.start())
            if not unit[0].startswith(b"<!--"):
                whole = b"".join((head.strip(), root, unit[0], b"</tmx>"))
                yield UnitXml(io.BytesIO(whole), line)
            line += unit[0].count(b"\n")
            end = unit.end()
        begun = _OPEN.search(left, end)
        keep = begun.start() if begun else max(end, len(left) - 4)  # <!-- may be cut in two
        line += left.count(b"\n", end, keep)
        left = left[keep:]
        if len(left) > LARGEST:  # it does not end: search on behind its beginning
            line += left.count(b"\n", 0, LARGEST)
            left = left[LARGEST:]
