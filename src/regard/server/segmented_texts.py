"""Texts -> the sentences to translate, and translated sentences -> texts laid out as they were."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from regard.pipelines.answer import Answer
from regard.text.segmentation import Segments


class SegmentedTexts(NamedTuple):
    """Texts taken apart."""

    texts: list[Segments]

    @property
    def lines(self) -> list[str]:
        """What is to be translated, in order."""
        return [line for text in self.texts for line in text.lines]

    def join_texts(self, lines: Sequence[str]) -> list[str]:
        """Each text, with others in the place of its lines."""
        remaining = iter(lines)
        return [text.join(list(islice(remaining, len(text.lines)))) for text in self.texts]

    def best(self, answers: Sequence[Answer]) -> list[str]:
        """The best translation of each text."""
        return self.join_texts([answer.text for answer in answers])

    def alternatives(self, answers: Sequence[Answer], max_alternatives: int) -> list[list[str]]:
        """For each text at most so many translations behind the best, none of them twice.

        The n-th best of a text is made of the n-th best of its lines; a line that has fewer gives
        its last.
        """
        by_rank = [
            self.join_texts([_candidate_text(answer, rank) for answer in answers])
            for rank in range(max_alternatives + 1)
        ]
        return [
            list(dict.fromkeys(ranked_texts))[1:] for ranked_texts in zip(*by_rank, strict=True)
        ]


def segment_texts(texts: Sequence[str], segment: Callable[[str], Segments]) -> SegmentedTexts:
    """Texts taken apart by `segment`."""
    return SegmentedTexts([segment(text) for text in texts])


def _candidate_text(answer: Answer, rank: int) -> str:
    return answer.candidates[min(rank, len(answer.candidates) - 1)].text
