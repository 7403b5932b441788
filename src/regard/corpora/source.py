"""Where the rows of a run come from: a known corpus or files, what of them is held out, and what is
skipped because it cannot be read.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

from pydantic import model_validator

from regard.corpora.corpus import ReadReport, SplitName
from regard.corpora.readers.pair_files import STDIN
from regard.errors import BadLineError, CorpusError, PictureError, SettingsError
from regard.settings import Settings

if TYPE_CHECKING:
    from regard.images.picture_files import Picture

SPLITS: tuple[SplitName, ...] = ("train", "valid", "test")
VALID_SHARE = 0.1  # of the training rows in files of the user's own

KeyT = TypeVar("KeyT")
RowT = TypeVar("RowT")
PictureT = TypeVar("PictureT", bound="CorpusPicture")
FilesOptions = Mapping[str, Any]
"""The files of `--data`, `--valid` and `--test` by split, in the form of `CorpusSettings`; perhaps
`languages`."""


class KnownCorpus(NamedTuple):
    """A corpus that is known by name."""

    about: str
    find: Callable[[], Path | None] | None  # its place on this machine; None: it is generated
    options: tuple[str, ...] = ()  # the settings that few others have


class Sample(NamedTuple):
    """Rows of a corpus, and where they are from."""

    rows: Iterable[Mapping[str, str]]
    origin: str


class SourceSettings(Settings):
    """What the settings of all corpora share: rows are from a known corpus or from files, and some
    are held out. A subclass has its fields in the order in which recipes are written.
    """

    what: ClassVar[str] = "has pairs"
    """What messages say of a known corpus."""
    rank: ClassVar[int] = 0
    """The position of the known corpora in the list of all."""
    own: ClassVar[str] = "train, files of your own"
    """The setting of files, and what it names."""
    only_own: ClassVar[frozenset[str]] = frozenset({"valid", "test"})
    """The settings of files, without effect on known corpora."""
    kept: ClassVar[tuple[str, ...]] = ("valid_share", "test_share")
    """The settings of a recipe that stay when files on the command line replace its corpus."""
    kept_imported: ClassVar[tuple[str, ...]] = ()
    """The settings that describe an imported model too."""
    several: ClassVar[bool] = False
    """Whether a split may have several files, which are read more than once."""
    skips: ClassVar[bool] = False
    """Whether bad rows of files can be skipped."""

    name: str | None = None
    """A known corpus."""
    if TYPE_CHECKING:  # those of each subclass
        train: Any = None
        valid: Any = None
        test: Any = None

    @classmethod
    def known(cls) -> Mapping[str, KnownCorpus]:
        """The known corpora."""
        raise NotImplementedError

    def sample(self, split: SplitName) -> Sample:
        """The rows of a split of a known corpus, as they are shown."""
        raise NotImplementedError

    def files(self) -> dict[SplitName, tuple[str, ...]]:
        """The user's own files of each split that has some."""
        named = {split: getattr(self, split) for split in SPLITS}
        return {
            split: (names,) if isinstance(names, str) else names
            for split, names in named.items()
            if names
        }

    def files_label(self, split: SplitName) -> str:
        """What messages call the files that a split is from."""
        files = self.files()
        return self.name or ", ".join(files.get(split) or files.get("train", ())) or "no corpus"

    @property
    def corpus_label(self) -> str:
        """What messages call the corpus."""
        return self.files_label("train")

    @property
    def shares(self) -> dict[SplitName, float]:
        """The shares of the training rows that are held out for the splits without files."""
        valid = 0.0 if self.valid else getattr(self, "valid_share", None) or self.usual_share()
        test = 0.0 if self.test else getattr(self, "test_share", None) or 0.0
        return {"valid": valid, "test": test}

    def usual_share(self) -> float:
        """The share that is held out for validation unless `valid_share` says otherwise."""
        return VALID_SHARE

    @model_validator(mode="after")
    def _check_origin(self) -> Self:
        if getattr(self, "imported", False):
            kept = {name: getattr(self, name) for name in self.kept_imported}
            if self != type(self).model_construct(imported=True, **kept):
                raise ValueError("imported: true says that there are no data; leave the rest out")
            return self
        known, files = self.known(), self.files()
        if (self.name is None) == (not files.get("train")):
            raise ValueError(f"give either {self.own}, or name, one of {', '.join(known)}")
        if self.name is not None and self.name not in known:
            near = difflib.get_close_matches(self.name, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"no corpus is named {self.name!r}; {hint}known: {', '.join(known)}")
        if unused := self._unused():
            raise ValueError(f"{', '.join(unused)} would have no effect on {self.corpus_label}")
        for split in SPLITS[1:]:
            if split in files and getattr(self, f"{split}_share", None) is not None:
                raise ValueError(f"{split}_share would have no effect beside {split}")
        if "valid_share" in type(self).model_fields and sum(self.shares.values()) >= 1:
            raise ValueError("valid_share and test_share leave nothing to train on")
        if self.several and any(STDIN in names for names in files.values()):
            raise ValueError("the standard input (-) can be read only once: save it to a file")
        return self

    def _unused(self) -> list[str]:
        """The settings that were given but would have no effect."""
        known, fields = self.known(), type(self).model_fields
        special = {*self.only_own}.union(*(corpus.options for corpus in known.values()))
        special -= {*known[self.name].options} if self.name is not None else self.only_own
        given = (name for name in fields if name in special and getattr(self, name))
        return [name for name in given if getattr(self, name) != fields[name].default]

    @classmethod
    def of_files(cls, own: Mapping[str, Any], files: FilesOptions) -> dict[str, Any]:
        """The group `corpus` of a recipe for files of the command line, which replaces its `own`.

        Raises a `SettingsError` that names an option for which there is no use.
        """
        named, bad = cls._names_of(files), "skip_bad" in _entries(files["train"])[0]
        kept = {key: own[key] for key in cls.kept if key in own}
        for split in named:
            kept.pop(f"{split}_share", None)
        return {
            **kept,
            **{split: names if cls.several else names[0] for split, names in named.items()},
            **({"skip_bad": True} if bad else {}),
        }

    @classmethod
    def _names_of(cls, files: FilesOptions) -> dict[str, list[str]]:
        """The names of files by split; those that are not given are missing."""
        if "languages" in files:
            raise SettingsError("--languages is for pairs of texts: drop it")
        named = {split: _entries(files[split]) for split in SPLITS if split in files}
        if len(named) > 1 and "valid" not in cls.model_fields:
            raise SettingsError("--valid and --test: the task splits these off --data: drop them")
        for entry in (entry for entries in named.values() for entry in entries):
            _check_entry(entry, skip_bad=cls.skips)
        if not cls.several and (most := max(map(len, named.values()))) > 1:
            raise SettingsError(f"--data is given {most} times: the task reads one file")
        return {split: [entry["data"] for entry in entries] for split, entries in named.items()}


