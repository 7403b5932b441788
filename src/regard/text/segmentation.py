"""A text -> its sentences, and the text around and between them.

The segments of a text, joined, are the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from typing import Literal, NamedTuple, Self, get_args

import sentencex
from pydantic import model_validator

from regard.settings import Settings

Kind = Literal["codes", "layout", "numbers", "symbols"]
KINDS: tuple[Kind, ...] = get_args(Kind)

CHARACTER_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
"""A character written by its name or number."""
_CONVERSION = r"[#0+-]*\d*(?:\.\d+)?[diouxXeEfFgGcrsa@](?![A-Za-z])"
PLACEHOLDER = re.compile(
    r"\{\{[^{}\n]{1,200}\}\}"  # {{x}}
    r"|\$\{[^{}\n]{1,200}\}"  # ${x}
    r"|\{[\w.!:\[\],#+*^%-]{0,80}\}"  # {}, {name}, {0:.2f}
    rf"|%\([\w.]{{1,80}}\){_CONVERSION}"  # %(name)d
    rf"|(?<![\w%])%(?:\d{{1,2}}\$)?{_CONVERSION}"  # %s, %1$s
    r"|(?<![\w%])%L?\d{1,2}(?!\w)"  # %1
    r"|\$[A-Za-z_]\w*"  # $VAR
)
_URL_REST = rf"(?:&amp;|(?!{CHARACTER_REFERENCE.pattern})[^\s<>\"])+(?:(?<=[\w/#&=])|(?<=&amp;))"
"""Ends before a character reference: `&gt;` and `&nbsp;` are not part of an address."""
URL_OR_EMAIL = re.compile(
    rf"(?:https?|ftp)://{_URL_REST}|(?<![\w.@])www\.{_URL_REST}"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+",
    re.IGNORECASE,
)
CODE = re.compile(f"(?:{URL_OR_EMAIL.pattern})|(?:{PLACEHOLDER.pattern})", re.IGNORECASE)
"""A URL, an e-mail address or a placeholder."""
LINE_BREAK = re.compile("([\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+)")  # as `str.splitlines`
_LIST_MARKER = re.compile(r"[\s\ufeff]*+(?:(?:[-*+•–—>#]+|\d{1,3}[.)])(?:[ \t][\s\ufeff]*+|\Z))*+")
"""Indentation, bullets, and the number of an item."""
_CELLS = re.compile(r"(\t+|\s{3,}|(?<!\S)\|+(?!\S))")
_ROW = re.compile(r"\|.*\|")
_ROW_CELLS = re.compile(r"(\t+|\s{3,}|\|+)")
_CODE_SIGN = re.compile(r"[@{%$]|://|www\.", re.IGNORECASE)  # every code has one; fast to find
_BLANK = re.compile(r"[\s\ufeff]")
_EMOJI = re.compile(r"[\s\u2600-\u27bf\u2b00-\u2bff\ufe0f\u200d\U0001f000-\U0001faff]")
"""An emoji, or white space beside it."""
_UNSPACED_END = re.compile(r"[。！？」』）、，]\Z")
_END = re.compile(
    r"(?<![.!?…։؟।॥])(?P<marks>[.!?…։؟।॥]++[\"'»”’)\]]*+(?: [»”])?)"
    r"\s++(?=[^\w\s]*+\s?(?P<next>[^\W_]))"
    r"|(?<![。！？])[。！？]++[」』）”’]*+\s*+(?=\S)"
)
"""No match begins inside a run of marks: for a line of dots, that would take minutes."""
_LAST = re.compile(r"[.!?…։؟।॥。！？][\"'»”’)\]」』）]*(?: ?[»”])?\s*\Z")
_LAST_WORD = re.compile(r"[^\s(\[«“\"']*\Z")
_INITIAL = re.compile(r"[^\W\d_]|\d{1,2}")
_ABBREVIATIONS = frozenset(
    re.findall(
        r"[^ ]+",
        "mm mme mlle mr mrs ms dr prof st ste sr sra jr vs ex cf no nr art fig vol chap pp av "
        "bd tel tél hr fr bzw ca approx usw z.b d.h u.a e.g i.e",
    )
)
_UNUSUAL = re.compile(r"[^\S ]|[\ud800-\udfff]")
"""Spaces before which sentencex may panic, and halves of characters, which it does not take."""
_MAX_CHARACTERS = 1 << 16  # of a text for sentencex, whose time may grow with their square
_CONTEXT = 40  # characters before a full stop in which its word is looked for


class InputSettings(Settings):
    """Which parts of a line are translated, and whether its sentences are translated together."""

    split_sentences: bool = True
    """Whether the sentences of a line are translated one by one. auto: yes, if the training pairs
    are single sentences, or have the same number of sentences on both sides."""
    language: str | None = None
    """The language, such as fr, by whose rules in sentencex a line is split into sentences; null:
    by fewer rules, common to all languages, as runs of before split. auto: that of the training
    sources, if it is known."""
    pass_through: tuple[Kind, ...] = KINDS
    """Kinds of text that are copied to the output unchanged. codes: URLs, e-mail addresses and
    placeholders; numbers: numbers, dates and times without letters; symbols: punctuation, emoji and
    single letters of an alphabet; these three only in sentences without words. layout: bullets,
    item numbers, bars and wide spaces between cells. auto: the kinds that the training pairs do not
    show to be translated."""
    verbatim: bool = False
    """Whether the model is given each text as it is, with its line breaks, white space and control
    characters, as an imported model is; nothing is split or copied then, but blank texts."""

    @model_validator(mode="after")
    def _keep_whole(self) -> Self:
        if self.verbatim and (self.split_sentences or self.pass_through):
            raise ValueError("verbatim needs split_sentences: false and pass_through: []")
        return self


VERBATIM = InputSettings(split_sentences=False, pass_through=(), verbatim=True)


class Span(NamedTuple):
    """Characters of a text: from `first` to before `last`."""

    first: int
    last: int


class Segment(NamedTuple):
    """A stretch of a text."""

    text: str
    translatable: bool = False  # other segments stay unchanged


@dataclass(frozen=True)
class Segments:
    """A text in parts, each of which is kept, or translated by itself."""

    parts: Sequence[Segment]

    @property
    def lines(self) -> list[str]:
        """The parts to translate, in order."""
        return [part.text for part in self.parts if part.translatable]

    def join(self, answers: Sequence[str], /) -> str:
        """The text with the translation of each line in its place."""
        return "".join(self.write(answers))

    def write(self, answers: Sequence[str], /) -> list[str]:
        """The text of each part, with the translation of each line in its place; sentences are
        separated by a space, unless the first ends in a mark that takes none, such as `。`.
        """
        rest = iter(answers)
        written = [next(rest) if part.translatable else part.text for part in self.parts]
        translated = [number for number, part in enumerate(self.parts) if part.translatable]
        for first, second in pairwise(translated):
            between = "".join(written[first + 1 : second])
            if between not in ("", " ") or not written[first]:
                continue
            space = "" if _UNSPACED_END.search(written[first]) else " "
            written[first + 1 : second] = [""] * (second - first - 1)
            if second - first > 1:
                written[first + 1] = space
            else:
                written[second] = space + written[second]
        return written


def segment(text: str, settings: InputSettings) -> Segments:
    """The sentences of a text, or its lines if these are not split, and all text between them."""
    if settings.verbatim:
        return Segments([Segment(text, translatable=bool(text.strip()))])
    parts: list[Segment] = []
    for line, breaks in _split_at_breaks(text):
        parts += [Segment(line)] if breaks else _split_line(line, settings)
    return Segments(parts)


def split_lines(text: str) -> Segments:
    """The whole lines of a text, and the breaks between them."""
    parts = _split_at_breaks(text)
    return Segments([Segment(part, bool(part.strip()) and not breaks) for part, breaks in parts])


def pass_through_kinds(text: str) -> frozenset[Kind] | None:
    """The kinds of text that a text without words consists of; None if it has words."""
    rest, codes = CODE.subn(" ", text) if _CODE_SIGN.search(text) else (text, 0)
    letters = list(islice(filter(str.isalpha, rest), 2))
    # A single letter of an alphabet is not a word: `a)`.
    if len(letters) > 1 or (letters and letters[0].lower() == letters[0].upper()):
        return None
    found: set[Kind] = {"codes"} if codes else set()
    if any(letter.isalnum() and not letter.isalpha() for letter in rest):
        found.add("numbers")
    return frozenset(found or {"symbols"})


def holds_codes(text: str) -> bool:
    """Whether a text has a URL, an e-mail address or a placeholder."""
    return _CODE_SIGN.search(text) is not None and CODE.search(text) is not None


def list_marker(line: str) -> str:
    """The indentation, bullet or number that a line begins with."""
    found = _LIST_MARKER.match(line)
    assert found is not None  # it may be empty
    return found[0]


def _split_at_breaks(text: str) -> Iterator[tuple[str, bool]]:
    """The lines of a text and the breaks between them, in order; whether each is a break."""
    return zip(LINE_BREAK.split(text), cycle((False, True)), strict=False)


def _split_line(line: str, settings: InputSettings) -> Iterator[Segment]:
    """The cells of a line, and the layout around them."""
    if "layout" not in settings.pass_through:
        yield from _split_cell(line, settings)
        return
    mark = list_marker(line)
    if mark:
        yield Segment(mark)
    rest = line[len(mark) :]
    cells = _ROW_CELLS if _ROW.fullmatch(rest.strip()) else _CELLS
    for number, piece in enumerate(cells.split(rest)):
        if number % 2:
            yield Segment(piece)
        else:
            yield from _split_cell(piece, settings)


def _split_cell(text: str, settings: InputSettings) -> Iterator[Segment]:
    """The sentences of a cell, and the space around them."""
    before, inner, behind = _trim(text, _BLANK)
    if before:
        yield Segment(before)
    if inner:
        splits, language = settings.split_sentences, settings.language
        spans = split_sentences(inner, language) if splits else [Span(0, len(inner))]
        place = 0
        for first, last in spans if not _passes_through(inner, settings) else ():
            if place < first:
                yield Segment(inner[place:first])
            yield from _split_emoji(inner[first:last], settings)
            place = last
        if place < len(inner):
            yield Segment(inner[place:])
    if behind:
        yield Segment(behind)


def _split_emoji(text: str, settings: InputSettings) -> Iterator[Segment]:
    """A sentence and, separately, the emoji at its ends; text that passes through stays whole."""
    if _passes_through(text, settings):
        yield Segment(text)
        return
    before, inner, behind = "", text, ""
    if "symbols" in settings.pass_through:
        before, inner, behind = _trim(text, _EMOJI)
    yield from (Segment(one, one is inner) for one in (before, inner, behind) if one)


def _passes_through(text: str, settings: InputSettings) -> bool:
    found = pass_through_kinds(text)
    return found is not None and found.issubset(settings.pass_through)


def strip_segments(text: str) -> list[Segment]:
    """A text to translate, with the space at its ends as segments of their own."""
    inner = text.strip()
    first = text.find(inner)
    before, after = Segment(text[:first]), Segment(text[first + len(inner) :])
    parts = before, Segment(inner, translatable=True), after
    return [part for part in parts if part.text]


def _trim(text: str, outer: re.Pattern[str]) -> tuple[str, str, str]:
    """The `outer` characters at the beginning of a text, the rest, and those at its end."""
    last = len(text)
    while last and outer.match(text[last - 1]):
        last -= 1
    first = 0
    while first < last and outer.match(text[first]):
        first += 1
    return text[:first], text[first:last], text[last:]


def split_sentences(text: str, language: str | None = None) -> list[Span]:
    """The sentences of `text`, in order, without the spaces between them."""
    if language is None or len(text) > _MAX_CHARACTERS:
        return _split_by_common_rules(text)
    spans, place = [], 0
    for sentence in sentencex.segment(language, _UNUSUAL.sub(" ", text)):
        first, last = place + len(sentence) - len(sentence.lstrip()), place + len(sentence.rstrip())
        place += len(sentence)
        if first < last:
            spans.append(Span(first, last))
    return spans


def _split_by_common_rules(text: str) -> list[Span]:
    """The sentences of `text` in any language.

    A full stop or similar mark ends a sentence if a space follows and then no lower-case letter,
    unless it belongs to an initial, a short number (an ordinal, a list item) or a common
    abbreviation.
    """
    spans, first = [], len(text) - len(text.lstrip())
    for found in _END.finditer(text):
        if not found["next"] or not (found["next"].islower() or _is_abbreviation(text, found)):
            spans.append(Span(first, found.start() + len(found[0].rstrip())))
            first = found.end()
    end = len(text.rstrip())
    return [*spans, Span(first, end)] if first < end else spans


def ends_sentence(text: str) -> bool:
    """Whether a text ends as a sentence does."""
    return _LAST.search(text) is not None


def _is_abbreviation(text: str, end: re.Match[str]) -> bool:
    """Whether a full stop belongs to an abbreviation and does not end the sentence."""
    if end["marks"] != ".":
        return False
    word = _LAST_WORD.search(text[max(0, end.start() - _CONTEXT) : end.start()])
    assert word is not None  # it may be empty
    return _INITIAL.fullmatch(word[0]) is not None or word[0].lower() in _ABBREVIATIONS
