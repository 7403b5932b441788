"""The interface of tasks, through which runs are trained, evaluated and loaded."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
)

import torch
from pydantic import PositiveInt, ValidationError, model_validator

from regard.atomic_io import write_atomic
from regard.corpora.cleaning.pair_filters import CleaningReport
from regard.corpora.pair_texts import PREPARED_FILE
from regard.corpora.source import SPLITS, FilesOptions
from regard.errors import SettingsError
from regard.evaluation.classification import Confusion
from regard.evaluation.metrics import Counts, SummedMetric
from regard.evaluation.scores import Comparison, Interval
from regard.json_files import dump_json
from regard.models.contracts import AnyModel
from regard.nested_values import set_values
from regard.settings import Name, SettingChoice, Settings, Spelling, expectation
from regard.text.build import Tokenizers, extend_tokenizer, train_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.tokenizer import Tokenizer
from regard.training.loop import TrainingTask
from regard.training.settings import TrainingSettings
from regard.training.weight_transfer import RowNames

SplitName = Literal["train", "valid", "test"]
Notify = Callable[[str], None]  # shows a message about progress
CPU = torch.device("cpu")
AdapterName = Annotated[
    str,
    Spelling(
        r"\w[\w.-]*",
        "must consist of letters, digits, _, - and ., and not begin with - or .",
    ),
]


class StartSettings(Settings):
    """The run that a model is initialised from, wherever names, shapes and vocabularies agree."""

    run: str | None = None
    """Its folder, as in `regard train --from RUN`; left out: runs/RECIPE."""
    recipe: str | None = None
    """The recipe that `regard compare` trains it with if the run does not exist."""
    vocabulary: Literal["run", "own", "extended"] = "run"
    """The vocabulary: that of the `run`; the recipe's `own`, learned from its corpus, in which
    pieces that the run also has start with its vectors; or the run's, `extended` by pieces of the
    corpus that are appended, so that the run's pieces keep their ids and vectors (`--vocabulary
    extended`)."""
    added_pieces: PositiveInt = 1000
    """The most pieces that an extended vocabulary gets for each side. A new subword piece must
    occur at least five times and consist of letters only."""
    new_pieces: Literal["random", "mean", "parts"] | None = None
    """How the vectors of new pieces are initialised: at `random`; with the `mean` of all copied
    vectors; or with the mean of their `parts`, the fewest pieces of the run that spell the new one
    (with the mean of all if none do). Left out: `parts` for an extended vocabulary, `random` for an
    own vocabulary."""
    adapter: AdapterName | None = None
    """The name under which the trained low-rank updates are added to the run, as in `regard train
    --adapter NAME`; `training.fine_tuning.lora` sets their rank."""
    weights: str | None = None
    """SHA-256 of the run's model.safetensors; training writes it here when it begins."""

    def filling(self) -> str:
        """How the vectors of new pieces are initialised."""
        return self.new_pieces or ("parts" if self.vocabulary == "extended" else "random")


VOCABULARY_SETTINGS = ("absent", "mask_id")  # settings of a model that are ids of its vocabulary


def without_vocabulary(model: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model without those that belong to its vocabulary."""
    return {name: value for name, value in model.items() if name not in VOCABULARY_SETTINGS}


class TaskRecipe(Settings):
    """The settings that recipes of all tasks share."""

    task: str
    """The task."""
    second_stage_group: ClassVar[str | None] = None
    """The group of settings of a second stage of training; None: the task has none."""
    name: Name
    """The name of the run, which is written to `runs/NAME` by default."""
    about: str = ""
    """What the recipe is for, in one or two sentences."""
    start: StartSettings | None = None
    """The run that the weights are initialised from; null: random initialisation."""
    if TYPE_CHECKING:  # every recipe has these, in this order
        corpus: Any
        model: Any
        training: TrainingSettings

    @model_validator(mode="after")
    def _check_lora_has_start(self) -> Self:
        training: TrainingSettings | None = getattr(self, "training", None)
        lora = None if training is None else training.fine_tuning.lora
        if lora is not None and self.start is None:
            raise ValueError(
                "training.fine_tuning.lora updates the weights of a run: name it with --from RUN"
            )
        if lora is not None and self.start is not None and self.start.vocabulary != "run":
            raise ValueError(
                f"start.vocabulary: {self.start.vocabulary} needs all weights trained, not "
                "low-rank updates (lora), which give new pieces no vectors of their own"
            )
        return self

    @model_validator(mode="after")
    def _check_sampling_has_effect(self) -> Self:
        text = getattr(self, "text", None)
        if isinstance(text, TokenizerSettings) and text.sampling:
            raise ValueError(
                f"text.sampling {text.sampling:g}: has no effect on {self.task}: only "
                "translation and chat cut texts anew each time; leave it out"
            )
        return self

    @classmethod
    def corpus_of_files(cls, own: Mapping[str, Any], files: FilesOptions) -> dict[str, Any]:
        """The group `corpus` of a recipe for files named on the command line, which replaces its
        `own`: see `SourceSettings.of_files`.
        """
        kind: Any = cls.model_fields["corpus"].annotation  # a class of `SourceSettings`
        corpus: dict[str, Any] = kind.of_files(own, files)
        return corpus

    @classmethod
    def auto_settings(cls) -> tuple[str, ...]:
        """The dotted names of settings that may be `auto`."""
        return ()

    @classmethod
    def with_auto(cls, setting: str, default: str, meaning: str) -> tuple[str, str]:
        """The default and the meaning of a setting, and what `auto` means if it may be `auto`."""
        return default, meaning

    @property
    def is_imported(self) -> bool:
        """Whether its model was imported from another toolkit, so that its run has no data."""
        return bool(getattr(self.corpus, "imported", False))

    def of_test_files(self, files: Sequence[str]) -> Self:
        """The recipe with files from the command line as its corpus, the same for every split."""
        own: dict[str, Any] = self.corpus.model_dump(mode="json", exclude_none=True)
        entries = [{"data": file} for file in files]
        corpus = self.corpus_of_files(own, dict.fromkeys(SPLITS, entries))
        return self.with_values({"corpus": corpus})

    def vocabulary_settings(self) -> TokenizerSettings | None:
        """The settings of the vocabulary that runs initialised from this one inherit: the group
        `text` of the recipe; None: they inherit none.
        """
        return None

    def added_pieces(self) -> int | None:
        """The most pieces that are added to the initial run's vocabulary; None: it is not
        extended.
        """
        start = self.start
        return start.added_pieces if start is not None and start.vocabulary == "extended" else None

    def extension_marks(self) -> list[str]:
        """The part of a fingerprint that describes an extended vocabulary; empty for others."""
        count = self.added_pieces()
        return [] if count is None else [f"extended by {count}"]

    def uses_vocabulary(self) -> bool:
        """Whether it uses the vocabulary of the run that it is initialised from."""
        return self.vocabulary_settings() is not None

    def second_stage_settings(self) -> TrainingSettings | None:
        """The settings of the second stage of training, from the group `second_stage_group`; None:
        there is none.
        """
        return None

    def resumed_from(self, saved: "TaskRecipe") -> Self:
        """The recipe with the values that were chosen for the run of `saved`, where this recipe
        leaves the choice open; the same recipe if that run has another task.
        """
        return self

    def check_resumable(self, saved: "TaskRecipe", run: Path) -> None:
        """Raise a `SettingsError` if the run of `saved` cannot be resumed with this recipe. The
        caller has already checked the task, `training`, and the other groups that must stay the
        same.
        """

    def inner_model(self) -> Settings:
        """The settings of the model, or of the inner model that others can be initialised from."""
        model: Settings = self.model
        return model

    def begun_with(self, other: "TaskRecipe") -> Self:
        """The recipe, completed with what it takes from `other`, the recipe of the initial run."""
        own, given = self.vocabulary_settings(), other.vocabulary_settings()
        if self.start is None or self.start.vocabulary == "own" or own is None:
            return self
        if given is None:
            raise SettingsError(
                f"start.vocabulary: a run of {other.task} has no vocabulary that one of "
                f"{self.task} can use; give --vocabulary own, which is start.vocabulary=own"
            )
        return self.model_copy(update={"text": given})

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """The recipe with other values for some settings, by their dotted names."""
        if not values:
            return self
        try:
            return self.model_validate(set_values(self.model_dump(mode="json"), values))
        except ValidationError as error:
            chosen = ", ".join(f"{name} {value}" for name, value in values.items())
            wrong = expectation(error.errors()[0])
            raise SettingsError(f"{wrong}: the given settings contradict {chosen}") from None


RecipeT = TypeVar("RecipeT", bound=TaskRecipe)
ModelT = TypeVar("ModelT", bound=AnyModel)


class ScoreTable(NamedTuple):
    """A table for the terminal, whose cells may have rich's markup."""

    title: str
    columns: tuple[str, ...]
    right: tuple[str, ...]  # the columns that are right-aligned
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Evaluation:
    """What was measured of a run; some tasks derive from it, which show it in their own way."""

    split: str  # what was measured: the name of a split, or of files
    numbers: Mapping[str, float]  # by name, in the order in which they are shown
    notes: tuple[str, ...] = ()  # how they were counted
    intervals: Mapping[str, Interval] = field(default_factory=dict)  # of 95%, of some numbers
    confusion: Confusion | None = None  # of a classifier
    texts: tuple[str, ...] = ()  # the answers of a model that writes
    comparisons: tuple[Comparison, ...] = ()  # paired tests against another run

    def to_json(self) -> dict[str, Any]:
        document = {"split": self.split, **self.numbers, "notes": list(self.notes)}
        if self.intervals:
            document["intervals"] = {name: list(span) for name, span in self.intervals.items()}
        if self.confusion is not None:
            document["confusion"] = self.confusion.to_json()
        return document | self.tests_json()

    def tests_json(self) -> dict[str, Any]:
        """The paired tests, if there are any."""
        return {"against": [vars(test) for test in self.comparisons]} if self.comparisons else {}

    def tables(self, name: str) -> Iterator[ScoreTable | str]:
        """The numbers of the run `name` as tables and lines for the terminal."""
        spans = {name: f"{low:,.6g} … {high:,.6g}" for name, (low, high) in self.intervals.items()}
        rows = [
            (name, f"{value:,.6g}", *([spans.get(name, "")] if spans else []))
            for name, value in self.numbers.items()
        ]
        columns = ("score", "value", *(["95% interval"] if spans else []))
        yield ScoreTable(f"{name} on {self.split}", columns, ("value",), rows)

    def card_lines(self) -> Iterator[str]:
        """The numbers as lines of a card."""
        yield f"| on {self.split} | value |\n|---|---:|"
        for name, value in self.numbers.items():
            span = self.intervals.get(name)
            shown = f" ({span.low:.6g} to {span.high:.6g})" if span else ""
            yield f"| {name} | {value:.6g}{shown} |"
        yield "".join(f"\n{note}\n" for note in self.notes)


class CardParts(NamedTuple):
    """What the card of a run says besides what it says of all runs."""

    title: str
    data: Sequence[str]  # lines about the data
    selection: str = "best in validation"  # how its weights were selected
    training: Sequence[str] = ()  # further lines about training
    usage: bool = False  # whether it tells the device, and how the run is used


class ExampleStatistics(NamedTuple):
    """A score, and the statistics of each of the N examples that it is computed from."""

    metric: SummedMetric
    counts: Counts  # (N, C)
    digest: str  # of the examples and their labels: runs are compared only if it is equal


class SecondStage(NamedTuple):
    """A second stage, which continues with the final weights of training, in its own folder."""

    training: TrainingTask
    settings: TrainingSettings
    no_gain: str  # the message if no validation was better than that of the first weights


class TrainableTask(ABC, Generic[RecipeT, ModelT]):
    """The data and vocabularies of a run, and what its model learns from them.

    `prepare` makes the files of a run's data folder, unless they exist, and `load` reads those that
    a trained model needs. The run's manifest has their checksums.
    """

    device: torch.device = CPU
    """The device that the model is trained on; `prepare` may choose settings for it."""
    given_tokenizers: Tokenizers | None = None
    """The tokenizers of the run that this one is initialised from: `prepare` uses them and trains
    none."""

    def __init__(self, recipe: RecipeT, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder

    @abstractmethod
    def prepare(self, note: Notify, *, resumed: bool) -> None:
        """Read the corpus into the run's folder; a `resumed` run keeps what it read before.

        Settings that the recipe leaves open get their values, which `recipe` has afterwards.
        """

    def record(self) -> None:
        """Write a description of what was read; a run that has one can be resumed."""
        described = dump_json({"task": self.recipe.task, **self.summary()})
        write_atomic(self.folder / "data" / PREPARED_FILE, described.encode())

    @property
    def given_tokenizer(self) -> Tokenizer | None:
        """The given tokenizer, for a task that has one vocabulary."""
        return None if self.given_tokenizers is None else self.given_tokenizers.source

    def make_tokenizer(self, texts: Iterable[str], settings: TokenizerSettings) -> Tokenizer:
        """The vocabulary of a new run: learned from its texts, or taken from the run that it is
        initialised from and possibly extended by them.
        """
        given, count = self.given_tokenizer, self.recipe.added_pieces()
        if given is None:
            return train_tokenizer(texts, settings)
        return given if count is None else extend_tokenizer(given, texts, count)

    @abstractmethod
    def load(self) -> None:
        """Read what `new_model` and inference need of the files that `prepare` wrote."""

    def use_other_weights(self, temperature: float | None) -> None:
        """Replace what `load` read for the run's own weights, for a model with other weights: those
        of a classifier's adapter with this `temperature`, or any weights without one.
        """

    def take_labels(self, start: Path) -> None:
        """Use the labels of the run of the same task that this one is initialised from, if it has
        any.
        """

    def vocabularies(self) -> Tokenizers | None:
        """The vocabularies of source and target; None: the model reads no text."""
        tokenizer: Tokenizer | None = getattr(self, "tokenizer", None)
        return None if tokenizer is None else Tokenizers(tokenizer, tokenizer)

    def fitted_temperature(self) -> float | None:
        """The temperature of a classifier, if one has been fitted to its weights."""
        return None

    @abstractmethod
    def new_model(self) -> ModelT:
        """A model of the recipe, its weights drawn from torch's generator."""

    def check_model(self, model: ModelT, note: Notify) -> None:
        """Raise a `SettingsError` if a new model cannot learn from the data."""

    def initialize(self, model: ModelT, taken: Collection[str] = ()) -> None:
        """Set the weights that are computed from the data in a new model, once, before training;
        those named in `taken` come from another run and stay as they are.
        """

    def row_names(self) -> RowNames:
        """The names of the rows of a model's tensors, in order, by kind (`Model.named_rows`)."""
        return {}

    @abstractmethod
    def training(self, model: ModelT) -> TrainingTask:
        """The data, loss and validation for the training loop."""

    def second_stage(self, model: ModelT) -> SecondStage | None:
        """The second stage, for a recipe with `second_stage_settings`."""
        return None

    @abstractmethod
    def summary(self) -> dict[str, str]:
        """A summary of the data, which training shows before it begins: name -> text."""

    def cleaning_report(self) -> CleaningReport | None:
        """What cleaning dropped from the training data; None: they are not cleaned."""
        return None

    def choices(self) -> Sequence[SettingChoice]:
        """The values that `prepare` chose for settings that the recipe left open."""
        return ()

    def warnings(self) -> Sequence[str]:
        """Warnings about unusual data or settings."""
        return ()

    def origin(self) -> str:
        """Where the data come from, for the card of an adapter."""
        return "; ".join(self.summary().values())

    def finish(self, model: ModelT) -> None:
        """Write what is computed from the trained weights into the run, if there is anything."""

    def card(self) -> CardParts:
        """What its run's card says of it."""
        data = [f"- {name}: {text}" for name, text in self.summary().items()]
        return CardParts(self.recipe.task, data)


class Task(TrainableTask[RecipeT, ModelT]):
    """A task whose models are measured on batches of its data (`recipes.evaluator`). Translators
    and chatbots are measured through their pipelines instead, as their scores are those of texts.
    """

    @abstractmethod
    def held_out(self) -> SplitName:
        """The split to evaluate on: test, or valid where there is no test."""

    def read_test(self, files: Sequence[str], folder: Path) -> None:
        """Replace the split `test` by the examples of some files, in the run's own vocabulary and
        labels. They are written to `folder`, which must exist as long as they are used. Raises a
        `SettingsError` if the task cannot do this.
        """
        raise SettingsError(f"--data: runs of {self.recipe.task} use only their own data")

    def evaluate(self, model: ModelT, split: SplitName) -> Evaluation:
        """The numbers of a trained model on a split, unless the task has its own evaluator."""
        raise NotImplementedError

    def compare(
        self, model: ModelT, other: Self, its_model: ModelT, split: SplitName
    ) -> list[Comparison]:
        """Paired tests of a model against that of an `other` run of the task, on a split of this
        run. Raises a `SettingsError` if the task has no test.
        """
        raise SettingsError(f"--against: there is no paired test for runs of {self.recipe.task}")

    def statistics(self, model: ModelT, split: SplitName) -> ExampleStatistics:
        """The score by which a comparison ranks runs of the task. Raises a `SettingsError` if there
        is none.
        """
        raise SettingsError(f"runs of {self.recipe.task} have no score that is compared")


AnyTrainableTask = TrainableTask[Any, Any]
