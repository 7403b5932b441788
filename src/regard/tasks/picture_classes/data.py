"""Pictures with labels: corpora known by name, and the user's own folders."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from regard.corpora.corpus import ReadReport, SplitName
from regard.corpora.download import find_here
from regard.corpora.labels import with_held_out
from regard.corpora.source import KnownCorpus, Sample, SourceSettings, readable
from regard.errors import CorpusError, PictureError
from regard.images.picture_files import ENDINGS, Picture, read_picture, read_size
from regard.manifest import sha256_of_file
from regard.settings import counted
from regard.tasks.picture_classes.archives import PICTURE_ARCHIVES, PictureArrays

PictureCorpusName = Literal["mnist", "cifar10"]
KNOWN_VALID_SHARE = 0.02  # of a corpus by name: 1,000 of 50,000 measure whole percents


class LabelledPicture(NamedTuple):
    """A picture, read when it is needed, and its class."""

    name: str
    label: str
    mark: str  # changes when the picture does
    read: Callable[[], Picture]
    file: Path | None = None  # None: it is in an archive
    digest: str = ""  # of the file's bytes, once they have been read

    @property
    def key(self) -> str:
        """What equal pictures share."""
        return self.digest or self.mark

    def record(self) -> dict[str, str]:
        """The picture in the files of a run."""
        row = {"picture": self.name, "label": self.label}
        return {**row, "sha256": self.digest} if self.digest else row


class LabelledPictureSettings(SourceSettings):
    """Pictures with labels: a corpus known by `name`, or your own folders.

    A folder has a subfolder for each class, named after its label; its pictures may lie in further
    subfolders. Pictures may be JPEG, PNG, WebP, GIF, BMP, TIFF, PPM or AVIF, of any size.
    """

    own = "train, a folder of your own"
    skips = True
    what, rank = "has labelled pictures", 5
    only_own = frozenset({"valid", "test", "test_share", "skip_bad"})

    name: PictureCorpusName | None = None
    """A known corpus: read from pictures/ in the folder that $REGARD_DATA names, or downloaded."""
    train: str | None = None
    """Your own folder to train on."""
    valid: str | None = None
    """A folder to validate with; without it, `valid_share` of the training pictures is held out."""
    test: str | None = None
    """A folder to test with; without it, `test_share` is held out."""
    valid_share: float | None = Field(default=None, gt=0, lt=1)
    """Share of the training pictures that is held out for validation, the same share of each label;
    by default 0.1, and 0.02 for a corpus by name."""
    test_share: float | None = Field(default=None, ge=0, lt=1)
    """Share that is held out for testing; by default 0: no test."""
    skip_bad: bool = False
    """Skip and count pictures that cannot be read, instead of stopping at the first."""
    imported: bool = False
    """There are no pictures: the model was imported from another toolkit by `regard import`."""

    @classmethod
    def known(cls) -> Mapping[str, KnownCorpus]:
        return {
            name: KnownCorpus(
                known.about, partial(find_here, known.first.archive, known.first.path)
            )
            for name, known in PICTURE_ARCHIVES.items()
        }

    def sample(self, split: SplitName) -> Sample:
        assert self.name is not None
        pictures = read_labelled_pictures(self, ReadReport())[split]
        rows = ({"picture": picture.name, "label": picture.label} for picture in pictures)
        return Sample(rows, f"{self.name}. {PICTURE_ARCHIVES[self.name].origin}")

    def usual_share(self) -> float:
        return super().usual_share() if self.name is None else KNOWN_VALID_SHARE

    def absolute_folders(self) -> dict[SplitName, str]:
        """The user's own folders as absolute paths."""
        return {split: str(Path(folder).resolve()) for split, (folder,) in self.files().items()}


PictureSplits = dict[SplitName, list[LabelledPicture]]


