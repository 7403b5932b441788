"""Settings -> a corpus; one table lists the corpora known by name."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    Discriminator,
    Field,
    PositiveInt,
    Tag,
    model_validator,
)

from regard.corpora.cleaning.pair_filters import CleaningSettings
from regard.corpora.corpus import UNDETERMINED, Corpus, CorpusPart, Pair, ReadReport, SplitName
from regard.corpora.download import find_here
from regard.corpora.generated.dates import dates
from regard.corpora.generated.generator import GeneratedSettings
from regard.corpora.generated.letter_sequences import sequence_corpus
from regard.corpora.generated.travel.grammar import travel
from regard.corpora.languages import explain_codes
from regard.corpora.pairs.dialogues import DialogueSettings, ReadDialogues, dialogue_corpus
from regard.corpora.pairs.public_corpora import (
    Multi30kSettings,
    TatoebaSettings,
    dailydialog,
    multi30k,
    tatoeba,
)
from regard.corpora.readers.dialogue_files import Dialogue, read_dialogues
from regard.corpora.readers.pair_files import STDIN, FilesSettings, read_pairs
from regard.corpora.source import FilesOptions, KnownCorpus, SourceSettings
from regard.corpora.splits import HELD_OUT, SplitSettings
from regard.errors import BadLineError, CorpusError, SettingsError
from regard.settings import Settings

Group = Literal["dialogue", "generated", "multi30k", "tatoeba"]
GROUPS: Mapping[Group, type[Settings]] = {
    "dialogue": DialogueSettings,
    "generated": GeneratedSettings,
    "multi30k": Multi30kSettings,
    "tatoeba": TatoebaSettings,
}
"""The groups of options in `CorpusSettings`."""
_CHECKS = "drop_empty drop_control drop_identical drop_wrong_script drop_duplicates"
UNCLEANED = CleaningSettings.model_validate(
    {
        **dict.fromkeys(_CHECKS.split(), False),
        **dict.fromkeys(("max_words", "max_characters", "max_ratio")),
        "leaks": "source",
    }
)
"""Drops only pairs with leaked sources: for generated corpora, because the sides of "copy" are
equal, and for dialogues, because histories may be empty and answers recur.
"""
UNCLEANED_GROUPS = ("dialogue", "generated")
MAX_WEIGHT = 100.0


class WeightedFiles(FilesSettings):
    """One of several corpora that are trained on together, and how much it counts."""

    weight: float = Field(default=1.0, gt=0, le=MAX_WEIGHT)
    """How often each of its pairs is in the training set: 2 uses every pair twice, 0.5 only half of
    the pairs, and 1.5 half of them twice (always the same half). Held-out pairs are never
    repeated."""


class MixedFiles(FilesSettings):
    """Pairs from another corpus that are mixed into the training set."""

    share: float = Field(gt=0, lt=1)
    """Their share of the training set."""


TrainingFiles = Annotated[
    Annotated[FilesSettings, Tag("one")] | Annotated[tuple[WeightedFiles, ...], Tag("several")],
    Discriminator(lambda given: "several" if isinstance(given, list | tuple) else "one"),
]
"""One corpus, or a list of them."""


class CorpusSettings(SourceSettings):
    """The training data: a corpus known by `name`, or your own files."""

    only_own = frozenset({"valid", "test", "languages", "split"})
    kept = ("cleaning", "split", "dialogue", "mix")
    kept_imported = ("languages",)

    name: str | None = None
    """A generated or public corpus; `regard corpora` lists them."""
    dialogue: DialogueSettings | None = None
    """Options of dialogues: of dailydialog, and of your own in JSON Lines files."""
    generated: GeneratedSettings | None = None
    """Options of a generated corpus."""
    multi30k: Multi30kSettings | None = None
    """Options of multi30k."""
    tatoeba: TatoebaSettings | None = None
    """Options of tatoeba."""
    train: TrainingFiles | None = None
    """Your own files to train on; for several corpora, a list of them, each with a `weight`. A
    pair that occurs in several of them is taken from the first."""
    valid: FilesSettings | None = None
    """Files to validate with; without them, some of the training pairs are held out."""
    test: FilesSettings | None = None
    """Files to test with; without them, some of the training pairs are held out."""
    languages: tuple[str, str] | None = None
    """ISO 639 codes of source and target in your own files."""
    mix: tuple[MixedFiles, ...] = ()
    """Pairs from other corpora that make up a share of the training set, such as those a model was
    trained on before, so that it forgets less. None of them are held out."""
    cleaning: CleaningSettings = CleaningSettings()
    """Which training pairs are dropped. From generated corpora and dialogues none are, unless this
    is given."""
    split: SplitSettings = SplitSettings()
    """How many pairs of your own files are held out."""
    join: PositiveInt = 1
    """Training pairs are joined with their neighbours, 1 to this many at a time, so that a model
    learns to read sentences longer than those of the corpus; 1 joins none."""
    imported: bool = False
    """There is no corpus: the model was imported from another toolkit by `regard import`."""

    @classmethod
    def known(cls) -> Mapping[str, KnownCorpus]:
        return {
            name: KnownCorpus(entry.about, entry.find(name), (entry.group,))
            for name, entry in CORPORA.items()
        }

    def files(self) -> dict[SplitName, tuple[str, ...]]:
        """The labels of the user's own files of each split that has some."""
        labels = []
        for files in self.training_files():
            weight = getattr(files, "weight", 1.0)
            labels.append(files_label(files) + (f" (weight {weight:g})" if weight != 1 else ""))
        held_out = {split: getattr(self, split) for split in HELD_OUT}
        given = {split: (files_label(files),) for split, files in held_out.items() if files}
        return {"train": tuple(labels), **given}

    def training_files(self) -> tuple[FilesSettings, ...]:
        """All of the user's own files to train on."""
        if self.train is None:
            return ()
        return (self.train,) if isinstance(self.train, FilesSettings) else self.train

    def all_files(self) -> list[FilesSettings]:
        """All files: to train on, to mix in, to validate and to test with."""
        held_out = (self.valid, self.test)
        return [
            *self.training_files(),
            *self.mix,
            *(files for files in held_out if files is not None),
        ]

    @property
    def dialogue_settings(self) -> DialogueSettings | None:
        """How dialogues are read; None if the corpus has none."""
        named = self.name is not None and CORPORA[self.name].group == "dialogue"
        own = any(files.kind() == "jsonl" for files in self.training_files())
        return self.dialogue or DialogueSettings() if named or own else None

    @property
    def max_source_tokens(self) -> int | None:
        """The most tokens of a source; of longer ones the last are kept. None: no limit."""
        settings = self.dialogue_settings
        return None if settings is None else settings.history_tokens

    @model_validator(mode="before")
    @classmethod
    def _leave_uncleaned(cls, given: Any) -> Any:
        if isinstance(given, dict) and "cleaning" not in given:
            entry = CORPORA.get(str(given.get("name")))
            named = entry is not None and entry.group in UNCLEANED_GROUPS
            if named or _names_dialogues(given.get("train")):
                return {**given, "cleaning": UNCLEANED}
        return given

    @model_validator(mode="after")
    def _leave_room_beside_mix(self) -> Self:
        if sum(files.share for files in self.mix) >= 1:
            raise ValueError("mix: the shares must leave some of the training set to the corpus")
        return self

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if sum(STDIN in (one.data, one.source, one.target) for one in self.all_files()) > 1:
            raise ValueError("the standard input (-) can be read only once: save it to a file")
        kinds = {files.kind() for files in self.all_files()}
        if "jsonl" in kinds:
            self._check_dialogue_files(kinds)
        for files in self.all_files():
            if files.kind() == "tmx" and not (files.languages or self.languages):
                raise ValueError(
                    f"give languages, such as [en, de]: {files.data} may hold any number of them"
                )
        return self

    @classmethod
    def of_files(cls, own: Mapping[str, Any], files: FilesOptions) -> dict[str, Any]:
        """Files, cleaned, split and read with the settings of `own`."""
        return {**{key: own[key] for key in cls.kept if key in own}, **files}

    def _check_dialogue_files(self, kinds: Collection[str | None]) -> None:
        """An error if files of dialogues cannot be read as they are given."""
        if len(kinds) > 1:
            raise ValueError("files of dialogues (.jsonl) cannot be combined with other files")
        if any(files.data == STDIN for files in self.all_files()):
            raise ValueError("dialogues are read several times: save the standard input to a file")
        if self.mix:
            raise ValueError("mix does not work with dialogues: leave it out")
        if any(getattr(files, "weight", 1.0) != 1 for files in self.training_files()):
            raise ValueError("weight has no effect on files of dialogues: leave it out")
        if self.languages and self.languages[0] != self.languages[1]:
            raise ValueError(f"dialogues are in one language, got {'-'.join(self.languages)}")

    def _unused(self) -> list[str]:
        dialogues = self.dialogue_settings is not None
        return [name for name in super()._unused() if name != "dialogue" or not dialogues]

    @model_validator(mode="after")
    def _no_split_beside_files(self) -> Self:
        default, beside = SplitSettings(), [key for key in HELD_OUT if getattr(self, key)]
        unused = [*beside, "seed"] if len(beside) == len(HELD_OUT) else beside
        for key in unused:
            if getattr(self.split, key) != getattr(default, key):
                raise ValueError(f"split.{key} would have no effect beside {' and '.join(beside)}")
        return self


