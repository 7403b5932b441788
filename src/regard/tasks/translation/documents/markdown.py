"""Markdown -> Markdown: the text of each block is translated, everything else is copied.

A block is a paragraph, a heading, an item of a list or a cell of a table, up to a hard line break.
Its emphasis and links become tags for the translation, and are then written as they were; code,
formulas and addresses are protected. HTML blocks are read as HTML. Front matter, code blocks, link
definitions and the alternative texts of pictures are copied.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.tasks.translation.documents.html import read_html
from regard.tasks.translation.documents.markdown_inline import (
    TaggedText,
    normalize_label,
    tag_inline,
)
from regard.tasks.translation.markup.markup_tree import RAW_TEXT_ELEMENTS
from regard.text.segmentation import Segment, Segments, strip_segments

BLOCK_ELEMENTS = frozenset(
    re.split(
        " ",
        "address article aside base basefont blockquote body caption center col colgroup dd "
        "details dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 "
        "h3 h4 h5 h6 head header hr html iframe legend li link main menu menuitem nav noframes ol "
        "optgroup option p param pre script search section style summary table tbody td textarea "
        "tfoot th thead title tr track ul",
    )
)  # that begin an HTML block, by CommonMark
MAX_PREFIXES = 32  # quotes and items within each other at the beginning of a line
CODE_INDENT = 4  # spaces before a line of code without fences

_ENDS = re.compile(r"(\r\n|\r|\n)")
_QUOTES = re.compile(r"(?:[ \t]*>)*")
_PREFIX = re.compile(r"[ \t]*(?P<mark>>[ \t]?|(?:[-*+]|(?P<number>\d{1,9})[.)])(?:[ \t]+|\Z))")
_TASK = re.compile(r"[ \t]*(?:\[[ xX]\][ \t]+|\[\^[^\s\[\]]+\]:[ \t]*)?")  # or a footnote's name
_RULE = re.compile(r"[ \t]*(?:([-*_])(?:[ \t]*\1){2,}|=+|-+|:{3,}.*)[ \t]*\Z")
_HEADING = re.compile(r"#{1,6}(?:[ \t]+|\Z)")
_FENCE = re.compile(r"`{3,}(?!.*`)|~{3,}|\$\$(?!.*\$\$)")
_DEFINITION = re.compile(r"\[(?!\^)(?P<label>[^\[\]]+)\]:[ \t]*(?:\S|\Z)")
_DELIMITERS = re.compile(r"(?=.*\|)(?=.*-)[ \t|:-]+\Z")  # of a table, below its first row
_BARS = re.compile(r"((?<!\\)\|)")
_HARD_BREAK = re.compile(r"(?: {2,}|\\)\Z")
_HTML = re.compile(r"</?(?P<name>[A-Za-z][\w-]*)(?=[\s/>]|\Z)(?P<alone>[^<>]*>\s*\Z)?|<!--|<[!?]")
_HTML_ENDS = {"<!--": "-->", "<?": "?>", "<!": ">"}


@dataclass(frozen=True)
class Markdown:
    """A file of Markdown."""

    segments: Segments
    tagged: Sequence[TaggedText | None]  # each of its lines; None in HTML blocks

    @property
    def lines(self) -> list[str]:
        return self.segments.lines

    def join(self, answers: Sequence[str], /) -> str:
        return self.segments.join(
            [
                answer if tagged is None else tagged.write(answer)
                for tagged, answer in zip(self.tagged, answers, strict=True)
            ]
        )


def read_markdown(document: str) -> Markdown:
    """The blocks of a document, and everything between."""
    text = document.removeprefix("\ufeff")
    pieces = [*_ENDS.split(text), ""]
    lines = pieces[0::2]
    found = (_DEFINITION.match(line.lstrip("> \t")) for line in lines)
    labels = frozenset(normalize_label(one["label"]) for one in found if one)
    name = "md"  # of tags that the document does not have
    while f"<{name}-" in document or f"</{name}-" in document:
        name += "x"
    reader = _BlockReader(lines, pieces[1::2], labels, name)
    reader.copy(document[: len(document) - len(text)])
    reader.read()
    return Markdown(Segments(reader.parts), reader.tagged)


def _width(text: str) -> int:
    return len(text.expandtabs(CODE_INDENT))


def _indent(line: str) -> int:
    return _width(line[: len(line) - len(line.lstrip())])


@dataclass
class _BlockReader:
    """Collects the blocks of a document, line by line."""

    lines: Sequence[str]
    ends: Sequence[str]  # the line break after each of the lines
    labels: frozenset[str]
    name: str
    place: int = 0  # the next line
    parts: list[Segment] = field(default_factory=list)
    tagged: list[TaggedText | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # the lines of the current paragraph
    raw: list[str] = field(default_factory=list)  # the same, with what is between them
    columns: list[int] = field(default_factory=list)  # where the text of each open item begins
    quotes: int = 0

    def read(self) -> None:
        self.read_front_matter()
        while self.place < len(self.lines):
            self.read_line(self.lines[self.place])
        self.end_paragraph()

    def read_front_matter(self) -> None:
        if self.lines[0].rstrip() == "---":
            ends = (n for n, line in enumerate(self.lines) if n and line.rstrip() in ("---", "..."))
            self.copy_lines(next(ends, -1) + 1)

    def copy(self, text: str) -> None:
        self.parts.append(Segment(text))

    def copy_lines(self, last: int) -> None:
        """Copy the lines up to `last`, exclusive."""
        self.end_paragraph()
        while self.place < min(last, len(self.lines)):
            self.copy(self.lines[self.place] + self.ends[self.place])
            self.place += 1

    def read_line(self, line: str) -> None:
        found = _QUOTES.match(line)
        assert found is not None  # it may be empty
        quotes = found[0] if self.texts or _indent(line) < self.code_column() else ""
        depth, inner = quotes.count(">"), line[len(quotes) :]
        if depth != self.quotes and (depth or not self.texts):
            self.end_paragraph()
            self.columns.clear()
            self.quotes = depth
        if not self.texts and inner.strip():
            self.columns = [one for one in self.columns if one <= _indent(inner)]
        is_code = not self.texts and _indent(inner) >= self.code_column() + (depth > 0)
        if not inner.strip() or is_code or _RULE.match(inner):
            self.copy_lines(self.place + 1)
        else:
            self.read_text(line, self.prefix(line, len(quotes)))

    def code_column(self) -> int:
        """The indentation from which a line is code."""
        return CODE_INDENT + (self.columns[-1] if self.columns else 0)

    def prefix(self, line: str, quotes: int) -> int:
        """The number of characters before the text of a line; notes the items that it begins."""
        place = quotes
        for _ in range(MAX_PREFIXES):
            found = _PREFIX.match(line, place)
            if not found or _RULE.match(line, place):
                break
            indent = _width(line[quotes : found.start("mark")])
            first = found["number"] in (None, "1") and found.end() < len(line)
            if self.texts and not first and all(one <= indent for one in self.columns):
                break  # a paragraph outside of lists is ended only by the first item of one
            self.end_paragraph()
            self.columns = [one for one in self.columns if one <= indent]
            place = found.end()
            self.columns.append(_width(line[quotes:place]))
        task = _TASK.match(line, place)
        assert task is not None  # it may be empty
        return task.end()

    def read_text(self, line: str, first: int) -> None:
        """Read a line whose text begins at `first`."""
        text = line[first:]
        html = _HTML.match(text)
        if fence := _FENCE.match(text):
            self.copy_lines(self.end_of_fence(fence[0], line[:first]))
        elif (definition := _DEFINITION.match(text)) and not self.texts:
            self.copy_lines(self.place + 1 + (definition.end() == len(text)))
        elif html and not self.quotes and self.begins_html(html):
            self.read_html(html, line[:first])
        elif heading := _HEADING.match(text):
            self.end_paragraph()
            before = first + heading.end()
            last = len(re.sub(r"(?:[ \t]+#+)?[ \t]*\Z", "", line[before:])) + before
            self.copy(line[:before])
            self.add(line[before:last])
            self.copy(line[last:] + self.ends[self.place])
            self.place += 1
        elif "|" in text and self.place + 1 < len(self.lines) and self.delimiters(self.place + 1):
            self.read_table(first)
        else:
            self.add_line(line[:first], text)

    def end_of_fence(self, fence: str, before: str) -> int:
        """The line after the fence that ends a block of code, or after the item or quote."""
        closing = re.compile(rf"[ \t>]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*\Z")
        for number in range(self.place + 1, len(self.lines)):
            line = self.lines[number]
            if closing.match(line):
                return number + 1
            lead = line[: len(line) - len(line.lstrip("> \t"))]
            if lead.count(">") < before.count(">"):
                return number
            if line.strip() and _width(lead) < _width(before.rstrip()):
                return number
        return len(self.lines)

    def begins_html(self, found: re.Match[str]) -> bool:
        """Whether a line that begins with a tag begins an HTML block."""
        if not found["name"]:
            return True
        is_block = found["name"].lower() in BLOCK_ELEMENTS
        return is_block or (found["alone"] is not None and not self.texts)

    def read_html(self, found: re.Match[str], before: str) -> None:
        """Read an HTML block: up to its end, or to a blank line."""
        name = (found["name"] or "").lower()
        end = _HTML_ENDS.get(found[0])
        if name in RAW_TEXT_ELEMENTS or name == "pre":
            end = f"</{name}"
        last = self.place
        while last < len(self.lines):
            line = self.lines[last].lower()
            if end is None and not line.strip():
                break
            last += 1
            if end is not None and end in line:
                break
        self.end_paragraph()
        numbers = range(self.place, last)
        text = "".join(self.lines[number] + self.ends[number] for number in numbers)
        self.copy(before)
        blocks = read_html(text[len(before) :])
        self.parts += blocks.parts
        self.tagged += [None] * len(blocks.lines)
        self.place = last

    def delimiters(self, number: int) -> bool:
        """Whether a line is that between a table's first row and the others."""
        return _DELIMITERS.match(self.lines[number].lstrip("> \t")) is not None

    def read_table(self, first: int) -> None:
        """Read a table, whose first row begins at a character of the next line."""
        self.end_paragraph()
        while self.place < len(self.lines) and "|" in self.lines[self.place]:
            line = self.lines[self.place]
            if self.delimiters(self.place):
                self.copy_lines(self.place + 1)
                continue
            self.copy(line[:first])
            for number, cell in enumerate(_BARS.split(line[first:])):
                (self.copy if number % 2 else self.add)(cell)
            self.copy(self.ends[self.place])
            self.place += 1

    def add_line(self, before: str, text: str) -> None:
        """Add a line to the current paragraph, or begin one."""
        if self.texts:
            self.raw.append(before)
        else:
            self.copy(before)
        hard_break = _HARD_BREAK.search(text)
        last = hard_break.start() if hard_break else len(text)
        self.texts.append(text[:last].strip())
        self.raw.append(text[:last])
        end = text[last:] + self.ends[self.place]
        self.place += 1
        if hard_break:
            self.end_paragraph()
            self.copy(end)
        else:
            self.raw.append(end)

    def end_paragraph(self) -> None:
        """Add the current paragraph, if there is one."""
        text, raw = " ".join(self.texts), "".join(self.raw)
        self.texts, self.raw = [], []
        self.add(text, raw)

    def add(self, text: str, raw: str | None = None) -> None:
        """Add a text, which is `raw` in the document."""
        raw = text if raw is None else raw
        for part in strip_segments(raw) if raw.strip() else [Segment(raw)]:
            if part.translatable:
                tagged = tag_inline(text.strip(), part.text, self.labels, self.name)
                self.tagged.append(tagged)
                self.parts.append(Segment(tagged.text, translatable=True))
            else:
                self.copy(part.text)
