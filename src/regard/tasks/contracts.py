"""The interface of tasks, by which runs are trained, evaluated and loaded."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
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
from regard.errors import SettingsError
from regard.evaluation.classification import Confusion
from regard.evaluation.metrics import Counts, SummedMetric
from regard.evaluation.scores import Comparison, Interval
from regard.json_files import dump_json
from regard.models.contracts import AnyModel
from regard.nested_values import set_values
from regard.settings import SettingChoice, Settings, Spelling, expectation
from regard.text.build import Tokenizers, extend_tokenizer, train_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.tokenizer import Tokenizer
from regard.training.loop import TrainingTask
from regard.training.settings import TrainingSettings
from regard.training.weight_transfer import RowNames

SplitName = Literal["train", "valid", "test"]
Notify = Callable[[str], None]  # shows a message about progress
PREPARED_FILE = "prepared.json"  # in the data folder: describes what was read, written after it
CPU = torch.device("cpu")
AdapterName = Annotated[
    str,
    Spelling(
        r"\w[\w.-]*",
        "must be letters, digits, and the characters _ - . alone, and not begin with - or .",
    ),
]


class StartSettings(Settings):
    """The run whose weights a model begins with, wherever names, shapes and vocabularies agree."""

    run: str | None = None
    """Its folder, as `regard train --from RUN` names it; left out: runs/RECIPE."""
    recipe: str | None = None
    """The recipe that it is trained by, which `regard compare` does where there is no such run."""
    vocabulary: Literal["run", "own", "extended"] = "run"
    """Whose vocabulary is used: the run's; or one learned from the recipe's own corpus, of which
    those pieces begin with vectors of the run that both have; or the run's `extended`, whose pieces
    keep their ids and vectors, by pieces of the corpus behind them: `--vocabulary extended`."""
    added_pieces: PositiveInt = 1000
    """By how many pieces of each side a vocabulary is extended at most. A piece of subwords must
    occur five times and is made of letters alone."""
    new_pieces: Literal["random", "mean", "parts"] | None = None
    """What the vectors of new pieces begin as: drawn at random; the mean of all that were taken; or
    the mean of the fewest pieces of the run that spell it, and of all where none do. Left out:
    `parts` in a vocabulary that is extended, and `random` in one of its own."""
    adapter: AdapterName | None = None
    """The name under which the run gets the low-rank updates that are trained for it, as `regard
    train --adapter NAME` says; `training.fine_tuning.lora` has their rank."""
    weights: str | None = None
    """SHA-256 of the run's model.safetensors, which training writes here when it begins."""

    def filling(self) -> str:
        """What the vectors of new pieces begin as."""
        return self.new_pieces or ("parts" if self.vocabulary == "extended" else "random")


VOCABULARY_SETTINGS = ("absent", "mask_id")  # settings of a model that are ids of its vocabulary


