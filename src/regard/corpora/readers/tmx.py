"""Pairs from a translation memory (TMX 1.1 to 1.4b), one unit at a time."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, BinaryIO

from lxml import etree

from regard.corpora.corpus import Pair, ReadReport
from regard.errors import BadLineError, CorpusError
from regard.size_limits import max_bytes, too_large

NATIVE_CODES = ("{*}bpt", "{*}ept", "{*}it", "{*}ph", "{*}ut")
"""Inline elements whose content is markup of the document that was translated, not text."""
BLOCK = 1 << 16  # bytes read at once
LANGUAGE = ("{http://www.w3.org/XML/1998/namespace}lang", "lang")  # the second up to TMX 1.1
PARSING: dict[str, Any] = {
    "resolve_entities": "internal",  # so that one that is not declared is an error
    "load_dtd": False,
    "no_network": True,
    "remove_comments": True,
    "remove_pis": True,
}

_ROOT = re.compile(rb"<tmx(?:\s[^<>]*)?>")
_UNIT = re.compile(  # a unit without an end tag ends where the next begins
    rb"<!--.*?(?:-->|\Z)|<tu[\s>](?:(?!<tu[\s>]).)*?(?:</tu\s*>|(?=<tu[\s>]))", re.DOTALL
)
_OPEN = re.compile(rb"<!--|<tu[\s>]")
_ENCODING = re.compile(rb"\s*(<\?xml[^>]*\?>)")

Element = Any  # lxml has no types
Variant = tuple[str, str]  # the code of a language, and the text of a unit in it


def read_tmx(
    stream: BinaryIO,
    name: str,
    languages: tuple[str, str],
    report: ReadReport | None = None,
    *,
    skip_bad: bool = False,
) -> Iterator[Pair]:
    """The pairs of those units that have both languages; `name` is the file's, for messages.

    With `skip_bad`, units that are not XML are skipped and counted in `report`. Codes match in any
    case and by prefix: `en` matches `en-US`, but an exact match is preferred.
    """
    report = report or ReadReport()
    num_units, num_pairs, found = 0, 0, Counter[str]()
    for unit in _parseable_units(stream, name, report) if skip_bad else _units(stream, name):
        variants = [_variant(child) for child in unit.iterchildren("{*}tuv")]
        num_units += 1
        found.update(dict(variants).keys())
        pair = _pair(variants, languages)
        if pair is not None:
            num_pairs += 1
            yield pair
        elif not all(language for language, _ in variants):
            report.skip(name, "units with text without language (xml:lang)", f"unit {num_units:,}")
        else:
            why = f"units without both {languages[0]} and {languages[1]}"
            report.skip(name, why, f"unit {num_units:,}")
    if not num_pairs:
        listed = ", ".join(f"{language!r} ({n})" for language, n in found.most_common(20))
        raise CorpusError(
            f"{name}: none of its {num_units} units has both {languages[0]!r} and "
            f"{languages[1]!r}; languages found: {listed or 'none'}"
        )


def _units(stream: BinaryIO, name: str) -> Iterator[Element]:
    """Each complete <tu>; everything before it is freed."""
    head = _read_head(stream, name)
    parser = etree.XMLPullParser(("end",), tag="{*}tu", **PARSING)
    unread = 0  # bytes since the last unit
    for block in chain([head], iter(partial(stream.read, BLOCK), b""), [b""]):
        unread += len(block)
        if unread > max_bytes("line") + 2 * BLOCK:
            raise CorpusError(f"{name}: has a unit {too_large('line')}")
        error = _feed(parser, block, name)
        for _, unit in parser.read_events():
            unread = 0
            yield unit
            unit.clear()
            while unit.getprevious() is not None:
                del unit.getparent()[0]
        if error is not None:
            raise error


def _read_head(stream: BinaryIO, name: str) -> bytes:
    """The bytes up to the root or some more; an error if it is not that of a TMX file."""
    parser, head = etree.XMLPullParser(("start",), **PARSING), b""
    while len(head) <= max_bytes("line"):
        block = stream.read(BLOCK)
        head += block
        error = _feed(parser, block, name)
        for _, root in parser.read_events():
            _check_root(root, name)
            return head
        if error is not None:
            raise error
    raise CorpusError(f"{name}: its beginning is {too_large('line')}")


def _check_root(root: Element, name: str) -> None:
    """Raise an error if a file is not TMX, or declares entities or other grammar; a DTD that is
    only named is not read.
    """
    tag = etree.QName(root).localname
    if tag != "tmx":
        raise CorpusError(f"{name}: not a TMX file: it begins with <{tag}>, not <tmx>")
    tree = root.getroottree()
    if not etree.tostring(tree, encoding="unicode").startswith(tree.docinfo.doctype):
        raise CorpusError(
            f"{name}: line {root.sourceline}: declares XML entities or other grammar in its "
            "DOCTYPE, which is refused as harmful; remove the [...] there"
        )


def _feed(parser: Any, block: bytes, name: str) -> CorpusError | None:
    """Parse a block, or the end of the file if it is empty; returns what is wrong with it."""
    try:
        parser.feed(block) if block else parser.close()
    except etree.XMLSyntaxError as error:
        return _reading_error(error, name)
    return None


def _reading_error(error: Any, name: str) -> CorpusError:
    reason = (error.msg.rpartition(", line ")[0] or error.msg).strip()
    if error.code == etree.ErrorTypes.ERR_UNSUPPORTED_ENCODING:
        return CorpusError(
            f"{name}: the encoding that its first line declares cannot be read: {reason}; convert "
            "it to UTF-8, and remove that line"
        )
    return BadLineError(f"{name}: line {error.lineno}: not XML: {reason}")


def _parseable_units(stream: BinaryIO, name: str, report: ReadReport) -> Iterator[Element]:
    """Each <tu> that is XML, read by itself; those that are not are counted in `report`."""
    parser = etree.XMLParser(**PARSING)
    for xml, line in split_units_xml(stream):
        try:
            yield from etree.fromstring(xml, parser)
        except etree.XMLSyntaxError as error:
            reason = _reading_error(error, name)
            if not isinstance(reason, BadLineError):
                raise reason from None
            report.skip(name, "units that are not XML", f"line {line:,}")


def split_units_xml(stream: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Each <tu> of a file in a superset of ASCII, as a separate document, and its first line."""
    head, line, left = b"", 1, b""
    while block := stream.read(BLOCK):
        left += block
        if not head:
            root = _ROOT.search(left)
            if root is None:
                if len(left) < max_bytes("line"):
                    continue
                return
            declared = _ENCODING.match(left.removeprefix(b"\xef\xbb\xbf"))
            head = (declared[1] if declared else b"") + root[0]
        end = 0
        for unit in _UNIT.finditer(left):
            comment = unit[0].startswith(b"<!--")
            if comment and not unit[0].endswith(b"-->"):
                break  # the end of the comment is still to be read
            line += left.count(b"\n", end, unit.start())
            if not comment:
                yield b"".join((head, unit[0], b"</tmx>")), line
            line += unit[0].count(b"\n")
            end = unit.end()
        begun = _OPEN.search(left, end)
        keep = begun.start() if begun else max(end, len(left) - 4)  # <!-- may be split
        if len(left) - keep > max_bytes("line"):  # too long for a unit or a comment: skip this part
            keep += max_bytes("line")
        line += left.count(b"\n", end, keep)
        left = left[keep:]


