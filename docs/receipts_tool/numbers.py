"""The numbers of a page of the documentation, section by section, and which of them are measured.

All numbers written in digits count: in prose, tables, comments of code blocks, and the output of
commands there (the lines below one that begins with `$`). Not counted are numbers in headings, code
spans, code, addresses and attributes of pictures, dates, years, numbers of sections and tables, and
numbers that are part of a name (`GPT-2`, `int8`, 2.6.0).

A number is *measured* if it has a decimal point, an exponent, a comma between thousands or a unit,
or if it is alone in its cell of a table. All others (a beam of 5, layer 2) are *plain*.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from itertools import groupby

UNITS = (
    "%", "percent", r"×(?!\s*\d)", "times", "ms", "s", "min", "seconds?", "minutes?", "hours?",
    "days?", "points?", "BLEU", "nats", "[kKMG]i?B", "megapixels", "(?:tokens|sentences|TFLOP)/s",
)  # fmt: skip
UNIT = rf"(?:[ \u00a0]?(?:{'|'.join(UNITS)})(?![\w/]))"
NUMBER = re.compile(
    r"(?<![\w.,])(?<![A-Za-z_][-/])"  # not the end of a name
    r"([-−+±]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[-−+±]?\d+(?:\.\d+)?)"
    r"(e[-−+]?\d+)?([kMGTP])?"
    rf"({UNIT})?"
    r"(?!\w|\.\d|,\d{3})"
)
YEAR = re.compile(r"1[89]\d\d|20[0-3]\d")
SKIPPED = re.compile(
    r"<!--.*?-->|(`+)[^`].*?\1|<[a-z/][^>]*>|(?<=\])\([^)]*\)|https?://\S+"
    r"|\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d\b|\b\d{4}\.\d{4,5}\b"
    r"|\b(?:[Ss]ection|[Tt]able|[Cc]hapter|[Ff]igure)s?\s\d[\d.]*",
    re.DOTALL,
)
HEADING = re.compile(r"#{1,6} (.+)")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) ")
COMMENT = re.compile(r"(?:^|\s)(?:#|//) (.*)")
CELL_NOISE = re.compile(r"[\s*()…–,;:±→/]|\bto\b|\bof\b")
MULTIPLIERS = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}


@dataclass(frozen=True)
class Number:
    """A number as it is written on a page."""

    figures: str
    unit: str
    measured: bool

    def __str__(self) -> str:
        return f"{self.figures}{self.unit}"

    @cached_property
    def value(self) -> Decimal:
        return parse_value(self.figures)

    @cached_property
    def last_place(self) -> int:
        """The exponent of its last digit: -2 for 98.30, 0 for 562, 4 for 1.06M."""
        exponent = self.value.as_tuple().exponent
        assert isinstance(exponent, int)
        return exponent

    def is_rounded(self, exact: "Number") -> bool:
        """Whether this number equals `exact`, or is `exact` rounded to fewer digits."""
        if self.value == exact.value:
            return True
        step = Decimal(1).scaleb(self.last_place)
        return self.last_place > exact.last_place and abs(exact.value - self.value) * 2 <= step


def significand(value: Decimal) -> tuple[int, ...]:
    """The digits of a value without zeros at either end: the same for 9.5 and 9.5e12."""
    return abs(value).normalize().as_tuple().digits


def parse_value(figures: str) -> Decimal:
    """The value of a number as it is written: `1,600`, `−3.1e-4`, `1.06M`."""
    plain = figures.replace(",", "").replace("−", "-").lstrip("+±")
    suffix = plain[-1] if plain[-1] in MULTIPLIERS else ""
    return Decimal(plain.removesuffix(suffix)).scaleb(MULTIPLIERS[suffix])


@dataclass(frozen=True)
class Section:
    """The part of a page between two headings: its text, and the numbers of each of its blocks."""

    anchor: str
    text: str
    blocks: tuple[tuple[Number, ...], ...]

    @property
    def numbers(self) -> Iterator[Number]:
        return (number for block in self.blocks for number in block)

    @property
    def measured(self) -> list[Number]:
        return [number for number in self.numbers if number.measured]


def read_sections(page: str) -> list[Section]:
    """The sections of a page in Markdown; its beginning belongs to the first heading."""
    anchors: Counter[str] = Counter()
    sections = []
    for title, lines in _split_at_headings(page.splitlines()):
        anchor = anchor_of(title)
        name = f"{anchor}-{anchors[anchor]}" if anchors[anchor] else anchor
        anchors[anchor] += 1
        found = (tuple(find_numbers(block)) for block in _blocks(lines))
        sections.append(Section(name, "\n".join(lines), tuple(block for block in found if block)))
    return sections


def anchor_of(title: str) -> str:
    """The name that GitHub and the site give to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _split_at_headings(lines: list[str]) -> list[tuple[str, list[str]]]:
    parts: list[tuple[str, list[str]]] = [("", [])]
    fenced = False
    for line in lines:
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else HEADING.match(line)
        if heading:
            parts.append((heading[1], []))
        else:
            parts[-1][1].append(line)
    return parts


