"""Texts -> the lines to translate, and translated lines -> texts laid out as they were."""

from collections.abc import Sequence
from typing import NamedTuple

from regard.serving.answer import Answer

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

    def fill(self, lines: Sequence[str]) -> list[str]:
        """Each text, with others in the place of its lines."""
        return [
            "".join(("" if slot.number is None else lines[slot.number]) + slot.end for slot in text)
            for text in self.texts
        ]

    def best(self, answers: Sequence[Answer]) -> list[str]:
        """The best translation of each text."""
        return self.fill([answer.text for answer in answers])

    def alternatives(self, answers: Sequence[Answer], most: int) -> list[list[str]]:
        """For each text at most so many translations behind the best, none of them twice.

        The n-th best of a text is made of the n-th best of its lines; a line that has fewer gives
        its last.
        """
        ranked = [
            self.fill([_ranked(answer, rank) for answer in answers]) for rank in range(most + 1)
        ]
        return [list(dict.fromkeys(ways))[1:] for ways in zip(*ranked, strict=True)]


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


def _ranked(answer: Answer, rank: int) -> str:
    return answer.candidates[min(rank, len(answer.candidates) - 1)].text