def without_vocabulary(model: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model for another vocabulary than its own."""
    return {name: value for name, value in model.items() if name not in VOCABULARY_SETTINGS}


class TaskRecipe(Settings):
    """What every recipe says, whatever is learned."""

    task: str
    """What is learned."""
    second_stage_group: ClassVar[str | None] = None
    """The group of settings of a second stage of training; None: the task has none."""
    name: str
    """What the run is called; `runs/NAME` is where it goes unless told otherwise."""
    about: str = ""
    """What the recipe is for, in a sentence or two."""
    start: StartSettings | None = None
    """What its weights begin as; null draws them at random."""
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
                f"start.vocabulary: {self.start.vocabulary} goes with all weights, not with "
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
    def corpus_of_files(cls, own: Mapping[str, Any], files: Mapping[str, Any]) -> dict[str, Any]:
        """The group `corpus` of a recipe for files of the command line, in place of its `own`.

        `files` has `train` and perhaps `valid`, `test` and `languages`, in the form of
        `CorpusSettings`; `tasks.corpus_files` reads them for tasks that take plain file names. A
        `SettingsError` if a task has no use for files.
        """
        raise SettingsError("its task does not learn from files that options name; drop them")

    @property
    def is_imported(self) -> bool:
        """Whether its model was imported from another toolkit, so that its run has no data."""
        return bool(getattr(self.corpus, "imported", False))

    def of_test_files(self, files: Sequence[str]) -> Self:
        """The recipe with files of the command line as its corpus, the same for every split."""
        own: dict[str, Any] = self.corpus.model_dump(mode="json", exclude_none=True)
        entries = [{"data": file} for file in files]
        splits = ("train", "valid", "test")
        corpus = self.corpus_of_files(own, dict.fromkeys(splits, entries))
        return self.with_values({"corpus": corpus})

    def vocabulary_settings(self) -> TokenizerSettings | None:
        """The settings of the vocabulary that a run passes on to runs that begin with its weights:
        the group `text` of the recipe; None: it passes none on.
        """
        return None

    def added_pieces(self) -> int | None:
        """The most pieces by which the vocabulary of the run that this one begins with is extended;
        None: it is not.
        """
        start = self.start
        return start.added_pieces if start is not None and start.vocabulary == "extended" else None

    def extension_marks(self) -> list[str]:
        """Part of a fingerprint: by how much a vocabulary is extended; empty if it is not."""
        count = self.added_pieces()
        return [] if count is None else [f"extended by {count}"]

    def uses_vocabulary(self) -> bool:
        """Whether it takes the vocabulary of the run that it begins with."""
        return self.vocabulary_settings() is not None

    def second_stage_settings(self) -> TrainingSettings | None:
        """How training goes on after it has ended, in a second stage: by the settings of the group
        `second_stage_group`; None: there is none.
        """
        return None

    def resumed_from(self, saved: "TaskRecipe") -> Self:
        """The recipe with the values that the run of `saved` has chosen, where this one leaves the
        choice open; the same recipe if the run is of another task.
        """
        return self

    def check_resumable(self, saved: "TaskRecipe", run: Path) -> None:
        """Raise a `SettingsError` if the run of `saved` cannot go on with this recipe; its task,
        other groups that must stay, and `training` have been checked.
        """

    def inner_model(self) -> Settings:
        """The settings of the model, or of the one inside it that others can begin with."""
        model: Settings = self.model
        return model

    def begun_with(self, other: "TaskRecipe") -> Self:
        """The recipe, completed by what it takes from `other`, that of the run it begins with."""
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
            raise SettingsError(f"{wrong}: settings given do not go with {chosen}") from None


RecipeT = TypeVar("RecipeT", bound=TaskRecipe)
ModelT = TypeVar("ModelT", bound=AnyModel)


class Evaluation(NamedTuple):
    """What `regard evaluate` prints of a run."""

    split: str  # what was measured: the name of a split, or of a file
    numbers: Mapping[str, float]  # by name, in the order in which they are shown
    notes: tuple[str, ...] = ()  # how they were counted
    intervals: Mapping[str, Interval] = MappingProxyType({})  # of 95%, of some of the numbers
    confusion: Confusion | None = None  # of a classifier

    def to_json(self) -> dict[str, Any]:
        document = {"split": self.split, **self.numbers, "notes": list(self.notes)}
        if self.intervals:
            document["intervals"] = {name: list(one) for name, one in self.intervals.items()}
        if self.confusion is not None:
            document["confusion"] = self.confusion.to_json()
        return document


class ExampleStatistics(NamedTuple):
    """A score, and what it is summed from: statistics of each of N examples."""

    metric: SummedMetric
    counts: Counts  # (N, C)
    digest: str  # of the examples and their labels: runs are compared only if it is equal


class SecondStage(NamedTuple):
    """Training that goes on with the weights that training ended with, in a folder of its own."""

    training: TrainingTask
    settings: TrainingSettings
    no_gain: str  # the message if no validation was better than that of the first weights


class TrainableTask(ABC, Generic[RecipeT, ModelT]):
    """Data and vocabularies of a run, and what its model learns from them.

    `prepare` makes the files of a run's data folder, unless they exist, and `load` reads what a
    trained model needs of them. What they write is checked by the run's manifest.
    """

    recipe_class: ClassVar[type[TaskRecipe]]
    device: torch.device = CPU
    """What the model is trained on; `prepare` may choose settings for it."""
    given_tokenizers: Tokenizers | None = None
    """Those of the run that this one begins with: `prepare` uses them and trains none."""
    given_labels: tuple[str, ...] = ()
    """The labels of the run that this one begins with, if both sort examples into classes."""

    def __init__(self, recipe: RecipeT, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder

    @abstractmethod
    def prepare(self, note: Notify, *, resumed: bool) -> None:
        """Read the corpus into the run's folder; a run that is `resumed` keeps what it read.

        Settings that the recipe leaves open get their values: `recipe` has them afterwards.
        """

    def record(self) -> None:
        """Write a description of what was read, by which a run is known to have begun."""
        described = dump_json({"task": self.recipe.task, **self.summary()})
        write_atomic(self.folder / "data" / PREPARED_FILE, described.encode())

    @property
    def given_tokenizer(self) -> Tokenizer | None:
        """The given tokenizer, for a task that has one vocabulary."""
        return None if self.given_tokenizers is None else self.given_tokenizers.source

    def make_tokenizer(self, texts: Iterable[str], settings: TokenizerSettings) -> Tokenizer:
        """The vocabulary of a new run: learned from its texts, or that of the run that it begins
        with, which may be extended by them.
        """
        given, count = self.given_tokenizer, self.recipe.added_pieces()
        if given is None:
            return train_tokenizer(texts, settings)
        return given if count is None else extend_tokenizer(given, texts, count)

    @abstractmethod
    def load(self) -> None:
        """Read what `prepare` wrote, as far as `new_model` and inference need it."""

    def use_other_weights(self, temperature: float | None) -> None:
        """Have what `load` read of the run's own weights go for a model with others: those of an
        adapter of a classifier with that `temperature`, or any without one.
        """

    def fitted_temperature(self) -> float | None:
        """Of a classifier: what logits are divided by, if that has been fitted to the weights."""
        return None

    @abstractmethod
    def new_model(self) -> ModelT:
        """A model of the recipe, its weights drawn from torch's generator."""

    def check_model(self, model: ModelT, note: Notify) -> None:
        """Raise a `SettingsError` if a new model cannot learn from the data."""

    def initialize(self, model: ModelT, taken: Collection[str] = ()) -> None:
        """Set what depends on the data in a model that has its first weights, once, before it is
        trained; but not the weights that are `taken` from another run, by their names.
        """

    def row_names(self) -> RowNames:
        """What the rows of a model stand for, in order, by kind (`Model.named_rows`)."""
        return {}

    @abstractmethod
    def training(self, model: ModelT) -> TrainingTask:
        """What the training loop needs."""

    def second_stage(self, model: ModelT) -> SecondStage | None:
        """What is trained after that, for a recipe with `second_stage_settings`."""
        return None

    @abstractmethod
    def summary(self) -> dict[str, str]:
        """What was read, as training shows it before it begins: name -> text."""

    def cleaning_report(self) -> CleaningReport | None:
        """What was dropped from the training data; None: they are not cleaned."""
        return None

    def choices(self) -> Sequence[SettingChoice]:
        """Values that `prepare` has chosen for settings that the recipe left open."""
        return ()

    def warnings(self) -> Sequence[str]:
        """What is odd about the data or the settings."""
        return ()

    def origin(self) -> str:
        """Where the data come from, for the card of an adapter."""
        return "; ".join(self.summary().values())


class Task(TrainableTask[RecipeT, ModelT]):
    """A task that measures its models itself. Translators and chatbots are measured by the
    pipelines that use them (`pipelines/run_evaluation.py`): their scores are of text.
    """

    def finish(self, model: ModelT) -> None:
        """Write into the run what depends on the weights of the trained model, if anything does."""

    @abstractmethod
    def held_out(self) -> SplitName:
        """The split to evaluate on: test, or valid where there is no test."""

    def read_test(self, files: Sequence[str], folder: Path) -> None:
        """Replace the split `test` by the examples of some files, in the run's own vocabulary and
        labels. They are kept in `folder`, as long as it exists. A `SettingsError` if a task cannot.
        """
        raise SettingsError(f"--data: runs of {self.recipe.task} are measured on their own data")

    @abstractmethod
    def evaluate(self, model: ModelT, split: SplitName) -> Evaluation:
        """The numbers of a trained model on a split."""

    def compare(
        self, model: ModelT, other: Self, its_model: ModelT, split: SplitName
    ) -> list[Comparison]:
        """Paired tests of a model against that of an `other` run of the task, on a split of this
        one; a `SettingsError` where a task has none.
        """
        raise SettingsError(f"--against: there is no test of two runs of {self.recipe.task}")

    def statistics(self, model: ModelT, split: SplitName) -> ExampleStatistics:
        """The score by which a comparison ranks runs of the task; a `SettingsError` if there is
        none.
        """
        raise SettingsError(f"runs of {self.recipe.task} have no score that is compared")


AnyTrainableTask = TrainableTask[Any, Any]
