"""The user's own pictures: a folder of them and a file of their captions."""

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import model_validator

from regard.corpora.corpus import ReadReport
from regard.corpora.readers.pair_files import STDIN, name_ending, read_or_skip_lines
from regard.corpora.source import RawRow, good_rows, readable
from regard.errors import CorpusError
from regard.images.picture_files import ENDINGS, read_picture
from regard.settings import Settings, abbreviate
from regard.tasks.captions.corpus import CaptionedPicture

PICTURE_KEYS = ("picture", "image", "file_name", "file")  # of a JSON object
CAPTION_KEYS = ("captions", "caption", "text")


class CaptionFilesSettings(Settings):
    """Your own pictures with their captions."""

    pictures: str | None = None
    """The folder that contains the pictures; by default, the folder of `captions`."""
    captions: str
    """A file of captions. A line of a .tsv is the name of a picture, a tab and a caption; a picture
    may be on several lines. A line of a .jsonl is an object with `picture` and `caption`, or a list
    `captions`. A number after the name, as in `photo.jpg#0`, is dropped."""
    skip_bad: bool = False
    """Skip and count lines that cannot be read, and pictures that are missing or cannot be read,
    instead of stopping at the first."""

    @property
    def folder(self) -> Path:
        """The folder of the pictures."""
        return Path(self.captions).parent if self.pictures is None else Path(self.pictures)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.captions == STDIN:
            raise ValueError("captions are read more than once: save the standard input to a file")
        return self


class CaptionLine(NamedTuple):
    """A picture's name and some of its captions."""

    name: str
    captions: tuple[str, ...]


def read_caption_files(
    settings: CaptionFilesSettings,
    report: ReadReport | None = None,
    *,
    check_pictures: bool = False,
) -> list[CaptionedPicture]:
    """The pictures that the captions name, in the order of the captions.

    With `skip_bad`, bad lines and pictures are counted in `report`. Pictures that cannot be decoded
    are left out only with `check_pictures`, which reads all of them.
    """
    report, file = report or ReadReport(), settings.captions
    captions: dict[str, list[str]] = {}
    for line in read_captions(file, report, skip_bad=settings.skip_bad):
        captions.setdefault(line.name, []).extend(line.captions)
    folder = settings.folder
    if not folder.is_dir():
        raise CorpusError(f"{folder}: no folder of pictures (looked in {Path.cwd()})")
    found = {name: find_file(folder, name) for name in captions}
    missing = [name for name, path in found.items() if path is None]
    if missing and not settings.skip_bad:
        raise CorpusError(
            f"{folder}: {len(missing):,} of the {len(found):,} pictures that {file} names are "
            f"missing, the first is {missing[0]!r}; --skip-bad leaves them out"
        )
    for name in missing:
        report.skip(file, "missing pictures", name)
    there = ((name, path) for name, path in found.items() if path is not None)
    pictures = [_captioned(name, tuple(captions[name]), path) for name, path in there]
    if settings.skip_bad and check_pictures:
        pictures = [*readable(pictures, file, report)]
    if not pictures:
        raise CorpusError(f"{file}: none of its pictures can be read, in {folder}")
    return pictures


def _captioned(name: str, captions: tuple[str, ...], path: Path) -> CaptionedPicture:
    stat = path.stat()
    mark = f"{name} {stat.st_size} {stat.st_mtime_ns}"
    return CaptionedPicture(name, captions, mark, partial(read_picture, path))


def find_file(folder: Path, name: str) -> Path | None:
    """The picture called `name`, or the same name with another picture extension."""
    path = folder / name
    if os.path.isabs(name) or ".." in Path(name).parts:
        raise CorpusError(f"{name}: a picture must lie inside {folder}")
    if path.is_file():
        return path
    others = (path.with_suffix(ending) for ending in ENDINGS if Path(name).name)
    return next((other for other in others if other.is_file()), None)


def read_captions(
    path: str, report: ReadReport, *, skip_bad: bool = False
) -> Iterator[CaptionLine]:
    """The captions of a file, line by line; lines that cannot be read are an error, or are counted
    in `report` with `skip_bad`.
    """
    parse = _parse_json if name_ending(path) in ("jsonl", "json") else _parse_tsv
    lines = read_or_skip_lines(path, report, skip_bad=skip_bad, limit="examples")
    rows = (
        RawRow(number, partial(parse, line))
        for number, line in enumerate(lines, 1)
        if line is not None and line.strip()
    )
    bad = "lines without a picture and its caption"
    return good_rows(path, rows, report, skip_bad=skip_bad, bad=lambda _: bad, empty="captions")


def _parse_tsv(line: str) -> CaptionLine:
    name, tab, caption = line.partition("\t")
    if not tab or not name.strip() or not caption.strip():
        raise ValueError(f"expected a name, a tab and a caption, got {abbreviate(line)!r}")
    return CaptionLine(_without_number(name.strip()), (caption.strip(),))


def _parse_json(line: str) -> CaptionLine:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {abbreviate(str(error))}") from None
    if not isinstance(given, dict):
        raise ValueError("expected a JSON object with `picture` and `caption`")
    name = next((given[key] for key in PICTURE_KEYS if key in given), None)
    said = next((given[key] for key in CAPTION_KEYS if key in given), None)
    captions = [said] if isinstance(said, str) else said
    if not isinstance(name, str) or not isinstance(captions, list) or not captions:
        raise ValueError(
            "expected a JSON object with `picture` and `caption`, or a list `captions`"
        )
    if not all(isinstance(one, str) and one.strip() for one in captions):
        raise ValueError("a caption is empty or not a text")
    return CaptionLine(_without_number(name), tuple(one.strip() for one in captions))


def _without_number(name: str) -> str:
    """`photo.jpg#0`, as Flickr8k numbers captions, without the number."""
    stem, mark, number = name.rpartition("#")
    return stem if mark and number.isdigit() else name
