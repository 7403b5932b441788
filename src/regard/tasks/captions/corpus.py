"""The corpus of captioned pictures, as the rest of the package sees it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pydantic import NonNegativeInt

from regard.corpora.corpus import UNDETERMINED, ReadReport, SplitName
from regard.corpora.splits import MAX_HELD_OUT_SHARE
from regard.errors import CorpusError
from regard.images.picture_files import Picture
from regard.manifest import sha256
from regard.settings import Settings, counted


class CaptionedPicture(NamedTuple):
    """A picture, read when it is needed, and its captions."""

    name: str
    captions: tuple[str, ...]
    mark: str  # changes when the picture does
    read: Callable[[], Picture]


@dataclass(frozen=True)
class CaptionCorpus:
    """Captioned pictures in up to three splits."""

    name: str
    splits: Mapping[SplitName, Sequence[CaptionedPicture]]
    """A missing split has to be cut from train."""
    language: str = UNDETERMINED
    origin: str = ""  # where it comes from and under which licence, for the model's card
    read_report: ReadReport = field(default_factory=ReadReport)

    def marks(self, split: SplitName) -> str:
        """A text that changes when a picture of the split does."""
        return sha256("\n".join(picture.mark for picture in self.splits[split]).encode())


class CaptionSplitSettings(Settings):
    """How many pictures are held out of a corpus that comes without a split."""

    valid: NonNegativeInt = 1000
    """Pictures to validate with during training; at least one is needed."""
    test: NonNegativeInt = 1000
    """Pictures for the test at the end; 0 for none."""
    seed: NonNegativeInt = 1
    """The seed of the choice: another number holds out other pictures."""


def split_captions(corpus: CaptionCorpus, settings: CaptionSplitSettings) -> CaptionCorpus:
    """The corpus with its missing splits cut from train, at most a tenth for each.

    Pictures are chosen by a hash of the seed and their names, with all of their captions.
    """
    wanted: dict[SplitName, int] = {"valid": settings.valid, "test": settings.test}
    missing = {name: size for name, size in wanted.items() if name not in corpus.splits and size}
    if not missing:
        return corpus
    pictures = corpus.splits["train"]
    limit = max(1, int(len(pictures) * MAX_HELD_OUT_SHARE))
    if len(pictures) <= 2 * limit:
        raise CorpusError(
            f"{corpus.name}: {counted(len(pictures), 'picture')}: too few to hold some out: add "
            "pictures, or give separate files to validate and to test with"
        )
    order = sorted(pictures, key=lambda one: sha256(f"{settings.seed} {one.name}".encode()))
    splits: dict[SplitName, Sequence[CaptionedPicture]] = dict(corpus.splits)
    for name, size in missing.items():
        splits[name], order = order[: min(size, limit)], order[min(size, limit) :]
    held_out = {one.name for name in missing for one in splits[name]}
    splits["train"] = [one for one in pictures if one.name not in held_out]
    return replace(corpus, splits=splits)
