"""The cleaned pairs of a run as text: two files for each split, and their description."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple, Self

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeInt,
    PlainSerializer,
    PositiveInt,
    model_validator,
)

from regard.atomic_io import atomic_file, plain_lines
from regard.corpora.cleaning.pair_filters import CleaningReport, Reason
from regard.corpora.corpus import Pair, SplitName
from regard.errors import RunError
from regard.json_files import load_json
from regard.manifest import check_file
from regard.settings import SettingChoice, Settings

PREPARED_FILE = "prepared.json"  # in the data folder: describes what was read, written after it
SPLITS: tuple[SplitName, ...] = ("train", "valid", "test")


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


class _SavedReport(Settings):
    """The form of a saved `CleaningReport`."""

    total: NonNegativeInt
    kept: NonNegativeInt
    dropped: dict[Reason, NonNegativeInt]
    examples: dict[Reason, list[Pair]]


def _load_report(report: object) -> CleaningReport:
    if isinstance(report, CleaningReport):
        return report
    return CleaningReport.from_json(_SavedReport.model_validate(report).model_dump())


class PreparedData(Settings):
    """The cleaned splits of a run, as `prepared.json` describes them."""

    mark: str
    """Fingerprint of the corpus settings and of the files that they name."""
    languages: tuple[str, str]
    pairs: dict[SplitName, NonNegativeInt]
    """How many pairs each split has."""
    digest: str
    """SHA-256 of the texts of all splits."""
    origin: str
    report: Annotated[
        CleaningReport, BeforeValidator(_load_report), PlainSerializer(CleaningReport.to_json)
    ]
    choices: tuple[SettingChoice, ...] = ()
    """Values chosen for cleaning settings that were `auto`."""
    copies: PositiveInt = 1
    """How often each training pair of the corpus is repeated beside the pairs that are mixed in."""
    folder: Path = Field(default=Path(), exclude=True, validate_default=False)
    """The folder with the files of the splits."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if missing := [name for name in SPLITS if name not in self.pairs]:
            raise ValueError(f"it lacks the number of pairs of {', '.join(missing)}")
        return self

    def held_out(self) -> SplitName:
        """The split to score on: test, or valid where there is no test."""
        return "test" if self.pairs["test"] else "valid"

    def gold(self, split: SplitName) -> Path:
        """The file of a split's gold alignments, which need not exist."""
        return self.folder / f"{split}.gold.txt"

    def read(self, split: SplitName) -> Iterator[Pair]:
        """The pairs of a split."""
        return read_pairs(PairFiles.of(self.folder, split))

    def read_by_default(self, split: SplitName, tell: Callable[[str], None]) -> Iterator[Pair]:
        """The same, with a note that no other pairs were given."""
        tell(f"no --source given: the {split} split of the run, {self.pairs[split]:,} pairs")
        return self.read(split)


def load_prepared(folder: Path) -> PreparedData:
    """The data that `prepare_data` wrote into a folder."""
    data = load_json(folder / PREPARED_FILE, PreparedData, advice="train again in another folder")
    return data.model_copy(update={"folder": folder})
