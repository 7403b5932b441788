"""Words that a tool has cut apart -> a sentence as people write it."""

from collections.abc import Sequence
from typing import NamedTuple

CLOSING = frozenset(".,;:!?%)]}…")
"""Marks that stand close behind a word. Quotation marks are not among them: many can be either."""
OPENING = frozenset("([{¿¡")
"""Marks that stand close before a word."""


class Glued(NamedTuple):
    """A sentence, and for each of its characters the word that it belongs to; None: a space."""

    text: str
    word_at: tuple[int | None, ...]


def glue(words: Sequence[str]) -> Glued:
    """The sentence that `words` were cut from, as well as one can tell.

    Marks move to their words, and so does what begins with an apostrophe: `it 's (` `here ) .`
    becomes `it's (here).`
    """
    text = ""
    word_at: list[int | None] = []
    for number, word in enumerate(words):
        close = word in CLOSING or word.startswith(("'", "’")) or words[number - 1] in OPENING
        if number and not close:
            text += " "
            word_at.append(None)
        text += word
        word_at += [number] * len(word)
    return Glued(text, tuple(word_at))
