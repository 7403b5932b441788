"""The cleaned pairs of a run as text: two files, of sources and of targets."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from regard.atomic_io import atomic_file, plain_lines
from regard.corpora.corpus import Pair
from regard.errors import RunError
from regard.manifest import check_file


class PairFiles(NamedTuple):
    """The two files of a split, or of pairs that are still being cleaned, split and mixed."""

    source: Path
    target: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> "PairFiles":
        """The files called `name` in the data folder of a run."""
        return cls(folder / f"{name}.source.txt", folder / f"{name}.target.txt")


def read_pairs(files: PairFiles) -> Iterator[Pair]:
    """The pairs in the two files of a split."""
    for file in files:
        check_file(file)
    try:
        for source, target in zip(*map(plain_lines, files), strict=True):
            yield Pair(source.decode()[:-1], target.decode()[:-1])
    except (OSError, ValueError):
        raise RunError(
            f"{files.source} and {files.target.name}: gone, or no longer as they were written; "
            "train again in another folder"
        ) from None


def write_pairs(
    files: PairFiles, pairs: Iterable[Pair], digest: "hashlib._Hash | None" = None
) -> int:
    """Write stripped pairs to two files, update `digest` with them and return their number."""
    count = 0
    with atomic_file(files.source) as sources, atomic_file(files.target) as targets:
        for pair in pairs:
            count += 1
            lines = [f"{side.strip()}\n".encode() for side in pair]
            sources.write(lines[0])
            targets.write(lines[1])
            if digest is not None:
                digest.update(lines[0] + lines[1])
    return count
