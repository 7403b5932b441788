"""Pairs from a translation memory (TMX 1.1 to 1.4b), one unit at a time."""

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import BinaryIO
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import DefusedXmlException, DTDForbidden
from defusedxml.ElementTree import DefusedXMLParser, iterparse

from regard.corpora.corpus import Pair, ReadReport
from regard.errors import BadLineError, CorpusError
from regard.size_limits import max_bytes, too_large

NATIVE_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""Inline elements whose content is markup of the document that was translated, not text."""
BLOCK = 1 << 16  # bytes read at once
LANGUAGE = ("{http://www.w3.org/XML/1998/namespace}lang", "lang")  # the second up to TMX 1.1

_ROOT = re.compile(rb"<tmx(?:\s[^<>]*)?>")
_UNIT = re.compile(  # a unit without an end tag ends where the next begins
    rb"<!--.*?(?:-->|\Z)|<tu[\s>](?:(?!<tu[\s>]).)*?(?:</tu\s*>|(?=<tu[\s>]))", re.DOTALL
)
_OPEN = re.compile(rb"<!--|<tu[\s>]")
_ENCODING = re.compile(rb"\s*(<\?xml[^>]*\?>)")

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
        variants = [_variant(child) for child in unit if _tag(child) == "tuv"]
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


class _Parser(DefusedXMLParser):
    """Refuses DTD declarations, and thus entities; a DTD named by a DOCTYPE is not read."""

    def defused_start_doctype_decl(
        self, name: str, sysid: str | None, pubid: str | None, has_internal_subset: bool
    ) -> None:
        if has_internal_subset:
            raise DTDForbidden(name, sysid, pubid)


class _UnitBlocks:
    """The blocks of a file; an error where a unit, or what is between two, is too large to hold."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream, self._name = stream, name
        self.size = 0  # bytes since the last unit

    def read(self, size: int = -1) -> bytes:
        self.size += size
        if self.size > max_bytes("line") + 2 * size:
            raise CorpusError(f"{self._name}: has a unit {too_large('line')}")
        return self._stream.read(size)


def _units(stream: BinaryIO, name: str) -> Iterator[Element]:
    """Each complete <tu>; everything before it is freed."""
    parser = _Parser(target=TreeBuilder(), forbid_dtd=True)
    path: list[Element] = []  # from the root to where we are
    blocks = _UnitBlocks(stream, name)
    try:
        for event, element in iterparse(blocks, ("start", "end"), parser):
            tag = _tag(element)
            if event == "start":
                if not path and tag != "tmx":
                    raise CorpusError(f"{name}: not a TMX file: it begins with <{tag}>, not <tmx>")
                path.append(element)
                continue
            path.pop()
            if tag in NATIVE_CODES:
                tail = element.tail  # the text after the code
                element.clear()
                element.tail = tail
            elif tag == "tu" and path:
                blocks.size = 0
                yield element
                path[-1].clear()
    except ParseError as error:
        raise BadLineError(f"{name}: line {error.position[0]}: not XML: {error}") from None
    except DefusedXmlException:
        raise CorpusError(
            f"{name}: line {parser.parser.CurrentLineNumber}: declares XML entities or other "
            "grammar in its DOCTYPE, which is refused as harmful; remove the [...] there"
        ) from None
    except (LookupError, ValueError) as error:  # of an encoding that the parser does not know
        raise CorpusError(
            f"{name}: the encoding that its first line declares cannot be read: {error}; convert "
            "it to UTF-8, and remove that line"
        ) from None


def _parseable_units(stream: BinaryIO, name: str, report: ReadReport) -> Iterator[Element]:
    """Each <tu> that is XML, read by itself; those that are not are counted in `report`."""
    for xml, line in split_units_xml(stream):
        try:
            [unit] = _units(io.BytesIO(xml), name)
        except BadLineError:
            report.skip(name, "units that are not XML", f"line {line:,}")
        else:
            yield unit


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


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]  # without a namespace


def _variant(tuv: Element) -> Variant:
    language = next((tuv.attrib[key] for key in LANGUAGE if key in tuv.attrib), "")
    segments = ("".join(child.itertext()) for child in tuv if _tag(child) == "seg")
    return language, next(segments, "")


def _pair(variants: Sequence[Variant], languages: tuple[str, str]) -> Pair | None:
    """The first source and target that match and are not the same variant."""
    sources, targets = (_matching(variants, language) for language in languages)
    pairs = ((source, target) for source in sources for target in targets)
    return next((Pair(a[1], b[1]) for a, b in pairs if a is not b), None)


def _matching(variants: Sequence[Variant], language: str) -> list[Variant]:
    wanted = _normalized_code(language)
    matching = [x for x in variants if f"{_normalized_code(x[0])}-".startswith(f"{wanted}-")]
    return sorted(matching, key=lambda x: _normalized_code(x[0]) != wanted)


def _normalized_code(language: str) -> str:
    return language.lower().replace("_", "-")
