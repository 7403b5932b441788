"""Check that every number of the documentation has a source and equals the recorded one.

A measured number has one of three sources: the build (the code of its chapter of the tour, a source
file that defines it, or another page, which is checked itself), a receipt, or a citation. Plain
numbers are only compared with what was recorded.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path

from docs.receipts_tool.numbers import (
    Number,
    Section,
    chapter_figures,
    chapter_text,
    code_values,
    read_sections,
    significand,
)
from docs.receipts_tool.records import Checkout, Citation, SectionRecord, parse_numbers

DIGEST = re.compile(r"`([0-9a-f]{64})`")
SCALES = {
    "%": Decimal("0.01"),
    "percent": Decimal("0.01"),
    "KB": Decimal(1000),
    "MB": Decimal(1_000_000),
    "KiB": Decimal(1 << 10),
    "MiB": Decimal(1 << 20),
    "megapixels": Decimal(1_000_000),
}
"""Units -> the factor of the number in code: 2 % may be 0.02 there."""


@dataclass(frozen=True)
class NumberFinding:
    """A fault of the numbers of a section."""

    page: str
    anchor: str
    what: str

    def __str__(self) -> str:
        return f"{self.page}#{self.anchor}: {self.what}"


def numbered_sections(checkout: Checkout, page: str) -> list[Section]:
    """The sections of a page that have numbers. Numbers in the code of a chapter are computed
    there, and do not count as measured.
    """
    text = (checkout.root / page).read_text("utf-8")
    chapter = page.endswith(".py")
    sections = read_sections(chapter_text(text) if chapter else text)
    computed = chapter_figures(text) if chapter else set()
    return [
        replace(section, blocks=tuple(_without_computed(section, computed)))
        for section in sections
        if section.blocks
    ]


def _without_computed(
    section: Section, computed: set[tuple[int, ...]]
) -> Iterator[tuple[Number, ...]]:
    """The blocks of a section, in which computed numbers do not count as measured."""
    for block in section.blocks:
        yield tuple(
            replace(one, measured=one.measured and significand(one.value) not in computed)
            for one in block
        )


def lines_of(section: Section) -> tuple[str, ...]:
    """The numbers of a section as they are recorded."""
    return tuple(" ".join(map(str, block)) for block in section.blocks)


@dataclass(frozen=True)
class Scan:
    """One reading of all pages, records and citations."""

    checkout: Checkout
    _read: dict[str, list[Section]] = field(default_factory=dict)

    def sections(self, page: str) -> list[Section]:
        """The sections of a page that have numbers."""
        if page not in self._read:
            self._read[page] = numbered_sections(self.checkout, page)
        return self._read[page]

    @cached_property
    def citations(self) -> Mapping[str, Citation]:
        return self.checkout.citations()

    def findings(self) -> list[NumberFinding]:
        """All faults."""
        return [finding for page in self.checkout.pages() for finding in self.page_findings(page)]

    def page_findings(self, page: str) -> Iterator[NumberFinding]:
        """The faults of the numbers of a page."""
        record = self.checkout.read_record(page)
        sections = {section.anchor: section for section in self.sections(page)}
        for anchor, section in sections.items():
            known = record.get(anchor)
            if known is None:
                yield NumberFinding(page, anchor, f"not recorded: {' '.join(lines_of(section))}")
            elif known.numbers != lines_of(section):
                yield NumberFinding(page, anchor, compare(known.numbers, lines_of(section)))
            else:
                faults = self.record_faults(section, known)
                yield from (NumberFinding(page, anchor, what) for what in faults)
        for anchor in record.keys() - sections.keys():
            yield NumberFinding(page, anchor, "recorded, but no longer on the page")

    def record_faults(self, section: Section, known: SectionRecord) -> Iterator[str]:
        """The faults of the record of a section whose numbers are as recorded."""
        there = {number.figures for number in section.numbers}
        for name, line in known.cited.items():
            if name not in self.citations:
                yield f"{name} is not in docs/citations.yaml"
                continue
            published = {
                number.figures
                for values in self.citations[name].values.values()
                for number in parse_numbers(values)
            }
            yield from self._missing(line, there & published, f"cited from {name}")
        for file, line in known.defined.items():
            in_file = {number.figures for number in self._in_file(section, file)}
            yield from self._missing(line, in_file, f"defined in {file}")
        for form in (form for one in known.receipts for form in (one, one.short) if form):
            yield from self._missing(form.prints, there, "printed again")
        unknown = set(DIGEST.findall(section.text)) - set(self._digests(known))
        yield from (f"the digest {digest} is in no receipt" for digest in sorted(unknown))
        if not known.receipts:
            left = self.without_source(section, known)
            if left:
                yield f"no receipt, citation or source for {' '.join(map(str, left))}"

    def without_source(self, section: Section, known: SectionRecord) -> list[Number]:
        """The measured numbers that need a receipt: not cited, defined in code, or copied."""
        named = [*known.cited.values(), *known.defined.values()]
        named_figures = {number.figures for line in named for number in parse_numbers(line)}
        copied = [number for place in known.copied for number in self._numbers_at(place)]
        return [
            number
            for number in section.measured
            if number.figures not in named_figures
            and not any(number.is_rounded(exact) for exact in copied)
        ]

    def _in_file(self, section: Section, file: str) -> Iterator[Number]:
        """The numbers of a section whose values are in a source file too."""
        path = self.checkout.root / file
        values = code_values(path.read_text("utf-8")) if path.is_file() else set()
        return (number for number in section.numbers if _spellings(number) & values)

    def _numbers_at(self, place: str) -> Iterator[Number]:
        """The numbers of `docs/page.md`, or of `docs/page.md#section`."""
        page, _, anchor = place.partition("#")
        if not (self.checkout.root / page).is_file():
            return
        for section in self.sections(page):
            if anchor in ("", section.anchor):
                yield from section.numbers

    @staticmethod
    def _missing(line: str, found: set[str], what: str) -> Iterator[str]:
        for number in parse_numbers(line):
            if number.figures not in found:
                yield f"{number} is said to be {what}, and is not"

    @staticmethod
    def _digests(known: SectionRecord) -> Iterator[str]:
        return (digest for one in known.receipts for digest in one.data.split())


def _spellings(number: Number) -> set[Decimal]:
    """The values that a number may have in a source file: 2 % may be 0.02 there."""
    value = abs(number.value)
    return {value, value * SCALES.get(number.unit, Decimal(1))}


def compare(before: tuple[str, ...], now: tuple[str, ...]) -> str:
    """The changes of recorded numbers, in words."""
    if not before:
        return f"new: {' '.join(now)}"
    old, new = " ".join(before).split(), " ".join(now).split()
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    said = [
        f"{' '.join(old[a:b]) or 'nothing'} is now {' '.join(new[c:d]) or 'gone'}"
        for kind, a, b, c, d in changes
        if kind != "equal"
    ]
    return "; ".join(said) or "the same numbers in other paragraphs"


def page_of(checkout: Checkout, name: str) -> str:
    """The page of a given name: `docs/results.md`, `results.md` or `results`."""
    wanted = Path(name).as_posix()
    for page in checkout.pages():
        short = page.removeprefix("docs/")
        if wanted in (page, short, str(Path(short).with_suffix(""))):
            return page
    return ""
