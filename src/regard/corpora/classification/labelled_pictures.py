"""Pictures with labels: corpora known by name, and the user's own folders."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, Self, get_args

from pydantic import Field, model_validator

from regard.corpora.classification.labels import with_held_out
from regard.corpora.classification.picture_archives import PICTURE_ARCHIVES, PictureArrays
from regard.corpora.corpus import ReadReport, SplitName
from regard.corpora.splits import check_shares
from regard.errors import CorpusError, PictureError
from regard.images.picture_files import ENDINGS, Picture, read_picture, read_size
from regard.manifest import sha256_of_file
from regard.settings import Settings, counted

PictureCorpusName = Literal["mnist", "cifar10"]
VALID_SHARE = 0.1  # of the training pictures in the user's own folders
KNOWN_VALID_SHARE = 0.02  # of a corpus by name: 1,000 of 50,000 measure whole percents


class LabelledPicture(NamedTuple):
    """A picture, read when it is needed, and its class."""

    name: str
    label: str
    mark: str  # changes when the picture does
    read: Callable[[], Picture]
    file: Path | None = None  # None: it is in an archive
    digest: str = ""  # of the file's bytes, once they have been read


class LabelledPictureSettings(Settings):
    """Pictures with labels: a corpus known by `name`, or your own folders.

    A folder has a subfolder for each class, named after its label; its pictures may lie in further
    subfolders. Pictures may be JPEG, PNG, WebP, GIF, BMP, TIFF, PPM or AVIF, of any size.
    """

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

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.imported:
            if self != type(self).model_construct(imported=True):
                raise ValueError(
                    "imported: true says that there are no pictures; leave the rest out"
                )
            return self
        if (self.name is None) == (self.train is None):
            raise ValueError(
                "give either train, a folder of your own, or name, one of "
                f"{', '.join(get_args(PictureCorpusName))}"
            )
        own = ("valid", "test", "test_share", "skip_bad")
        if self.name is not None and (unused := [one for one in own if getattr(self, one)]):
            raise ValueError(f"{', '.join(unused)} would have no effect on {self.name}")
        check_shares(self, self.shares.values())
        return self

    @property
    def corpus_label(self) -> str:
        """What messages call the corpus."""
        return self.files_label("train")

    def files_label(self, split: SplitName) -> str:
        """What messages call the folder that a split is from."""
        return self.name or getattr(self, split) or self.train or "no corpus"

    def absolute_folders(self) -> dict[SplitName, str]:
        """The user's own folders as absolute paths."""
        splits: tuple[SplitName, ...] = ("train", "valid", "test")
        given = {split: getattr(self, split) for split in splits}
        return {split: str(Path(folder).resolve()) for split, folder in given.items() if folder}

    @property
    def shares(self) -> dict[SplitName, float]:
        """The shares of the training pictures that are held out."""
        default = VALID_SHARE if self.name is None else KNOWN_VALID_SHARE
        valid = 0.0 if self.valid else self.valid_share or default
        return {"valid": valid, "test": 0.0 if self.test else self.test_share or 0.0}


PictureSplits = dict[SplitName, list[LabelledPicture]]


def read_labelled_pictures(
    settings: LabelledPictureSettings, report: ReadReport, *, check_pictures: bool = False
) -> PictureSplits:
    """The pictures of each split: always `train` and `valid`, `test` where there is one.

    With `check_pictures`, `report` notes if sizes differ; with `skip_bad` as well, all pictures are
    read, and those that cannot be decoded are left out and counted. Without it, none of the
    user's own files is read, and nothing is held out: a split that has no folder is missing.
    """
    splits: PictureSplits = {}
    if settings.name is not None:
        for split, arrays in PICTURE_ARCHIVES[settings.name].read().items():
            splits[split] = _from_arrays(f"{settings.name} {split}", arrays)
        return _with_held_out(splits, settings)
    folders: Mapping[SplitName, str | None] = {
        "train": settings.train,
        "valid": settings.valid,
        "test": settings.test,
    }
    for split, folder in folders.items():
        if folder is not None:
            splits[split] = read_class_folders(Path(folder), report)
    if not check_pictures:
        return splits
    for split, pictures in splits.items():
        folder = settings.files_label(split)
        _note_sizes(Path(folder), pictures, report)
        if settings.skip_bad:
            pictures = [one for one in pictures if _is_readable(one, folder, report)]
        splits[split] = [one._replace(digest=file_digest(one)) for one in pictures]
    found = _with_held_out(splits, settings)
    for split in ("valid", "test"):
        _note_leaks(split, found, settings, report)
    return found


def file_digest(picture: LabelledPicture) -> str:
    """The SHA-256 of a picture's file; empty for a picture in an archive."""
    if picture.digest or picture.file is None:
        return picture.digest
    try:
        return sha256_of_file(picture.file)
    except OSError as error:
        raise PictureError(f"{picture.file}: cannot be read: {error.strerror or error}") from None


def _note_leaks(
    split: SplitName, splits: PictureSplits, settings: LabelledPictureSettings, report: ReadReport
) -> None:
    """A note if held-out pictures are among the training pictures, byte for byte."""
    seen, held_out = {one.digest for one in splits["train"]}, splits.get(split, [])
    if shared := sum(one.digest in seen for one in held_out):
        told = f"also in train: {shared:,} of the {len(held_out):,} pictures of {split}"
        report.add_note(settings.corpus_label, told)


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


def _is_readable(picture: LabelledPicture, folder: str, report: ReadReport) -> bool:
    try:
        picture.read()
    except PictureError as error:
        report.skip(folder, "pictures that cannot be read", str(error))
        return False
    return True


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
