"""What all classification tasks share: labels, batches, loss, metrics."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, TypeAdapter

from regard.atomic_io import write_atomic
from regard.batching.collate import PositionedBatch
from regard.batching.example_batches import Rows, example_batches, shortest_first
from regard.batching.sampler import WHOLE_STREAM, Shard, StreamPosition
from regard.batching.shape_buckets import Buckets, ExactShapes
from regard.corpora.corpus import ReadReport
from regard.corpora.labels import LabelledExample, label_set
from regard.corpora.source import SPLITS, leak_notes
from regard.errors import SettingsError
from regard.evaluation.classification import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    Accuracy,
    Classified,
    LabelIds,
    Logits,
    fit_temperature,
)
from regard.json_files import dump_json, load_json
from regard.manifest import sha256
from regard.models.contracts import AnyPredictor
from regard.settings import Settings, abbreviate
from regard.tasks.contracts import (
    ExampleStatistics,
    Notify,
    SplitName,
    Task,
    TaskRecipe,
)
from regard.tasks.families.split_files import SplitFiles
from regard.training.loop import Selection, TrainingTask
from regard.training.loss import LossFn, batch_loss
from regard.training.settings import TrainingSettings, ValidationSettings
from regard.training.weight_transfer import RowNames
from regard.types import AnyBatch, Batch, Inputs

EVALUATION_ROWS = 256  # examples that are classified at once
LABELS_FILE = "labels.json"  # in a run's data folder
CALIBRATION_FILE = "calibration.json"
LISTED_LABELS = 10  # in a message
ADVICE = "train again in another folder"

UNCALIBRATED = f"there is no {CALIBRATION_FILE}, which training writes at its end"
OTHER_WEIGHTS = f"{CALIBRATION_FILE} belongs to the run's own weights, and other weights are used"

InputsOf = Callable[[Rows], Inputs]  # numbers of examples (B,) -> what the model reads


class ClassificationValidationSettings(ValidationSettings):
    """When and how the model is validated on held-out examples."""

    by: Literal["accuracy", "loss"] = "accuracy"
    """What selects the best weights; among equal accuracies, the lower loss wins."""

    @property
    def selection(self) -> Selection:
        """The score that selects the best weights, and its direction. The loss breaks ties, which
        are frequent where accuracy is measured on few examples.
        """
        if self.by == "loss":
            return Selection("loss", lower_is_better=True)
        return Selection(self.by, lower_is_better=False, tie_breaker="loss")


class ClassificationTrainingSettings(TrainingSettings):
    """How a classifier is trained."""

    batch_size: PositiveInt = 32
    """Examples in a batch."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of each label's probability that is spread evenly over the classes."""
    validation: ClassificationValidationSettings = ClassificationValidationSettings()
    """When and how the model is validated on held-out examples."""


class ClassificationRecipe(TaskRecipe):
    """The settings that all recipes of classifiers share."""

    training: ClassificationTrainingSettings = ClassificationTrainingSettings()
    """How the model is trained."""


class Calibration(Settings):
    """How a run's classifier is calibrated, fitted on its validation data."""

    temperature: float = Field(ge=MIN_TEMPERATURE * 0.99, le=MAX_TEMPERATURE * 1.01)
    """What logits are divided by before they become probabilities."""


def load_labels(folder: Path) -> tuple[str, ...]:
    """The labels of a run, in the order of the rows of its output layer."""
    schema = TypeAdapter(tuple[str, ...])
    return load_json(folder / "data" / LABELS_FILE, schema, advice=ADVICE)


def list_labels(labels: Sequence[str]) -> str:
    """The first labels, for a message."""
    more = ", …" if len(labels) > LISTED_LABELS else ""
    return ", ".join(map(abbreviate, labels[:LISTED_LABELS])) + more


ClassificationRecipeT = TypeVar("ClassificationRecipeT", bound=ClassificationRecipe)