def _blocks(lines: list[str]) -> Iterator[str]:
    """Paragraphs, list items and tables; of code blocks, their comments and output."""
    fence: list[str] | None = None
    block: list[str] = []
    for line in [*lines, ""]:
        if line.lstrip().startswith("```"):
            if fence is not None:
                yield "\n".join(_comments_and_output(fence))
            fence = [] if fence is None else None
        elif fence is not None:
            fence.append(line)
            continue
        table = bool(block and block[0].startswith("|"))
        begins = ITEM.match(line) is not None or line.startswith("|") != table
        if block and (begins or fence is not None or not line.strip()):
            yield "\n".join(block)
            block = []
        if line.strip() and not line.lstrip().startswith("```"):
            block.append(ITEM.sub("", line, count=1))


def _comments_and_output(lines: list[str]) -> Iterator[str]:
    """The comments of a code block, and what the commands of a terminal session print."""
    session = False
    for line in lines:
        command = line.startswith("$ ")
        session = session or command
        comment = COMMENT.search(line)
        if comment:
            yield comment[1]
        elif session and not command:
            yield line


def find_numbers(block: str) -> Iterator[Number]:
    """The numbers of a paragraph, or of a table cell by cell."""
    if block.startswith("|"):
        # a code span may contain a bar, so spans are removed first
        for row in SKIPPED.sub("`", block).splitlines():
            for cell in row.split("|"):
                alone = not CELL_NOISE.sub("", NUMBER.sub("", cell))
                yield from _find_in_text(cell, alone=alone)
        return
    yield from _find_in_text(SKIPPED.sub("`", block), alone=False)


def _find_in_text(text: str, *, alone: bool) -> Iterator[Number]:
    for match in NUMBER.finditer(text):
        figures = "".join(part or "" for part in match.groups()[:3])
        unit = (match[4] or "").strip()
        if unit or not YEAR.fullmatch(figures):
            measured = bool(alone or unit or match[2] or match[3] or set(".,") & set(figures))
            yield Number(figures, unit, measured)


def chapter_text(script: str) -> str:
    """The prose of a chapter of the tour, a script in percent format, as a page in Markdown."""
    return "\n".join(
        line.removeprefix("#").removeprefix(" ") for line in _cells(script, markdown=True)
    )


def code_values(source: str) -> set[Decimal]:
    """The values of all numbers in a source file, in its code and its texts."""
    found = re.findall(r"(?<![\w.])\d[\d_,]*(?:\.\d+)?(?:[eE][-+]?\d+)?", source)
    plain = {Decimal(re.sub(r"[_,]", "", number)) for number in found}
    shifted = re.findall(r"\b(\d+) << (\d+)\b", source)
    return plain | {Decimal(int(base) << int(bits)) for base, bits in shifted}


def chapter_figures(script: str) -> set[tuple[int, ...]]:
    """The significands of all numbers in the code of a chapter, and of their roundings to three
    digits or more; code may write a number in another unit.
    """
    values = code_values("\n".join(_cells(script, markdown=False)))
    figures = {significand(value) for value in values}
    rounded = {
        significand(Context(prec=places).plus(value))
        for value in values
        for places in range(3, len(significand(value)))
    }
    return figures | rounded


def _cells(script: str, *, markdown: bool) -> Iterator[str]:
    """The lines of all cells of one kind, without their `# %%` lines."""
    in_markdown = False
    for begins, lines in groupby(script.splitlines(), lambda line: line.startswith("# %%")):
        if begins:
            in_markdown = "[markdown]" in list(lines)[-1]
        elif in_markdown == markdown:
            yield from lines
