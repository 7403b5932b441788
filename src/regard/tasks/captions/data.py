"""Settings -> a corpus of captioned pictures."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from regard.corpora.corpus import UNDETERMINED, ReadReport, SplitName
from regard.corpora.download import find_folder
from regard.corpora.generated.generator import GeneratedSettings
from regard.corpora.source import SPLITS, FilesOptions, KnownCorpus, Sample, SourceSettings
from regard.tasks.captions.caption_files import CaptionFilesSettings, read_caption_files
from regard.tasks.captions.corpus import CaptionCorpus, CaptionSplitSettings, split_captions
from regard.tasks.captions.flickr8k import ARCHIVES, flickr8k
from regard.tasks.captions.squares import squares

CAPTION_CORPORA = {
    "flickr8k": KnownCorpus(
        "photographs with five captions each; 6,000 to train on",
        partial(find_folder, ARCHIVES[0].path),
    ),
    "squares": KnownCorpus(
        "drawings of two coloured shapes, and which of them is where", None, ("generated",)
    ),
}
"""Corpora of captioned pictures."""


class CaptionCorpusSettings(SourceSettings):
    """The training data: a corpus of captioned pictures known by `name`, or your own."""

    own = "train, pictures of your own"
    only_own = frozenset({"valid", "test", "language", "split"})
    kept = ("split",)
    skips = True
    what, rank = "has captioned pictures", 3

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

    @classmethod
    def known(cls) -> Mapping[str, KnownCorpus]:
        return CAPTION_CORPORA

    def sample(self, split: SplitName) -> Sample:
        corpus = build_caption_corpus(self)
        rows = (
            {"picture": picture.name, "caption": caption}
            for picture in corpus.splits[split]
            for caption in picture.captions
        )
        return Sample(rows, f"{corpus.name}, {corpus.language}. {corpus.origin}")

    def files(self) -> dict[SplitName, tuple[str, ...]]:
        return {split: (given.captions,) for split, given in self.own_pictures().items()}

    def own_pictures(self) -> dict[SplitName, CaptionFilesSettings]:
        """The user's own pictures of each split that has some."""
        named = {split: getattr(self, split) for split in SPLITS}
        return {split: given for split, given in named.items() if given is not None}

    @classmethod
    def of_files(cls, own: Mapping[str, Any], files: FilesOptions) -> dict[str, Any]:
        """Files of captions, each beside its pictures; `own` sets which of them are held out."""
        given = super().of_files(own, files)
        bad = {key: given.pop(key) for key in ("skip_bad",) if key in given}
        return {
            key: {"captions": value, **bad} if key in SPLITS else value
            for key, value in given.items()
        }


def build_caption_corpus(
    settings: CaptionCorpusSettings, *, check_pictures: bool = False
) -> CaptionCorpus:
    """The corpus in three splits; `check_pictures` as in `read_caption_files`."""
    if settings.name == "flickr8k":
        return flickr8k()
    if settings.name == "squares":
        return squares(settings.generated or GeneratedSettings())
    report = ReadReport()
    corpus = CaptionCorpus(
        settings.corpus_label,
        {
            split: read_caption_files(files, report, check_pictures=check_pictures)
            for split, files in settings.own_pictures().items()
        },
        settings.language,
        f"pictures of the user's own: {settings.corpus_label}",
        report,
    )
    return split_captions(corpus, settings.split)
