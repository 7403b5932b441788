"""Words that a tool has cut apart -> a sentence as people write it."""

from collections.abc import Sequence
from typing import NamedTuple

from regard.text.word_units import has_unspaced

CLOSING = frozenset(".,;:!?%)]}…")
"""Marks that stand close behind a word. Quotation marks are not among them: many can be either."""
OPENING = frozenset("([{¿¡")
"""Marks that stand close before a word."""
FULL_WIDTH = frozenset("。、，．：；！？（）［］｛｝「」『』【】《》〈〉・")
"""Marks that no space stands beside."""


class Glued(NamedTuple):
    """A sentence, and for each of its characters the word that it belongs to; None: a space."""

    text: str
    word_at: tuple[int | None, ...]


def glue(words: Sequence[str]) -> Glued:
    """The sentence that `words` were cut from, as well as one can tell.

    Marks move to their words, and so does what begins with an apostrophe: `it 's (` `here ) .`
    becomes `it's (here).` Between letters of a script without spaces there is none.
    """
    text = ""
    word_at: list[int | None] = []
    for number, word in enumerate(words):
        last = words[number - 1]
        close = word in CLOSING or word.startswith(("'", "’")) or last in OPENING
        close = close or word in FULL_WIDTH or last in FULL_WIDTH
        close = close or (has_unspaced(word[0]) and has_unspaced(last[-1]))
        if number and not close:
            text += " "
            word_at.append(None)
        text += word
        word_at += [number] * len(word)
    return Glued(text, tuple(word_at))
