"""Which words of a translation differ from those of another."""

from difflib import SequenceMatcher
from typing import NamedTuple

from regard.text.gluing import FULL_WIDTH
from regard.text.word_units import has_unspaced, unit_spans


class Stretch(NamedTuple):
    """Where two texts agree, both hold the same words; where they differ, each its own or none."""

    before: str
    after: str

    @property
    def same(self) -> bool:
        return self.before == self.after


def compare_texts(before: str, after: str) -> list[Stretch]:
    """Both texts, in order, in stretches that agree and stretches that differ, word by word."""
    before, after = (" ".join(text.split()) for text in (before, after))
    here, there = unit_spans(before), unit_spans(after)
    words = [before[slice(*span)] for span in here], [after[slice(*span)] for span in there]
    blocks = SequenceMatcher(None, *words, autojunk=False).get_opcodes()
    return [
        Stretch(_between(before, here[a:b]), _between(after, there[c:d]))
        for _, a, b, c, d in blocks
    ]


def separator(left: str, right: str) -> str:
    """What is written between two parts of a comparison: a space where the scripts have spaces."""
    return " " if left and not (_is_tight(left[-1]) or _is_tight(right[:1])) else ""


def _is_tight(letter: str) -> bool:
    return letter in FULL_WIDTH or has_unspaced(letter)


def _between(text: str, spans: list[tuple[int, int]]) -> str:
    return text[spans[0][0] : spans[-1][1]] if spans else ""
