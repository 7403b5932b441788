"""Settings -> a corpus, by one plain table."""

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, Self, get_args

from pydantic import PositiveInt, model_validator

from regard.corpora.cleaning import CleaningSettings
from regard.corpora.generated.dates import dates
from regard.corpora.generated.drawing import GeneratedSettings
from regard.corpora.generated.series import series
from regard.corpora.generated.travel import travel
from regard.corpora.named import Multi30kSettings, TatoebaSettings, multi30k, tatoeba
from regard.corpora.pairs import Corpus, SplitName
from regard.corpora.readers import FilesSettings, read_pairs
from regard.corpora.splits import SplitSettings
from regard.settings import Settings

Group = Literal["generated", "multi30k", "tatoeba"]
"""A group of options in `CorpusSettings`."""
GROUPS: tuple[Group, ...] = get_args(Group)
UNCLEANED = CleaningSettings(
    drop_empty=False,
    drop_control=False,
    max_words=None,
    max_characters=None,
    max_ratio=None,
    drop_identical=False,
    drop_wrong_script=False,
    drop_duplicates=False,
    leaks="source",
)
"""For generated corpora: "copy" would be dropped whole as equal on both sides."""


class CorpusSettings(Settings):
    """What is learned from: a corpus that is known by `name`, or files of one's own."""

    name: str | None = None
    """A corpus that is made or known here; `regard corpora` lists them."""
    generated: GeneratedSettings | None = None
    """Options of a corpus that is generated."""
    multi30k: Multi30kSettings | None = None
    """Options of multi30k."""
    tatoeba: TatoebaSettings | None = None
    """Options of tatoeba."""
    train: FilesSettings | None = None
    """Files of one's own to train on."""
    valid: FilesSettings | None = None
    """Files to validate with; without them, some of the training pairs are held out."""
    test: FilesSettings | None = None
    """Files to test with; without them, some of the training pairs are held out."""
    languages: tuple[str, str] | None = None
    """ISO 639 codes of source and target of one's own files."""
    cleaning: CleaningSettings = CleaningSettings()
    """Which training pairs are dropped; of a generated corpus none, unless this is given."""
    split: SplitSettings = SplitSettings()
    """How many pairs of one's own files are held out."""
    join: PositiveInt = 1
    """Training pairs are joined with their neighbours, 1 to this many together, so that a model
    learns to read sentences longer than those of the corpus; 1 leaves them alone."""

    @property
    def label(self) -> str:
        """What messages call the corpus."""
        if self.name is not None:
            return self.name
        assert self.train is not None  # the settings have been validated
        return self.train.data or f"{self.train.source} and {self.train.target}"

    @model_validator(mode="before")
    @classmethod
    def _leave_generated_alone(cls, given: Any) -> Any:
        if isinstance(given, dict) and "cleaning" not in given:
            entry = CORPORA.get(str(given.get("name")))
            if entry is not None and entry.group == "generated":
                return {**given, "cleaning": UNCLEANED}
        return given

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.name is None) == (self.train is None):
            raise ValueError(
                f"give either train, files of your own, or name, one of {', '.join(CORPORA)}"
            )
        if self.name is not None and self.name not in CORPORA:
            near = difflib.get_close_matches(self.name, CORPORA, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"no corpus is named {self.name!r}; {hint}known: {', '.join(CORPORA)}")
        idle = self._idle()
        if idle:
            raise ValueError(f"{', '.join(idle)} would have no effect on {self.label}")
        for files in (self.train, self.valid, self.test):
            if files and files.kind() == "tmx" and not (files.languages or self.languages):
                raise ValueError(
                    f"give languages, such as [en, de]: {files.data} may hold any number of them"
                )
        return self

    def _idle(self) -> list[str]:
        """The settings given that would do nothing."""
        meant = {CORPORA[self.name].group} if self.name else {"valid", "test", "languages"}
        optional = {*GROUPS, "valid", "test", "languages"}
        given = [key for key in type(self).model_fields if key in optional - meant]
        split = ["split"] if self.name and self.split != SplitSettings() else []
        return [key for key in given if getattr(self, key) is not None] + split


class CorpusEntry(NamedTuple):
    """A corpus that has a name."""

    about: str
    group: Group
    """The options that it takes."""
    make: Callable[[CorpusSettings], Corpus]


def _generated(about: str, make: Callable[[GeneratedSettings], Corpus]) -> CorpusEntry:
    return CorpusEntry(
        about, "generated", lambda settings: make(settings.generated or GeneratedSettings())
    )


CORPORA: Mapping[str, CorpusEntry] = {
    "travel": _generated(
        "French to English sentences of a small grammar, with gold alignments", travel
    ),
    "dates": _generated("dates as people of some forty places write them, to ISO 8601", dates),
    "copy": _generated("letters to the same letters", partial(series, "copy")),
    "reverse": _generated("letters to the same from last to first", partial(series, "reverse")),
    "sort": _generated("letters to the same in order", partial(series, "sort")),
    "multi30k": CorpusEntry(
        "descriptions of pictures in English, German and French; 29,000 to train on",
        "multi30k",
        lambda settings: multi30k(settings.multi30k or Multi30kSettings()),
    ),
    "tatoeba": CorpusEntry(
        "everyday sentences, English with German or French; 160,000 to train on",
        "tatoeba",
        lambda settings: tatoeba(settings.tatoeba or TatoebaSettings()),
    ),
}


def build_corpus(settings: CorpusSettings) -> Corpus:
    """The corpus that the settings describe, as it comes: neither cleaned nor split further."""
    if settings.name is not None:
        return CORPORA[settings.name].make(settings)
    assert settings.train is not None  # the settings have been validated
    languages = settings.languages or settings.train.languages or ("und", "und")
    given: dict[SplitName, FilesSettings | None] = {
        "train": settings.train,
        "valid": settings.valid,
        "test": settings.test,
    }
    return Corpus(
        settings.label,
        languages,
        splits={
            split: partial(read_pairs, files, languages)
            for split, files in given.items()
            if files is not None
        },
        origin=f"files of the user's own: {settings.label}",
    )
