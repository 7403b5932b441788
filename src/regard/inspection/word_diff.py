"""The words in which two translations differ."""

from difflib import SequenceMatcher
from typing import NamedTuple

from regard.text.word_units import FULL_WIDTH_MARKS, has_unspaced, unit_spans


class DiffSpan(NamedTuple):
    """A span of two texts: the same words in both, or different ones; one side may be empty."""

    before: str
    after: str

    @property
    def same(self) -> bool:
        return self.before == self.after


def diff_words(before: str, after: str) -> list[DiffSpan]:
    """Both texts as spans that agree and spans that differ, in order, word by word."""
    texts = [" ".join(text.split()) for text in (before, after)]
    spans = [unit_spans(text) for text in texts]
    words = [
        [text[slice(*span)] for span in text_spans]
        for text, text_spans in zip(texts, spans, strict=True)
    ]
    return [
        DiffSpan(_text_of(texts[0], spans[0][a:b]), _text_of(texts[1], spans[1][c:d]))
        for _, a, b, c, d in SequenceMatcher(None, words[0], words[1], autojunk=False).get_opcodes()
    ]


def separator(left: str, right: str) -> str:
    """The separator of two spans: a space, unless one is in a script without spaces."""
    return " " if left and not (_is_unspaced(left[-1]) or _is_unspaced(right[:1])) else ""


def _is_unspaced(character: str) -> bool:
    return character in FULL_WIDTH_MARKS or has_unspaced(character)


def _text_of(text: str, spans: list[tuple[int, int]]) -> str:
    return text[spans[0][0] : spans[-1][1]] if spans else ""
