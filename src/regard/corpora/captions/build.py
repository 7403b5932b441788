"""Settings -> a corpus of captioned pictures."""

from typing import Literal, Self

from pydantic import model_validator

from regard.corpora.captions.caption_files import CaptionFilesSettings, read_caption_files
from regard.corpora.captions.corpus import CaptionCorpus, CaptionSplitSettings, split_captions
from regard.corpora.captions.flickr8k import flickr8k
from regard.corpora.captions.squares import squares
from regard.corpora.corpus import UNDETERMINED, ReadReport, SplitName
from regard.corpora.generated.generator import GeneratedSettings
from regard.settings import Settings

CAPTION_CORPORA = {
    "flickr8k": "photographs with five captions each; 6,000 to train on",
    "squares": "drawings of two coloured shapes, and which of them is where",
}
"""Corpora of captioned pictures: names and descriptions."""


class CaptionCorpusSettings(Settings):
    """The training data: a corpus of captioned pictures known by `name`, or your own."""

    name: Literal["flickr8k", "squares"] | None = None
    """`flickr8k`: 8,000 photographs with five captions each. `squares`: generated drawings."""
    generated: GeneratedSettings | None = None
    """How many pictures of `squares` are drawn."""
    train: CaptionFilesSettings | None = None
    """Your own pictures and captions to train on."""
    valid: CaptionFilesSettings | None = None
    """Pictures to validate with; without them, some of `train` are held out."""
    test: CaptionFilesSettings | None = None
    """Pictures to test with; without them, some of `train` are held out."""
    language: str = UNDETERMINED
    """The ISO 639 code of the language of your own captions."""
    split: CaptionSplitSettings = CaptionSplitSettings()
    """How many of your own pictures are held out."""

    @property
    def label(self) -> str:
        """What messages call the corpus."""
        return self.name or (self.train.captions if self.train else "")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.name is None) == (self.train is None):
            raise ValueError(
                "give either train, pictures of your own, or name: flickr8k or squares"
            )
        unused = {
            "generated": self.generated is not None and self.name != "squares",
            "valid": self.valid is not None and self.name is not None,
            "test": self.test is not None and self.name is not None,
            "language": self.language != UNDETERMINED and self.name is not None,
            "split": self.split != CaptionSplitSettings() and self.name is not None,
        }
        if any(unused.values()):
            names = ", ".join(name for name, is_unused in unused.items() if is_unused)
            raise ValueError(f"{names} would have no effect on {self.label}")
        return self


def build_caption_corpus(
    settings: CaptionCorpusSettings, *, check_pictures: bool = False
) -> CaptionCorpus:
    """The corpus in three splits; `check_pictures` as in `read_caption_files`."""
    if settings.name == "flickr8k":
        return flickr8k()
    if settings.name == "squares":
        return squares(settings.generated or GeneratedSettings())
    given: dict[SplitName, CaptionFilesSettings | None] = {
        "train": settings.train,
        "valid": settings.valid,
        "test": settings.test,
    }
    report = ReadReport()
    corpus = CaptionCorpus(
        settings.label,
        {
            split: read_caption_files(files, report, check_pictures=check_pictures)
            for split, files in given.items()
            if files is not None
        },
        settings.language,
        f"pictures of the user's own: {settings.label}",
        report,
    )
    return split_captions(corpus, settings.split)
