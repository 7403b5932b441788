"""Which words of a translation differ from those of another."""

from difflib import SequenceMatcher
from typing import NamedTuple

from regard.text.detokenizer import FULL_WIDTH_MARKS
from regard.text.word_units import has_unspaced, unit_spans


class DiffSpan(NamedTuple):
    """Where two texts agree, both hold the same words; where they differ, each its own or none."""

    before: str
    after: str

    @property
    def same(self) -> bool:
        return self.before == self.after


def diff_words(before: str, after: str) -> list[DiffSpan]:
    """Both texts, in order, in stretches that agree and stretches that differ, word by word."""
    before, after = (" ".join(text.split()) for text in (before, after))
    before_spans, after_spans = unit_spans(before), unit_spans(after)
    words = (
        [before[slice(*span)] for span in before_spans],
        [after[slice(*span)] for span in after_spans],
    )
    opcodes = SequenceMatcher(None, *words, autojunk=False).get_opcodes()
    return [
        DiffSpan(_text_of_spans(before, before_spans[a:b]), _text_of_spans(after, after_spans[c:d]))
        for _, a, b, c, d in opcodes
    ]


def separator(left: str, right: str) -> str:
    """What is written between two parts of a comparison: a space where the scripts have spaces."""
    return " " if left and not (_is_unspaced(left[-1]) or _is_unspaced(right[:1])) else ""


def _is_unspaced(character: str) -> bool:
    return character in FULL_WIDTH_MARKS or has_unspaced(character)


def _text_of_spans(text: str, spans: list[tuple[int, int]]) -> str:
    return text[spans[0][0] : spans[-1][1]] if spans else ""
