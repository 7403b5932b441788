"""What readers skipped or understood by themselves, kept so that a person can be told."""

from collections import Counter
from typing import NamedTuple


class _Skipped(NamedTuple):
    """Why something was skipped, and in which file."""

    file: str
    what: str


class ReadReport:
    """Counts for each file; a file that is read again starts anew."""

    def __init__(self) -> None:
        self._skipped: Counter[_Skipped] = Counter()
        self._first: dict[_Skipped, str] = {}
        self._notes: dict[str, list[str]] = {}

    def start_file(self, file: str) -> None:
        """Forget what an earlier reading of `file` found."""
        self._notes[file] = []
        for known in [one for one in self._skipped if one.file == file]:
            del self._skipped[known], self._first[known]

    def skip(self, file: str, what: str, where: str) -> None:
        """Count something that was skipped; `where` it first was is told."""
        one = _Skipped(file, what)
        self._skipped[one] += 1
        self._first.setdefault(one, where)

    def add_note(self, file: str, text: str) -> None:
        """Keep a remark about `file`."""
        self._notes.setdefault(file, []).append(f"{file}: {text}")

    def sentences(self) -> list[str]:
        """All remarks, without a full stop at their ends."""
        said = [text for texts in self._notes.values() for text in texts]
        return said + [
            f"{one.file}: skipped {count:,} {one.what}, the first at {self._first[one]}"
            for one, count in self._skipped.items()
        ]
