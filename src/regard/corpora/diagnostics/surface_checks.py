"""What shows on the surface of a text: that it was tokenised, lowercased, escaped or garbled."""

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

SurfaceCheck = Callable[[str], bool | None]
"""Whether a line shows something; None where it could not, and so is not to be counted."""

_STOP = re.compile(r"[^\W\d_]( ?)[.,](?: |$)")
_ESCAPE = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{2,6}|#x[\da-fA-F]{2,6});")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_ODD_SPACE = re.compile(r"(?<![«\d\s])[\u00a0\u202f\u2007](?![!?:;»%€$£°\d\s]|$)")
_INVISIBLE = re.compile(
    r"[\u00ad\u200b\u2060\ufeff\u200e\u200f\u202a-\u202e\u2066-\u2069]"
    r"|(?<=[A-Za-z\s])[\u200c\u200d]|[\u200c\u200d](?=[A-Za-z\s]|$)"
)
_SUBWORD = re.compile(r"@@(?: |$)|@-@|▁")


def is_tokenised(line: str) -> bool | None:
    """Whether a space stands before a full stop or comma; before ! and ? it may, in French."""
    stop = _STOP.search(line)
    return None if stop is None else bool(stop[1])


def is_lowercase(line: str) -> bool | None:
    """Whether no letter is a capital, where letters come in two cases."""
    lower = line.lower()
    return line == lower if lower != line.upper() else None


def has_escapes(line: str) -> bool:
    """Whether it holds an escape of HTML, such as &apos; or &#39;."""
    return "&" in line and bool(_ESCAPE.search(line))


def has_tags(line: str) -> bool:
    """Whether it holds a tag, such as <b>."""
    return "<" in line and bool(_TAG.search(line))


def has_subwords(line: str) -> bool:
    """Whether its words were cut by a subword tokenizer, which leaves @@ or ▁, or by Moses'."""
    return bool(_SUBWORD.search(line))


def is_mojibake(line: str) -> bool:
    """Whether it is UTF-8 that was once taken for Windows-1252 or Latin-1: Ã© for é.

    Read backwards it then is valid UTF-8, which a line with real accents almost never is.
    """
    if line.isascii():
        return False
    for encoding in ("cp1252", "latin-1"):
        try:
            line.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
        return True
    return False


def has_no_break_spaces(line: str) -> bool:
    """Whether it holds a no-break space where a plain one would do.

    Before ! ? : ; » and behind «, as in French, it is right; and between digits.
    """
    return not line.isascii() and bool(_ODD_SPACE.search(line))


def has_invisible(line: str) -> bool:
    """Whether it holds invisible characters: of no width, soft hyphens, direction marks.

    Joiners are part of the spelling of Persian or Hindi, and of emoji.
    """
    return not line.isascii() and bool(_INVISIBLE.search(line))


def has_curly_apostrophes(line: str) -> bool | None:
    """Whether its apostrophes are the printer's ’ and not the typewriter's '."""
    if "’" in line:
        return True
    return False if "'" in line else None


SURFACE_CHECKS: dict[str, SurfaceCheck] = {
    "tokenised": is_tokenised,
    "lowercase": is_lowercase,
    "escapes": has_escapes,
    "tags": has_tags,
    "subwords": has_subwords,
    "garbled": is_mojibake,
    "odd spaces": has_no_break_spaces,
    "invisible": has_invisible,
    "curly": has_curly_apostrophes,
}
"""Name -> sign."""


class CheckCount(NamedTuple):
    """How many lines could show a sign, and how many do."""

    lines: int
    showing: int

    @property
    def share(self) -> float:
        """From 0 to 1; 0 where no line could."""
        return self.showing / self.lines if self.lines else 0.0


class SurfaceCounter:
    """Counts the signs of a text, line by line."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, bool | None]] = Counter()

    def add(self, line: str) -> None:
        """Take a line; blank ones show nothing."""
        if line and not line.isspace():
            self._answers.update([(name, sign(line)) for name, sign in SURFACE_CHECKS.items()])

    def result(self) -> dict[str, CheckCount]:
        """What was found, for each sign."""
        showing = {name: self._answers[name, True] for name in SURFACE_CHECKS}
        return {
            name: CheckCount(showing[name] + self._answers[name, False], showing[name])
            for name in SURFACE_CHECKS
        }