def read_labelled_pictures(
    settings: LabelledPictureSettings, report: ReadReport, *, check_pictures: bool = False
) -> PictureSplits:
    """The pictures of each split: always `train` and `valid`, `test` where there is one.

    With `check_pictures`, `report` notes if sizes differ; with `skip_bad` as well, all pictures are
    read, and those that cannot be decoded are left out and counted. Without it, none of the
    user's own files is read, and nothing is held out: a split that has no folder is missing.
    """
    if settings.name is not None:
        archives = PICTURE_ARCHIVES[settings.name].read()
        splits = {
            split: _from_arrays(f"{settings.name} {split}", arrays)
            for split, arrays in archives.items()
        }
        return _with_held_out(splits, settings)
    splits = {
        split: read_class_folders(Path(folder), report)
        for split, (folder,) in settings.files().items()
    }
    if not check_pictures:
        return splits
    for split, pictures in splits.items():
        folder = settings.files_label(split)
        _note_sizes(Path(folder), pictures, report)
        if settings.skip_bad:
            pictures = [*readable(pictures, folder, report)]
        splits[split] = [one._replace(digest=file_digest(one)) for one in pictures]
    return _with_held_out(splits, settings)


def file_digest(picture: LabelledPicture) -> str:
    """The SHA-256 of a picture's file; empty for a picture in an archive."""
    if picture.digest or picture.file is None:
        return picture.digest
    try:
        return sha256_of_file(picture.file)
    except OSError as error:
        raise PictureError(f"{picture.file}: cannot be read: {error.strerror or error}") from None


def _from_arrays(name: str, arrays: PictureArrays) -> list[LabelledPicture]:
    return [
        LabelledPicture(str(number), label, f"{name} {number}", partial(arrays.picture, number))
        for number, label in enumerate(arrays.labels)
    ]


def read_class_folders(folder: Path, report: ReadReport) -> list[LabelledPicture]:
    """The pictures in the subfolders of `folder`, each of which is a class, sorted by name."""
    try:
        inside = sorted(one for one in folder.iterdir() if not one.name.startswith("."))
    except OSError as error:
        raise CorpusError(
            f"{folder}: no folder of pictures: {error.strerror or error} (looked in {Path.cwd()})"
        ) from None
    classes = [one for one in inside if one.is_dir()]
    beside = sum(_is_picture(one) for one in inside)
    if not classes:
        raise CorpusError(
            f"{folder}: has no subfolders, which would be the classes; put the pictures of "
            f"each class into a subfolder with its name, such as {folder / 'cat'}"
        )
    if beside:
        report.add_note(
            str(folder), f"left out, because they are in no class: {counted(beside, 'picture')}"
        )
    found = []
    for one in classes:
        files = sorted(file for file in one.rglob("*") if _is_picture(file))
        if not files:
            raise CorpusError(
                f"{one}: a class without pictures: no file name in it ends in "
                f"{', '.join(ENDINGS)}; add some, or remove the folder"
            )
        found += [_labelled(folder, file, one.name) for file in files]
    return found


def _is_picture(file: Path) -> bool:
    return file.suffix.lower() in ENDINGS and file.is_file()


def _labelled(folder: Path, file: Path, label: str) -> LabelledPicture:
    stat, name = file.stat(), file.relative_to(folder).as_posix()
    mark = f"{name} {stat.st_size} {stat.st_mtime_ns}"
    return LabelledPicture(name, label, mark, partial(read_picture, file), file)


def _note_sizes(folder: Path, pictures: Sequence[LabelledPicture], report: ReadReport) -> None:
    """A note if pictures differ in size."""
    sizes = {size for one in pictures if (size := read_size(folder / one.name)) is not None}
    if len(sizes) > 1:
        low, high = (f"{one[0]} × {one[1]}" for one in (min(sizes), max(sizes)))
        report.add_note(
            str(folder),
            f"pictures of {len(sizes):,} different sizes, from {low} to {high} pixels: the square "
            "in the middle of each is scaled to one size",
        )


def _with_held_out(splits: PictureSplits, settings: LabelledPictureSettings) -> PictureSplits:
    """The splits, with missing ones cut from the training pictures; the user's own pictures that
    are identical byte for byte stay together.
    """
    return with_held_out(
        splits,
        settings.shares,
        lambda one: one.digest or one.name,
        corpus=settings.corpus_label,
        advice="give it a separate folder, or give more pictures",
    )
