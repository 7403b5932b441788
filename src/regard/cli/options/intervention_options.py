"""Options for interventions in attention, and the changes that they cause in a text."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from regard.errors import SettingsError
from regard.inspection.interventions import Flattened, ForcedWords, InterventionRequest, Silenced
from regard.inspection.recording.attention_map import PARTS, Part
from regard.inspection.word_diff import diff_words, separator

REMOVED_STYLE, ADDED_STYLE = "red strike", "bold green"  # styles that differ in more than colour


class InterventionOptions(NamedTuple):
    without: Sequence[str] = ()
    flatten: Sequence[str] = ()
    force: Sequence[str] = ()

    def requests(self, part: Part) -> list[InterventionRequest]:
        """The parsed options; `part` is the default part."""
        return [*self.heads(part), *(parse_forced_link(one) for one in self.force)]

    def heads(self, part: Part) -> list[Silenced | Flattened]:
        """The interventions that change heads."""
        return [
            *(Silenced(*parse_head_position(one, part, "--without")) for one in self.without),
            *(Flattened(*parse_head_position(one, part, "--flatten")) for one in self.flatten),
        ]

    def __str__(self) -> str:
        named = ("without", self.without), ("flat", self.flatten), ("forced", self.force)
        return "; ".join(f"{name} {', '.join(values)}" for name, values in named if values)


def parse_head_position(text: str, part: Part, option: str) -> tuple[Part, int, int | None]:
    """`3.5` -> head 5 of layer 3; `3` -> all of layer 3; `encoder.3.5` names its part."""
    first, *numbers = text.split(".")
    if first in PARTS:
        part = first
    else:
        numbers = [first, *numbers]
    if len(numbers) not in (1, 2) or not all(number.isdecimal() for number in numbers):
        raise SettingsError(
            f"{option} {text}: expected LAYER.HEAD or LAYER, such as 3.5 or 3, with or without a "
            f"part before it ({', '.join(PARTS)}), such as encoder.3.5"
        )
    return part, int(numbers[0]), int(numbers[1]) if len(numbers) == 2 else None


def parse_forced_link(text: str) -> ForcedWords:
    """`Africa=2` -> the word Africa of the translation attends to word 2 of the sentence."""
    target, _, source = text.partition("=")
    if not target or not source:
        raise SettingsError(
            f"--force {text}: expected TARGET=SOURCE, each a word or its number from 0, such as "
            "Africa=septembre or 2=4"
        )
    first, second = (int(word) if word.isdecimal() else word for word in (target, source))
    return ForcedWords(first, second)


def render_word_diff(before: str, after: str, *, coloured: bool) -> Text:
    """`after` with changes from `before` in colour, or as of wdiff: `[-deleted-] {+inserted+}`."""
    marks = (("", ""), ("", "")) if coloured else (("[-", "-]"), ("{+", "+}"))
    shown, last = Text(), ""
    for stretch in diff_words(before, after):
        if stretch.same:
            shown.append(f"{separator(last, stretch.after)}{stretch.after}")
            last = stretch.after
            continue
        sides = (stretch.before, REMOVED_STYLE, marks[0]), (stretch.after, ADDED_STYLE, marks[1])
        for side, style, (left, right) in sides:
            if side:
                shown.append(separator(last, side)).append(f"{left}{side}{right}", style)
                last = side
    return shown
