"""The interface of all tasks but translation, by which runs are trained, evaluated and loaded."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar

from regard.errors import SettingsError
from regard.evaluation.classification import Confusion
from regard.evaluation.scores import Comparison, Interval
from regard.models.contracts import AnyModel
from regard.settings import Settings
from regard.training.loop import TrainingSettings, TrainingTask

SplitName = Literal["train", "valid", "test"]
Notify = Callable[[str], None]  # shows a message about progress


class TaskRecipe(Settings):
    """What every recipe says, whatever is learned."""

    task: str
    """What is learned."""
    name: str
    """What the run is called; `runs/NAME` is where it goes unless told otherwise."""
    about: str = ""
    """What the recipe is for, in a sentence or two."""
    if TYPE_CHECKING:  # every recipe has both, behind its corpus
        model: Any
        training: TrainingSettings

    @classmethod
    def corpus_of_files(cls, own: Mapping[str, Any], files: Mapping[str, Any]) -> dict[str, Any]:
        """The group `corpus` of a recipe, which has `own`, with files of the command line instead.

        `files` has `train` and perhaps `valid`, `test` and `languages`, as `CorpusSettings` has
        them; `tasks.corpus_files` has what recipes share that take plain names. A `SettingsError`
        where a task has no use for them.
        """
        raise SettingsError("its task does not learn from files that options name; drop them")


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


class Task(ABC, Generic[RecipeT, ModelT]):
    """Data and vocabularies of a run, and what its model learns from them.

    `prepare` makes the files of a run's data folder, unless they exist, and `load` reads what a
    trained model needs of them. What they write is checked by the run's manifest.
    """

    recipe_class: ClassVar[type[TaskRecipe]]

    def __init__(self, recipe: RecipeT, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder

    @abstractmethod
    def prepare(self, note: Notify, *, resumed: bool) -> None:
        """Read the corpus into the run's folder; a run that is `resumed` keeps what it read."""

    @abstractmethod
    def load(self) -> None:
        """Read what `prepare` wrote, as far as `new_model` and inference need it."""

    @abstractmethod
    def new_model(self) -> ModelT:
        """A model of the recipe, its weights drawn from torch's generator."""

    @abstractmethod
    def training(self, model: ModelT) -> TrainingTask:
        """What the training loop needs."""

    def finish(self, model: ModelT) -> None:
        """Write into the run what depends on the weights of the trained model, if anything does."""

    @abstractmethod
    def held_out(self) -> SplitName:
        """The split to evaluate on: test, or valid where there is no test."""

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

    @abstractmethod
    def summary(self) -> dict[str, str]:
        """What was read, as training shows it before it begins: name -> text."""


AnyTask = Task[Any, Any]