def _names_dialogues(train: Any) -> bool:
    """Whether the raw value of `train` names a file of dialogues."""
    files = train if isinstance(train, list | tuple) else (train,)
    given = (dict(one) for one in files if isinstance(one, dict | FilesSettings))
    return any(
        FilesSettings.model_construct(data=str(one.get("data")), format=one.get("format")).kind()
        == "jsonl"
        for one in given
    )


class CorpusEntry(NamedTuple):
    about: str
    group: Group  # the options that it takes
    make: Callable[[Any], Corpus]  # from these options
    folder: str = ""  # in $REGARD_DATA, unless that has its name

    def find(self, name: str) -> Callable[[], Path | None] | None:
        """The function that finds its folder on this machine; None: it is generated."""
        return None if self.group == "generated" else partial(find_here, self.folder or name)


CORPORA: Mapping[str, CorpusEntry] = {
    "travel": CorpusEntry(
        "French to English sentences of a small grammar, with gold alignments", "generated", travel
    ),
    "dates": CorpusEntry(
        "dates as they are written in some forty locales, to ISO 8601", "generated", dates
    ),
    **{
        name: CorpusEntry(f"letters to the same {how}", "generated", partial(sequence_corpus, name))
        for name, how in {
            "copy": "letters",
            "reverse": "from last to first",
            "sort": "in order",
        }.items()
    },
    "dailydialog": CorpusEntry(
        "everyday dialogues in English, five answers each; 6,400 to train on",
        "dialogue",
        dailydialog,
        folder="dialogue",
    ),
    "multi30k": CorpusEntry(
        "descriptions of pictures in English, German and French; 29,000 to train on",
        "multi30k",
        multi30k,
    ),
    "tatoeba": CorpusEntry(
        "everyday sentences, English with German or French; 160,000 to train on", "tatoeba", tatoeba
    ),
}


