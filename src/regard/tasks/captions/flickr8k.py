"""Flickr8k: photographs of people and dogs with five captions each (Hodosh et al. 2013)."""

import tarfile
from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from regard.corpora.corpus import SplitName
from regard.corpora.download import KnownFile, get_file
from regard.errors import CorpusError
from regard.images.picture_files import Picture, decode_picture
from regard.tasks.captions.corpus import CaptionCorpus, CaptionedPicture

ADVICE = (
    "An archive of Flickr8k.token.txt, Flickr_8k.*Images.txt and a folder images/ with the "
    "photographs, shorter side 224 pixels, in WebP; made from "
    "https://github.com/tnagire1/flickr8k_dataset. Your own copy of the pictures "
    "can be trained on by corpus.train.pictures and corpus.train.captions"
)
ARCHIVES = (
    KnownFile(
        "pictures/flickr8k-1.tar",
        "2f425bafb6e83c0d30bf03644bd4f863bc211e7c75c904058aa0fee632f5bfff",
        advice=ADVICE,
    ),
    KnownFile(
        "pictures/flickr8k-2.tar",
        "7c780e98aeeb0911e77f9714ce000efbffe9c58113ee68dfb92bcf066908bc81",
        advice=ADVICE,
    ),
)
CAPTIONS = "Flickr8k.token.txt"
LISTS: dict[SplitName, str] = {
    "train": "Flickr_8k.trainImages.txt",
    "valid": "Flickr_8k.devImages.txt",
    "test": "Flickr_8k.testImages.txt",
}


class StoredPicture(NamedTuple):
    """Where the bytes of a picture are in an archive."""

    path: Path
    offset: int
    size: int

    def read(self) -> Picture:
        """The decoded picture; a `PictureError` if it cannot be decoded."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return decode_picture(file.read(self.size), f"{self.path}, byte {self.offset:,}")


class Archives(NamedTuple):
    """The contents of the archives."""

    texts: dict[str, str]  # by the names of the files
    pictures: dict[str, StoredPicture]  # by their names without ending


def flickr8k() -> CaptionCorpus:
    """The corpus in its official splits: 6,000, 1,000 and 1,000 photographs."""
    texts, pictures = read_archives([get_file(file) for file in ARCHIVES])
    captions: dict[str, list[str]] = defaultdict(list)
    for line in texts[CAPTIONS].splitlines():
        name, _, caption = line.partition("\t")
        captions[name.partition(".")[0]].append(caption.strip())
    splits = {}
    for split, list_name in LISTS.items():
        names = [line.partition(".")[0] for line in texts[list_name].split()]
        splits[split] = [
            CaptionedPicture(name, tuple(captions[name]), f"flickr8k {name}", pictures[name].read)
            for name in names
        ]
    return CaptionCorpus(
        "flickr8k",
        splits,
        "en",
        "Flickr8k (Hodosh, Young and Hockenmaier 2013), for non-commercial research and education; "
        "the photographs belong to their authors",
    )


def read_archives(paths: list[Path]) -> Archives:
    """Texts, and the places of the pictures, in uncompressed tar files."""
    texts, pictures = {}, {}
    for path in paths:
        try:
            with tarfile.open(path, "r:") as archive:
                for member in archive:
                    name = PurePosixPath(member.name)
                    if member.isfile() and name.parent.name == "images":
                        stored = StoredPicture(path, member.offset_data, member.size)
                        pictures[name.stem] = stored
                    elif member.isfile() and (file := archive.extractfile(member)) is not None:
                        texts[name.name] = file.read().decode()
        except (OSError, tarfile.TarError, UnicodeDecodeError) as error:
            raise CorpusError(f"{path}: cannot be read as an archive: {error}") from None
    return Archives(texts, pictures)
