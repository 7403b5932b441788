"""The examples that a run has read, as JSON lines in its data folder: one file for each split."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from regard.atomic_io import plain_lines, write_atomic
from regard.corpora.corpus import SplitName
from regard.errors import RunError
from regard.json_files import dump_json, parse_json
from regard.manifest import check_file


class SplitFiles:
    """`data/SPLIT.jsonl` of a run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "data"

    def path(self, split: SplitName) -> Path:
        """The file of a split, whether or not there is one."""
        return self._folder / f"{split}.jsonl"

    def exists(self, split: SplitName) -> bool:
        return self.path(split).exists()

    def write(self, split: SplitName, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write the examples of a split, one JSON object each."""
        content = "".join(f"{dump_json(row)}\n" for row in rows)
        write_atomic(self.path(split), content.encode())

    def read(self, split: SplitName, *keys: str, optional: str = "") -> list[tuple[Any, ...]]:
        """The values of `keys` for each example, in the order in which they were written. The value
        of the key `optional`, if given, comes last, and is "" where an example lacks it.
        """
        path = self.path(split)
        check_file(path)
        try:
            rows = [parse_json(line) for line in plain_lines(path)]
            if not rows:
                raise ValueError
            last = [(row.get(optional, ""),) if optional else () for row in rows]
            values = (tuple(row[key] for key in keys) for row in rows)
            return [some + more for some, more in zip(values, last, strict=True)]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise RunError(
                f"{path}: gone, or no longer as it was written; train again in another folder"
            ) from None