def _entries(given: Any) -> Sequence[Mapping[str, Any]]:
    return given if isinstance(given, list) else [given]


def _check_entry(entry: Mapping[str, Any], *, skip_bad: bool) -> None:
    if "data" not in entry:
        raise SettingsError(
            "source and target files are for pairs of texts; give --data FILE, and for --valid and "
            "--test one file each"
        )
    if "weight" in entry:
        raise SettingsError(
            f"--data {entry['data']}={entry['weight']:g}: weights are for pairs of texts"
        )
    if "skip_bad" in entry and not skip_bad:
        raise SettingsError("--skip-bad: the task reads whole files and skips nothing; drop it")


def rows_by_key(
    splits: Mapping[SplitName, Sequence[RowT]], last: SplitName, key: Callable[[RowT], KeyT]
) -> dict[KeyT, RowT]:
    """The rows of all splits; if several have one key, that of the split `last`."""
    order = sorted(splits, key=lambda split: split == last)
    return {key(row): row for split in order for row in splits[split]}


class RawRow(NamedTuple):
    """A row of a file that may be bad."""

    line: int
    make: Callable[[], Any]  # raises a `ValueError` that says what is wrong


def good_rows(
    file: str,
    rows: Iterable[RawRow],
    report: ReadReport,
    *,
    skip_bad: bool,
    bad: Callable[[ValueError], str],
    empty: str,
) -> Iterator[Any]:
    """The rows of a file. One that cannot be made is an error, or is counted in `report` as of the
    kind `bad` if `skip_bad`. If there are none, the error ends with `empty`.
    """
    num_rows = 0
    report.start_file(file)
    for line, make in rows:
        try:
            row = make()
        except ValueError as error:
            if not skip_bad:
                raise BadLineError(f"{file}: line {line}: {error}") from None
            report.skip(file, bad(error), f"line {line:,}")
            continue
        num_rows += 1
        yield row
    if not num_rows:
        raise CorpusError(f"{file}: holds no {empty}")


class CorpusPicture(Protocol):
    """A picture of a corpus, read when it is needed."""

    @property
    def name(self) -> str: ...

    @property
    def mark(self) -> str:
        """A string that changes when the picture does."""
        ...

    @property
    def read(self) -> "Callable[[], Picture]": ...


def readable(pictures: Iterable[PictureT], file: str, report: ReadReport) -> Iterator[PictureT]:
    """The pictures that can be decoded; others are counted in `report`."""
    for picture in pictures:
        try:
            picture.read()
        except PictureError as error:
            report.skip(file, "pictures that cannot be read", str(error))
        else:
            yield picture


class KeyedRow(Protocol):
    """A row that is equal to those with the same key."""

    @property
    def key(self) -> str: ...


def leak_notes(
    splits: Mapping[SplitName, Sequence[KeyedRow]], corpus: str, nouns: str
) -> list[str]:
    """Notes on how many held-out rows are also training rows."""
    seen = {row.key for row in splits["train"]}
    shared = {split: sum(row.key in seen for row in rows) for split, rows in splits.items()}
    return [
        f"{corpus}: also in train: {count:,} of the {len(splits[split]):,} {nouns} of {split}"
        for split, count in shared.items()
        if split != "train" and count
    ]
