"""Texts -> the lines to translate, and translated lines -> texts laid out as they were."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from regard.serving.answer import Answer
from regard.serving.inline.sentences import split_sentences

ENDS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""What `str.splitlines` cuts behind."""


class Slot(NamedTuple):
    """A line of a text, or a sentence of a line."""

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


def lay_out(texts: Sequence[str], *, sentences: bool = True) -> Layout:
    """The lines of texts, or the sentences of their lines."""
    layout = Layout([], [])
    for text in texts:
        slots = []
        for whole in text.splitlines(keepends=True):
            line = whole.rstrip(ENDS)
            if not line.strip():
                slots.append(Slot(None, whole))
                continue
            for piece, behind in _pieces(line) if sentences else [(line, "")]:
                slots.append(Slot(len(layout.lines), behind))
                layout.lines.append(piece)
            slots[-1] = slots[-1]._replace(end=slots[-1].end + whole[len(line) :])
        layout.texts.append(slots)
    return layout


def _pieces(line: str) -> Iterator[tuple[str, str]]:
    """The sentences of a line, and the space behind each; one where scripts without spaces have
    none, since others have."""
    spans = split_sentences(line)
    starts = [0, *(span.first for span in spans[1:]), len(line)]
    for (first, last), span in zip(pairwise(starts), spans, strict=True):
        behind = line[span.last : last] or (" " if last < len(line) else "")
        yield line[first : span.last], behind


def _ranked(answer: Answer, rank: int) -> str:
    return answer.candidates[min(rank, len(answer.candidates) - 1)].text
