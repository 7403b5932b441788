"""Subtitles -> subtitles: the text of cues is translated; numbers, times and settings are copied.

The lines of a cue are translated as one text and wrapped again; lines that begin with a dash belong
to different speakers and are translated one by one. A sentence over several cues is translated as a
whole, with a tag at each cue's end, so that each cue keeps its part.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from regard.tasks.translation.markup.markup_tree import SUBTITLE_OVERRIDE, Leaf, scan_markup

CUE_BREAK = "<cue-seam/>"  # marks where a sentence continues in the next cue
MAX_JOINED_CUES = 4  # cues that are joined into one sentence
MAX_LINE_WIDTH = 42  # characters of a line, by common guidelines for subtitles

_TIMES = re.compile(r"\s*(?:\d+:)?\d+:\d+[.,]\d+\s*-->\s*(?:\d+:)?\d+:\d+[.,]\d+")
_NUMBER = re.compile(r"\s*\d+\s*")
_DASH = re.compile(r"\A\s*[-–—]\s*(?=\w|<)")
_UNFINISHED = re.compile(r"[^.!?…:;।。！？♪\"'»”’)\]]\s*\Z")
_CUE_BREAKS = re.compile(rf"\s*{CUE_BREAK}\s*")
_ENDS = re.compile(r"(\r\n|\r|\n)")


def read_subtitles(document: str) -> "Subtitles":
    """The subtitles of a file, SubRip or WebVTT."""
    return Subtitles(list(_split_cues(document)))


class Cue(NamedTuple):
    """Some lines of a file: the text of a cue, or what is between texts."""

    lines: tuple[str, ...]
    ends: tuple[str, ...]  # the line break after each of the lines
    translatable: bool = False

    @property
    def text(self) -> str:
        return " ".join(line.strip() for line in self.lines)

    @property
    def has_dialogue(self) -> bool:
        """Whether the lines are those of different speakers."""
        return len(self.lines) > 1 and all(map(_DASH.match, self.lines))


@dataclass(frozen=True)
class Subtitles:
    """A file of subtitles."""

    cues: Sequence[Cue]

    def __bool__(self) -> bool:
        """Whether there is any cue; the lines before it, up to its times, are a `Cue` too."""
        return len(self.cues) > 1

    @property
    def lines(self) -> list[str]:
        return [line for group in self._groups() for line in _texts_of(group)]

    def join(self, answers: Sequence[str], /) -> str:
        rest = iter(answers)
        new_lines: dict[int, Sequence[str]] = {}
        for group in self._groups():
            lines = _texts_of(group)
            # without blank lines and arrows, which would end or begin a cue
            translations = [next(rest).replace("-->", "->").splitlines() for _ in lines]
            translated_lines = [" ".join(filter(None, one)) for one in translations]
            if translated_lines != lines:  # unchanged text keeps its line breaks
                assigned = _assign_to_cues(group, translated_lines)
                new_lines |= zip(map(id, group), assigned, strict=True)
        return "".join(_write(new_lines.get(id(cue), cue.lines), cue.ends) for cue in self.cues)

    def _groups(self) -> Iterator[list[Cue]]:
        """The cues with text; those that share a sentence are in one group."""
        group: list[Cue] = []
        for cue in self.cues:
            if not cue.translatable:
                continue
            if group and not (len(group) < MAX_JOINED_CUES and _continues(group[-1], cue)):
                yield group
                group = []
            group.append(cue)
        if group:
            yield group


def _split_cues(document: str) -> Iterator[Cue]:
    """The texts of cues and everything between, in the order of the file."""
    pieces = [*_ENDS.split(document), ""]
    lines, ends = pieces[0::2], pieces[1::2]
    first = place = 0
    while place < len(lines):
        place += 1
        if not _TIMES.match(lines[place - 1]):
            continue
        last = place
        while last < len(lines) and lines[last].strip() and not _starts_cue(lines, last):
            last += 1
        yield Cue(tuple(lines[first:place]), tuple(ends[first:place]))
        has_text = bool(_visible_text("\n".join(lines[place:last])).strip())
        yield Cue(tuple(lines[place:last]), tuple(ends[place:last]), has_text)
        first = place = last
    yield Cue(tuple(lines[first:]), tuple(ends[first:]))


def _starts_cue(lines: Sequence[str], place: int) -> bool:
    """Whether a cue begins at a line, without a blank line before it."""
    times = place + 1 if _NUMBER.fullmatch(lines[place]) else place
    return times < len(lines) and _TIMES.match(lines[times]) is not None


def _visible_text(text: str) -> str:
    """The text without tags."""
    texts = (SUBTITLE_OVERRIDE.sub("", one.text) for one in scan_markup(text) if one.kind == "text")
    return "".join(Leaf("text", one).text for one in texts)


def _continues(cue: Cue, after: Cue) -> bool:
    """Whether a sentence of a cue continues in the next."""
    if cue.has_dialogue or after.has_dialogue or _DASH.match(after.lines[0]):
        return False
    first = next(filter(str.isalpha, _visible_text(after.text)), "")
    return first.islower() and _UNFINISHED.search(_visible_text(cue.text)) is not None


def _texts_of(group: Sequence[Cue]) -> list[str]:
    """The texts to translate of a group: the lines of speakers, or one text."""
    [first, *others] = group
    if first.has_dialogue:
        return [_DASH.sub("", line) for line in first.lines]
    return [f" {CUE_BREAK} ".join([_DASH.sub("", first.text), *(cue.text for cue in others)])]


def _dash(line: str) -> str:
    """The dash that a line begins with, and the space around it."""
    found = _DASH.match(line)
    return found[0] if found else ""


def _assign_to_cues(group: Sequence[Cue], translated_lines: Sequence[str]) -> list[list[str]]:
    """The translated lines of each cue of a group."""
    [first, *_] = group
    if first.has_dialogue:
        spoken = zip(first.lines, translated_lines, strict=True)
        return [[_dash(line) + translated for line, translated in spoken]]
    texts = _CUE_BREAKS.split(translated_lines[0])
    have_words = [any(map(str.isalnum, _visible_text(text))) for text in texts]
    if not all(have_words) or len(texts) != len(group):
        whole = _CUE_BREAKS.sub(" ", translated_lines[0])
        texts = _split_by_length(whole, [len(_visible_text(cue.text)) for cue in group])
    texts[0] = _dash(first.text) + texts[0]
    return [_wrap_lines(text, len(cue.lines)) for text, cue in zip(texts, group, strict=True)]


def _wrap_lines(text: str, lines: int) -> list[str]:
    """The text in as many lines as before; in two if one would be too long."""
    needed = -(-len(_visible_text(text)) // MAX_LINE_WIDTH)
    broken = _split_by_length(text, [1] * max(lines, min(needed, 2)))
    return [line for line in broken if line] or [""]


def _split_by_length(text: str, sizes: Sequence[int]) -> list[str]:
    """The text in lines whose lengths are about proportional to `sizes`; the last may be empty."""
    words = _words(text)
    ends = list(accumulate(len(_visible_text(word)) + 1 for word in words))
    total, goals = (ends or [0])[-1], list(accumulate(sizes))
    lines: list[str] = []
    place = 0
    for number, goal in enumerate(goals, 1):
        length = total * goal / goals[-1]
        last = place
        while last < len(words) and (
            number == len(goals) or last == place or 2 * length > ends[last - 1] + ends[last]
        ):
            last += 1
        lines.append(" ".join(words[place:last]))
        place = last
    return lines


def _words(text: str) -> list[str]:
    """The words between spaces; spaces within tags do not separate words."""
    words = [""]
    for token in scan_markup(text):
        if token.kind != "text":
            words[-1] += token.text
            continue
        [first, *others] = token.text.split(" ")
        words[-1] += first
        words += others
    return [word for word in words if word]


def _write(lines: Sequence[str], ends: Sequence[str]) -> str:
    """The lines with their line breaks; additional lines have that of the first."""
    if not ends:
        return ""
    inner = [*ends[:-1], *[ends[0] or "\n"] * len(lines)][: max(0, len(lines) - 1)]
    return "".join(f"{line}{end}" for line, end in zip(lines, [*inner, ends[-1]], strict=True))
