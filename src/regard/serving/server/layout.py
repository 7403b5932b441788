"""Texts -> the sentences to translate, and translated sentences -> texts laid out as they were."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from regard.serving.answer import Answer
from regard.text.segments import Segments


class Layout(NamedTuple):
    """Texts taken apart."""

    texts: list[Segments]

    @property
    def lines(self) -> list[str]:
        """What is to be translated, in order."""
        return [line for text in self.texts for line in text.lines]

    def fill(self, lines: Sequence[str]) -> list[str]:
        """Each text, with others in the place of its lines."""
        rest = iter(lines)
        return [text.join(list(islice(rest, len(text.lines)))) for text in self.texts]

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


def lay_out(texts: Sequence[str], segment: Callable[[str], Segments]) -> Layout:
    """Texts taken apart by `segment`."""
    return Layout([segment(text) for text in texts])


def _ranked(answer: Answer, rank: int) -> str:
    return answer.candidates[min(rank, len(answer.candidates) - 1)].text
