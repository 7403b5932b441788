"""Text -> the words that two sides are compared by, in any language."""

import re

_UNSPACED = "\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"\d+|[{_UNSPACED}]|[^\W\d_{_UNSPACED}]+")


def compared_words(text: str) -> list[str]:
    """Words and numbers in small letters; single characters where a script has no spaces."""
    return _WORD.findall(text.casefold())