def _variant(tuv: Element) -> Variant:
    language = tuv.get(LANGUAGE[0], tuv.get(LANGUAGE[1], ""))
    segment = next(tuv.iterchildren("{*}seg"), None)
    if segment is None or not len(segment):
        return language, "" if segment is None else segment.text or ""
    etree.strip_elements(segment, *NATIVE_CODES, with_tail=False)
    return language, "".join(segment.itertext())


def _pair(variants: Sequence[Variant], languages: tuple[str, str]) -> Pair | None:
    """The first source and target that match and are not the same variant."""
    sources, targets = (_matching(variants, language) for language in languages)
    pairs = ((source, target) for source in sources for target in targets)
    return next((Pair(a[1], b[1]) for a, b in pairs if a is not b), None)


def _matching(variants: Sequence[Variant], language: str) -> list[Variant]:
    matching = [x for x in variants if _nearness(x[0], language)]
    return sorted(matching, key=lambda x: -_nearness(x[0], language))


@lru_cache  # a file has few languages, each in every unit
def _nearness(code: str, asked: str) -> int:
    """2 for the language that was asked for, 1 for a variety of it, 0 for another."""
    code, asked = (x.lower().replace("_", "-") for x in (code, asked))
    return (code == asked) + f"{code}-".startswith(f"{asked}-")
