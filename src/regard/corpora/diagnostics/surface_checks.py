"""Checks of lines for traces of processing: tokenised, lower-cased, escaped, garbled text."""

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

_STOP = re.compile(r"[^\W\d_]( ?)[.,](?: |$)")


def _is_tokenised(line: str) -> bool | None:
    """Whether a space precedes a full stop or comma; before ! and ? French has one."""
    stop = _STOP.search(line)
    return None if stop is None else bool(stop[1])


def _is_lowercase(line: str) -> bool | None:
    lower = line.lower()
    return line == lower if lower != line.upper() else None


def _is_mojibake(line: str) -> bool:
    """Whether UTF-8 was decoded as Windows-1252 or Latin-1: encoded again it is valid UTF-8."""
    if line.isascii():
        return False
    for encoding in ("cp1252", "latin-1"):
        with suppress(UnicodeError):
            line.encode(encoding).decode("utf-8")
            return True
    return False


def _matches(pattern: str) -> Callable[[str], bool]:
    search = re.compile(pattern).search
    return lambda line: search(line) is not None


SURFACE_CHECKS: dict[str, Callable[[str], bool | None]] = {
    "tokenised": _is_tokenised,
    "lowercase": _is_lowercase,
    "escapes": _matches(r"&(?:[a-zA-Z]{2,8}|#\d{2,6}|#x[\da-fA-F]{2,6});"),
    "tags": _matches(r"</?[a-zA-Z][^<>]*>"),
    "subwords": _matches(r"@@(?: |$)|@-@|▁"),  # of subword-nmt, Moses and SentencePiece
    "garbled": _is_mojibake,
    # no-break spaces, except where French requires them and between digits
    "odd spaces": _matches(r"[\u00a0\u202f\u2007](?<![«\d\s].)(?![!?:;»%€$£°\d\s]|$)"),
    # zero width, soft hyphens, direction marks; joiners (U+200C and D) only where neither Persian,
    # Hindi nor emoji need them
    "invisible": _matches(
        r"[\u00ad\u200b-\u200f\u2060\ufeff\u202a-\u202e\u2066-\u2069]"
        r"(?:(?<![\u200c\u200d])|(?<=[A-Za-z\s].)|(?=[A-Za-z\s]|$))"
    ),
    "curly": lambda line: True if "’" in line else False if "'" in line else None,
}
"""Whether a line shows the trace; None if it cannot tell, so that the line is not counted."""


class CheckCount(NamedTuple):
    """How many lines could show a trace, and how many do."""

    lines: int
    showing: int

    @property
    def share(self) -> float:
        """From 0 to 1; 0 without lines."""
        return self.showing / self.lines if self.lines else 0.0


class SurfaceCounter:
    """Counts the results of all checks over the lines of a text."""

    def __init__(self) -> None:
        self._results: Counter[tuple[str, bool | None]] = Counter()

    def add(self, line: str) -> None:
        """Check a line; blank ones are not counted."""
        if line and not line.isspace():
            self._results.update([(name, check(line)) for name, check in SURFACE_CHECKS.items()])

    def result(self) -> dict[str, CheckCount]:
        results = self._results
        both = {name: (results[name, True], results[name, False]) for name in SURFACE_CHECKS}
        return {name: CheckCount(sum(counts), counts[0]) for name, counts in both.items()}
