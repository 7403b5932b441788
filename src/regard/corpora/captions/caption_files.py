"""A folder of pictures and a file of their captions, of one's own."""

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from regard.corpora.captions.corpus import CaptionedPicture
from regard.corpora.readers.pair_files import read_lines
from regard.errors import CorpusError
from regard.images.picture_files import ENDINGS, Picture, decode_picture, read_picture
from regard.settings import Settings, abbreviate

PICTURE_KEYS = ("picture", "image", "file_name", "file")  # of a JSON object
CAPTION_KEYS = ("captions", "caption", "text")


class CaptionFilesSettings(Settings):
    """Pictures of one's own with their captions."""

    pictures: str
    """The folder that the names of pictures are in."""
    captions: str
    """A file of captions. A line of a .tsv is the name of a picture, a tab and a caption; a picture
    may be on several lines. A line of a .jsonl is an object with `picture` and `caption`, or a list
    `captions`. A number behind the name, as in `photo.jpg#0`, is dropped."""


class CaptionLine(NamedTuple):
    """A picture's name and some of its captions."""

    name: str
    captions: tuple[str, ...]


class StoredPicture(NamedTuple):
    """Where the bytes of a picture are: a file, or a part of an archive."""

    path: Path
    offset: int = 0
    size: int | None = None  # None: the whole file

    def read(self) -> Picture:
        """The picture; a `PictureError` if there is none."""
        if self.size is None:
            return read_picture(self.path)
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return decode_picture(file.read(self.size), f"{self.path}, byte {self.offset:,}")


def read_caption_files(settings: CaptionFilesSettings) -> list[CaptionedPicture]:
    """The pictures that the captions name, in the order in which they do."""
    captions: dict[str, list[str]] = {}
    for line in read_captions(settings.captions):
        captions.setdefault(line.name, []).extend(line.captions)
    folder = Path(settings.pictures)
    if not folder.is_dir():
        raise CorpusError(f"{folder}: no folder of pictures (looked in {Path.cwd()})")
    if not captions:
        raise CorpusError(f"{settings.captions}: holds no captions")
    found = {name: find_file(folder, name) for name in captions}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise CorpusError(
            f"{folder}: {len(missing):,} of the {len(found):,} pictures that {settings.captions} "
            f"names are not there, the first is {missing[0]!r}"
        )
    pictures = []
    for name, path in found.items():
        assert path is not None  # none is missing
        stat = path.stat()
        mark = f"{name} {stat.st_size} {stat.st_mtime_ns}"
        read = partial(read_picture, path)
        pictures.append(CaptionedPicture(name, tuple(captions[name]), mark, read))
    return pictures


def find_file(folder: Path, name: str) -> Path | None:
    """The picture called `name`, or like it with another ending of pictures."""
    path = folder / name
    if os.path.isabs(name) or ".." in Path(name).parts:
        raise CorpusError(f"{name}: a picture's name must lead to a place inside {folder}")
    if path.is_file():
        return path
    others = (path.with_suffix(ending) for ending in ENDINGS)
    return next((other for other in others if other.is_file()), None)


def read_captions(path: str) -> Iterator[CaptionLine]:
    """The captions of a file, line by line."""
    parse = _parse_json if path.removesuffix(".gz").endswith((".jsonl", ".json")) else _parse_tsv
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            name, captions = parse(line)
        except ValueError as error:
            raise CorpusError(f"{path}: line {number}: {error}") from None
        yield CaptionLine(_without_number(name), captions)


def _parse_tsv(line: str) -> CaptionLine:
    name, tab, caption = line.partition("\t")
    if not tab or not name.strip() or not caption.strip():
        raise ValueError(f"no name, tab and caption, but {abbreviate(line)!r}")
    return CaptionLine(name.strip(), (caption.strip(),))


def _parse_json(line: str) -> CaptionLine:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {abbreviate(str(error))}") from None
    if not isinstance(given, dict):
        raise ValueError("no JSON object with `picture` and `caption`")
    name = next((given[key] for key in PICTURE_KEYS if key in given), None)
    said = next((given[key] for key in CAPTION_KEYS if key in given), None)
    captions = [said] if isinstance(said, str) else said
    if not isinstance(name, str) or not isinstance(captions, list) or not captions:
        raise ValueError("no JSON object with `picture` and `caption`, or a list `captions`")
    if not all(isinstance(one, str) and one.strip() for one in captions):
        raise ValueError("a caption is no text, or empty")
    return CaptionLine(name, tuple(one.strip() for one in captions))


def _without_number(name: str) -> str:
    """`photo.jpg#0`, as Flickr8k numbers captions, without the number."""
    stem, mark, number = name.rpartition("#")
    return stem if mark and number.isdigit() else name
