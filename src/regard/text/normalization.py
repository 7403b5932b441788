"""Text made uniform, before it teaches a vocabulary and before it is cut into pieces."""

import re
import unicodedata
from typing import Literal

from regard.errors import TextError

Form = Literal["none", "nfc", "nfkc"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def normalize(text: str, form: Form, *, lowercase: bool) -> str:
    """`text` in a Unicode form and, if asked, in small letters; doing it twice changes nothing."""
    if found := _SURROGATE.search(text):
        raise TextError(
            f"the text holds half a surrogate pair, {found.group()!r}, as character "
            f"{found.start() + 1} of {len(text)}, which UTF-8 cannot spell; "
            "read its file as UTF-8 or repair the text"
        )
    if lowercase:
        # Both sides of lower(): NFKC turns ℌ into a capital, and lower() may undo a composition.
        text = _compose(text, form).lower()
    return _compose(text, form)


def _compose(text: str, form: Form) -> str:
    if form == "none":
        return text
    return unicodedata.normalize("NFC" if form == "nfc" else "NFKC", text)
