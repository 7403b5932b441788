"""Words that a tool has cut apart -> a sentence as people write it."""

from collections.abc import Sequence
from typing import NamedTuple

from regard.text.word_units import has_unspaced

CLOSING_MARKS = frozenset(".,;:!?%)]}…")
"""Marks that stand close behind a word. Quotation marks are not among them: many can be either."""
OPENING_MARKS = frozenset("([{¿¡")
"""Marks that stand close before a word."""
FULL_WIDTH_MARKS = frozenset("。、，．：；！？（）［］｛｝「」『』【】《》〈〉・")
"""Marks that no space stands beside."""


class Detokenized(NamedTuple):
    """A sentence, and for each of its characters the word that it belongs to; None: a space."""

    text: str
    word_at: tuple[int | None, ...]


def detokenize(words: Sequence[str]) -> Detokenized:
    """The sentence that `words` were cut from, as well as one can tell.

    Marks move to their words, and so does what begins with an apostrophe: `it 's (` `here ) .`
    becomes `it's (here).` Between letters of a script without spaces there is none.
    """
    text = ""
    word_at: list[int | None] = []
    for number, word in enumerate(words):
        last = words[number - 1]
        close = word in CLOSING_MARKS or word.startswith(("'", "’")) or last in OPENING_MARKS
        close = close or word in FULL_WIDTH_MARKS or last in FULL_WIDTH_MARKS
        close = close or (has_unspaced(word[0]) and has_unspaced(last[-1]))
        if number and not close:
            text += " "
            word_at.append(None)
        text += word
        word_at += [number] * len(word)
    return Detokenized(text, tuple(word_at))
