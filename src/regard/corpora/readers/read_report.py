"""What readers skipped or assumed, collected for the user."""

from collections import Counter


class ReadReport:
    """Counts for each file; reading a file again resets them."""

    def __init__(self) -> None:
        self._skipped: Counter[tuple[str, str]] = Counter()  # by file and kind
        self._first: dict[tuple[str, str], str] = {}
        self._notes: dict[str, list[str]] = {}

    def start_file(self, file: str) -> None:
        """Reset what an earlier reading of `file` found."""
        self._notes[file] = []
        for key in [key for key in self._skipped if key[0] == file]:
            del self._skipped[key], self._first[key]

    def skip(self, file: str, kind: str, place: str) -> None:
        """Count something that was skipped at `place`."""
        self._skipped[file, kind] += 1
        self._first.setdefault((file, kind), place)

    def add_note(self, file: str, text: str) -> None:
        """Add a remark about `file`."""
        self._notes.setdefault(file, []).append(f"{file}: {text}")

    def messages(self) -> list[str]:
        """All remarks, without full stops."""
        skipped = [
            f"{file}: skipped {count:,} {kind}, the first at {self._first[file, kind]}"
            for (file, kind), count in self._skipped.items()
        ]
        return [note for notes in self._notes.values() for note in notes] + skipped
