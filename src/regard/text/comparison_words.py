"""Text -> the words that two sides are compared by, in any language."""

import re

from regard.text.word_units import UNSPACED_LETTERS

_WORD = re.compile(rf"\d+|[{UNSPACED_LETTERS}]|[^\W\d_{UNSPACED_LETTERS}]+")


def compared_words(text: str) -> list[str]:
    """Words and numbers in small letters; single characters where a script has no spaces."""
    return _WORD.findall(text.casefold())
