"""What the command line asks to be done to attention, and how it shows what came of it."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from regard.errors import SettingsError
from regard.inspection.changes import Flattened, ForcedWords, Silenced, Wish, Word
from regard.inspection.difference import compare_texts, separator
from regard.inspection.record import PARTS, Part

GONE, NEW = "red strike", "bold green"
"""Colours that differ in more than hue: one is struck through, the other bold."""


class Place(NamedTuple):
    """A head, or a layer with all its heads."""

    part: Part
    layer: int
    head: int | None


class Asked(NamedTuple):
    """What the options ask for."""

    without: Sequence[str] = ()
    flatten: Sequence[str] = ()
    force: Sequence[str] = ()

    def wishes(self, part: Part) -> list[Wish]:
        """The same as wishes; `part` is meant where none is named."""
        return [
            *(Silenced(*read_place(one, part, "--without")) for one in self.without),
            *(Flattened(*read_place(one, part, "--flatten")) for one in self.flatten),
            *(read_link(one) for one in self.force),
        ]

    def __str__(self) -> str:
        named = ("without", self.without), ("flat", self.flatten), ("forced", self.force)
        return "; ".join(f"{name} {', '.join(asked)}" for name, asked in named if asked)


def read_place(asked: str, part: Part, option: str) -> Place:
    """`3.5` -> head 5 of layer 3; `3` -> all of layer 3; `encoder.3.5` names its part."""
    named, _, rest = asked.partition(".")
    if named in PARTS:
        part = named
    else:
        rest = asked
    numbers = rest.split(".")
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise SettingsError(
            f"{option} {asked}: expected LAYER.HEAD or LAYER, such as 3.5 or 3, with or without a "
            f"part before it ({', '.join(PARTS)}), such as encoder.3.5"
        )
    return Place(part, int(numbers[0]), int(numbers[1]) if len(numbers) == 2 else None)


def read_link(asked: str) -> ForcedWords:
    """`Africa=2` -> the word Africa of the translation is to look at word 2 of the sentence."""
    target, _, source = asked.partition("=")
    if not target or not source:
        raise SettingsError(
            f"--force {asked}: expected TARGET=SOURCE, each a word or its number from 0, such as "
            "Africa=septembre or 2=4"
        )
    return ForcedWords(_word(target), _word(source))


def mark_difference(before: str, after: str, *, coloured: bool) -> Text:
    """`after` with what it has not of `before` struck out, and what it has of its own marked.

    Where there is no colour the marks are those of wdiff: `[-gone-] {+new+}`.
    """
    marks = (("", ""), ("", "")) if coloured else (("[-", "-]"), ("{+", "+}"))
    shown, last = Text(), ""
    for stretch in compare_texts(before, after):
        if stretch.same:
            shown.append(f"{separator(last, stretch.after)}{stretch.after}")
            last = stretch.after
            continue
        sides = zip((stretch.before, stretch.after), (GONE, NEW), marks, strict=True)
        for side, style, (left, right) in sides:
            if side:
                shown.append(separator(last, side)).append(f"{left}{side}{right}", style)
                last = side
    return shown


def _word(asked: str) -> Word:
    return int(asked) if asked.isdecimal() else asked
