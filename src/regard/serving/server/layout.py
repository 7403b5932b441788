"""Texts -> the lines to translate, and translated lines -> texts laid out as they were."""

from collections.abc import Sequence
from typing import NamedTuple

from regard.serving.translator import Answer

ENDS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""What `str.splitlines` cuts behind."""


class Slot(NamedTuple):
    """A line of a text."""

    number: int | None
    """Among the lines to translate; none for a blank line."""
    end: str
    """What stands behind it, or all of a blank one."""


class Layout(NamedTuple):
    """Texts taken apart."""

    lines: list[str]
    """Those that are not blank, in order."""
    texts: list[list[Slot]]

    def join(self, answers: Sequence[Answer], rank: int = 0) -> list[str]:
        """Each text of the translations with a rank; lines with fewer give their last."""
        return [
            "".join(_said(slot, answers, rank) + slot.end for slot in slots) for slots in self.texts
        ]

    def alternatives(self, answers: Sequence[Answer], most: int) -> list[list[str]]:
        """For each text its translations behind the best, none of them twice."""
        ranked = [self.join(answers, rank) for rank in range(most + 1)]
        unlike = (dict.fromkeys(rows) for rows in zip(*ranked, strict=True))
        return [list(rows)[1:] for rows in unlike]


def lay_out(texts: Sequence[str]) -> Layout:
    """The lines of texts."""
    layout = Layout([], [])
    for text in texts:
        slots = []
        for whole in text.splitlines(keepends=True):
            line = whole.rstrip(ENDS)
            if line.strip():
                slots.append(Slot(len(layout.lines), whole[len(line) :]))
                layout.lines.append(line)
            else:
                slots.append(Slot(None, whole))
        layout.texts.append(slots)
    return layout


def _said(slot: Slot, answers: Sequence[Answer], rank: int) -> str:
    if slot.number is None:
        return ""
    candidates = answers[slot.number].candidates
    return candidates[min(rank, len(candidates) - 1)].text