def build_corpus(settings: CorpusSettings) -> Corpus:
    """The corpus that the settings describe, neither cleaned nor split further."""
    if settings.name is not None:
        entry = CORPORA[settings.name]
        return entry.make(getattr(settings, entry.group) or GROUPS[entry.group]())
    training = settings.training_files()
    languages = settings.languages or training[0].languages or (UNDETERMINED, UNDETERMINED)
    if settings.languages and (wrong := explain_codes(settings.languages)):
        raise SettingsError(f"corpus.languages: {wrong}")
    read_report = ReadReport()
    if settings.dialogue_settings is not None:
        return _build_dialogues(settings, settings.dialogue_settings, languages[0], read_report)
    read = partial(_read, languages=languages, read_report=read_report)
    parts = tuple(
        CorpusPart(files_label(files), getattr(files, "weight", 1.0), partial(read, files))
        for files in training
    )
    splits: dict[SplitName, Callable[[], Iterator[Pair]]] = {
        "train": lambda: chain.from_iterable(part.read() for part in parts)
    }
    if settings.valid is not None:
        splits["valid"] = partial(read, settings.valid)
    if settings.test is not None:
        splits["test"] = partial(read, settings.test)
    return Corpus(
        settings.corpus_label,
        languages,
        splits,
        origin=f"files of the user's own: {settings.corpus_label}",
        parts=parts if not isinstance(settings.train, FilesSettings) else (),
        read_report=read_report,
    )


def _build_dialogues(
    settings: CorpusSettings, options: DialogueSettings, language: str, read_report: ReadReport
) -> Corpus:
    """The corpus of the user's own dialogues."""

    def reader(*files: FilesSettings) -> ReadDialogues:
        return lambda: chain.from_iterable(_read_dialogues(one, read_report) for one in files)

    given: dict[SplitName, FilesSettings | None] = {"valid": settings.valid, "test": settings.test}
    held_out = {name: reader(files) for name, files in given.items() if files is not None}
    corpus = dialogue_corpus(
        settings.corpus_label,
        language,
        {"train": reader(*settings.training_files()), **held_out},
        options,
        settings.split,
    )
    origin = f"files of the user's own: {settings.corpus_label}"
    return replace(corpus, origin=origin, read_report=read_report)


def _read_dialogues(files: FilesSettings, read_report: ReadReport) -> Iterator[Dialogue]:
    with _skip_bad_advice():
        yield from read_dialogues(str(files.data), read_report, skip_bad=files.skip_bad)


def mixed_parts(settings: CorpusSettings, corpus: Corpus) -> tuple[CorpusPart, ...]:
    """What is mixed into the training pairs of a corpus; the weights are shares of the whole."""
    return tuple(
        CorpusPart(
            files_label(files),
            files.share,
            partial(_read, files, languages=corpus.languages, read_report=corpus.read_report),
        )
        for files in settings.mix
    )


def files_label(files: FilesSettings) -> str:
    """What messages call the files of a corpus."""
    return files.data or f"{files.source} and {files.target}"


def _read(
    files: FilesSettings, languages: tuple[str, str], read_report: ReadReport
) -> Iterator[Pair]:
    with _skip_bad_advice():
        yield from read_pairs(files, languages, read_report)


@contextmanager
def _skip_bad_advice() -> Iterator[None]:
    """Add advice to errors about single lines: how to skip them."""
    try:
        yield
    except BadLineError as error:
        raise CorpusError(
            f"{error}; or skip all that cannot be read: --skip-bad (skip_bad: true in a recipe)"
        ) from None