class ClassificationTask(Task[ClassificationRecipeT, AnyPredictor]):
    """An example -> one of the labels; V labels have the ids 0 to V - 1, in alphabetical order or
    in the order of the run that this one is initialised from.

    A subclass gives the examples of a corpus in `read_corpus`, which `prepare` keeps by
    `read_into_run`, and what its model reads of them in `inputs_of`. It overrides `loss` if it
    changes batches on the device, for example by mixing pictures.
    """

    nouns: ClassVar[str] = "examples"
    """What messages call examples."""

    labels: tuple[str, ...]
    given_labels: tuple[str, ...] = ()
    """The labels of the run that this one is initialised from."""
    temperature: float = 1.0
    """What logits are divided by before they become probabilities."""
    uncalibrated: str = UNCALIBRATED
    """Why no temperature has been fitted; empty if one has."""
    fitted_to: str = "the validation examples"
    """What the temperature was fitted to."""

    def __init__(self, recipe: ClassificationRecipeT, folder: Path) -> None:
        super().__init__(recipe, folder)
        self.splits = SplitFiles(folder)

    # -- examples -------------------------------------------------------------------------------

    @abstractmethod
    def read_corpus(self, corpus: Any, report: ReadReport) -> Mapping[SplitName, Sequence[Any]]:
        """The examples of each split."""

    def read_into_run(self, note: Notify) -> Mapping[SplitName, Sequence[Any]]:
        """The examples of each split, which are kept in the run, as are their labels."""
        report, corpus = ReadReport(), self.recipe.corpus
        with report.told_to(note):
            splits = self.read_corpus(corpus, report)
        labels = {split: [row.label for row in rows] for split, rows in splits.items()}
        self.save_labels(label_set(labels, corpus.files_label, note))
        for message in leak_notes(splits, corpus.corpus_label, self.nouns):
            note(message)
        for split, rows in splits.items():
            self.splits.write(split, (row.record() for row in rows))
        return splits

    def read_test(self, files: Sequence[str], folder: Path) -> None:
        rows = self.read_corpus(self.recipe.of_test_files(files).corpus, ReadReport())["test"]
        self.check_labels(rows)
        self.splits = SplitFiles(folder)
        self.splits.write("test", (row.record() for row in rows))

    def has_split(self, split: SplitName) -> bool:
        """Whether the run has examples for a split."""
        return self.splits.exists(split)

    def label_ids(self, split: SplitName) -> LabelIds:
        """The class of each example of a split: (N,)."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        rows = self.splits.read(split, "label")
        return np.array([numbers[label] for (label,) in rows], np.int64)

    @abstractmethod
    def inputs_of(self, split: SplitName) -> InputsOf:
        """Rows of a split -> what the model reads."""

    def lengths(self, split: SplitName) -> NDArray[np.intp]:
        """The length of each example (N,), to batch similar ones; all 0 unless overridden."""
        return np.zeros(len(self.label_ids(split)), np.intp)

    def save_labels(self, labels: tuple[str, ...]) -> None:
        """Write the labels into the run's data folder. If this run is initialised from another one
        that has all of these labels, its labels are written, in its order.
        """
        kept = self.given_labels if {*labels} <= {*self.given_labels} else labels
        write_atomic(self._labels_file, dump_json(kept, indent=1).encode())

    def check_labels(self, rows: Sequence[LabelledExample], hint: str = "") -> None:
        """Raise an error if some labels of other examples are unknown to the run."""
        if unknown := sorted({row.label for row in rows} - {*self.labels}):
            raise SettingsError(
                f"--data: the label {abbreviate(unknown[0])} is not one of those of {self.folder}: "
                f"{list_labels(self.labels)}{hint}"
            )

    def load(self) -> None:
        self.labels = load_labels(self.folder)
        if self._calibration_file.exists():
            found = load_json(self._calibration_file, Calibration, advice=ADVICE)
            self.temperature, self.uncalibrated = found.temperature, ""
        elif self.recipe.is_imported:
            self.uncalibrated = "the model was imported"

    def take_labels(self, start: Path) -> None:
        self.given_labels = load_labels(start)

    def use_other_weights(self, temperature: float | None) -> None:
        self.temperature = 1.0 if temperature is None else temperature
        self.uncalibrated = OTHER_WEIGHTS if temperature is None else ""
        self.fitted_to = "the validation examples of the adapter's run"

    def fitted_temperature(self) -> float | None:
        return None if self.uncalibrated else self.temperature

    def row_names(self) -> RowNames:
        return {"labels": self.labels}

    def held_out(self) -> SplitName:
        return "test" if self.has_split("test") else "valid"

    def summary(self) -> dict[str, str]:
        counts = {split: len(self.label_ids(split)) for split in SPLITS if self.has_split(split)}
        return {
            "examples": ", ".join(f"{count:,} {split}" for split, count in counts.items()),
            "labels": f"{len(self.labels):,}: {list_labels(self.labels)}",
        }

    @property
    def _calibration_file(self) -> Path:
        return self.folder / CALIBRATION_FILE

    @property
    def _labels_file(self) -> Path:
        return self.folder / "data" / LABELS_FILE

    # -- learning -------------------------------------------------------------------------------

    def training(self, model: AnyPredictor) -> TrainingTask:
        return TrainingTask(
            self.batches,
            self.loss(),
            self.validate,
            self.recipe.training.validation.selection,
            self.buckets(),
            has_perplexity=False,
            unit="examples",
        )

    def batches(
        self, start: StreamPosition, shard: Shard = WHOLE_STREAM
    ) -> Iterator[PositionedBatch]:
        """An endless stream of training batches."""
        settings, labels = self.recipe.training, torch.from_numpy(self.label_ids("train"))
        inputs_of = self.inputs_of("train")

        def make_batch(rows: Rows) -> AnyBatch:
            return Batch(inputs_of(rows), None, None, labels[torch.from_numpy(rows)])

        lengths = self.lengths("train")
        size, seed = settings.batch_size, settings.seed
        return example_batches(lengths, size, seed, make_batch, start, shard)

    def loss(self) -> LossFn:
        """The training loss."""
        return partial(batch_loss, smoothing=self.recipe.training.label_smoothing)

    def buckets(self) -> Buckets[Any]:
        """The shapes to which batches are padded for CUDA graphs."""
        return ExactShapes()

    # -- measuring ------------------------------------------------------------------------------

    def validate(self, model: AnyPredictor) -> dict[str, float]:
        """Accuracy and loss on the validation examples."""
        found = self.classify_split(model, "valid")
        return {"loss": found.nll(), "accuracy": found.accuracy()}

    def check_member(self, other: "AnyClassificationTask") -> None:
        """Raise an error unless another run can join an ensemble with this one: it must have the
        same labels, in any order.
        """
        runs = (other, self), (self, other)
        if lacking := [
            f"{one.folder} lacks {list_labels(unknown)}"
            for one, more in runs
            if (unknown := sorted({*more.labels} - {*one.labels}))
        ]:
            raise SettingsError(
                f"--ensemble: {other.folder} has other labels than {self.folder}: "
                f"{'; '.join(lacking)}"
            )

    def calibrated(self, logits: Logits, of: "AnyClassificationTask") -> Logits:
        """The calibrated logits (N, V) of a run with the same labels, in this run's order."""
        columns = [of.labels.index(label) for label in self.labels]
        return logits[:, columns] / of.temperature

    def classify_split(self, model: AnyPredictor, split: SplitName) -> Classified:
        """The logits of a model for the examples of a split, and their labels."""
        logits = classify_examples(model, self.inputs_of(split), self.lengths(split))
        return Classified(logits, self.label_ids(split))

    def finish(self, model: AnyPredictor) -> None:
        """Fit the temperature to the validation data, and write it into the run."""
        self.temperature = fit_temperature(self.classify_split(model, "valid"))
        self.uncalibrated = ""
        calibration = Calibration(temperature=self.temperature)
        content = dump_json(calibration.model_dump(), indent=1)
        write_atomic(self._calibration_file, content.encode())

    def describe_fit(self, split: SplitName) -> str:
        """Where the temperature is from, for scores on a split."""
        if self.uncalibrated:
            return f"has not been fitted: {self.uncalibrated}"
        if self.temperature == 1.0:
            return f"is not fitted, as all of {self.fitted_to} are right"
        own = self.fitted_to == ClassificationTask.fitted_to
        same = ", the same examples" if own and split == "valid" else ""
        return f"was fitted to {self.fitted_to}{same}"

    def statistics(self, model: AnyPredictor, split: SplitName) -> ExampleStatistics:
        """Accuracy."""
        metric, found = Accuracy(), self.classify_split(model, split)
        known = sorted(self.labels)  # the order of labels may differ from run to run
        order = np.array([known.index(label) for label in self.labels])
        examples = dump_json([known, order[found.labels].tolist()])
        return ExampleStatistics(metric, metric.count(found), sha256(examples.encode()))

    def check_same_examples(
        self, other: Self, split: SplitName, *, option: str = "--against"
    ) -> None:
        """Raise an error unless a split of another run has the same sequence of labels."""
        ours, theirs = ([one.labels[n] for n in one.label_ids(split)] for one in (self, other))
        if {*self.labels} != {*other.labels} or ours != theirs:
            raise SettingsError(f"{option}: {other.folder} has other {split} examples or labels")


AnyClassificationTask = ClassificationTask[Any]
"""A task of either kind."""


@torch.inference_mode()
def classify_examples(
    model: AnyPredictor, inputs_of: InputsOf, lengths: NDArray[np.intp]
) -> Logits:
    """The logits (N, V) of N examples of `lengths` (N,)."""
    device, found = next(model.parameters()).device, list[torch.Tensor]()
    order = list(shortest_first(lengths, EVALUATION_ROWS))
    for rows in order:
        found.append(model(inputs_of(rows).to(device)).float())  # (B, V)
    logits = torch.cat(found).double().cpu().numpy()
    return np.asarray(logits[np.argsort(np.concatenate(order))])
