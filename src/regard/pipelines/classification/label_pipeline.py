"""What the pipelines of all classifiers share: examples -> labels with calibrated probabilities."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from regard.evaluation.classification import Logits, log_softmax
from regard.models.contracts import AnyPredictor
from regard.settings import abbreviate
from regard.tasks.classification import UNCALIBRATED, AnyClassificationTask

DECIMALS = 6


class LikelyLabel(NamedTuple):
    """A label that an example may have."""

    label: str
    probability: float  # calibrated
    before: float | None = None  # the probability without interventions


@dataclass(frozen=True, eq=False, repr=False)
class Classification:
    """The labels of a text or a picture, the likeliest first."""

    given: str  # the text, or the file of the picture
    labels: tuple[LikelyLabel, ...]  # all; empty if there was nothing to classify
    notes: tuple[str, ...] = ()  # what is odd about it
    error: str | None = None  # why there is no label

    @property
    def label(self) -> str:
        """The likeliest label, or nothing."""
        return self.labels[0].label if self.labels else ""

    @property
    def probability(self) -> float:
        """How likely it is."""
        return self.labels[0].probability if self.labels else 0.0

    def to_json(self, best: int | None = None) -> dict[str, Any]:
        """Plain values, with the `best` labels alone, if given."""
        if self.error is not None:
            return {"given": self.given, "error": self.error}
        labels = {one.label: one.probability for one in self.labels[:best]}
        return {"given": self.given, "labels": labels, "notes": list(self.notes)}

    def __repr__(self) -> str:
        return f"<Classification {abbreviate(repr(self.given))}: {self.error or self}>"

    def __str__(self) -> str:
        return f"{self.label} {self.probability:.1%}" if self.labels else ""


TaskT = TypeVar("TaskT", bound=AnyClassificationTask)
ModelT = TypeVar("ModelT", bound=AnyPredictor)


class LabelPipeline(ABC, Generic[TaskT, ModelT]):
    """A classifier as a function of what `regard classify` is given."""

    names_examples: ClassVar[bool] = False
    """Whether `given` are names of files, which are printed beside their labels."""

    def __init__(self, task: TaskT, model: ModelT) -> None:
        self.task, self.model = task, model

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels."""
        return self.task.labels

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know about all answers."""
        if self.task.is_calibrated or self.task.recipe.is_imported:
            return ()
        return (f"{self.task.folder}: {UNCALIBRATED}: probabilities are not calibrated",)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.task.folder}, {len(self.labels)} labels>"

    @abstractmethod
    def find(self, arguments: Sequence[str]) -> list[str]:
        """The texts, or the files of pictures, that arguments of a command line or lines of its
        input name.
        """

    @abstractmethod
    def stream(self, given: Sequence[str]) -> Iterator[Classification]:
        """An answer for each example that `find` returned, in order, as they are made."""

    def classify(self, given: Sequence[str]) -> list[Classification]:
        """The same, all at once."""
        return list(self.stream(given))

    def likely_labels(
        self, logits: Logits, before: Logits | None = None
    ) -> list[tuple[LikelyLabel, ...]]:
        """The labels of examples by their logits (N, V), each row's likeliest first; `before` are
        the logits without interventions.
        """
        shares, others = (
            None if x is None else np.exp(log_softmax(x / self.task.temperature)).round(DECIMALS)
            for x in (logits, before)
        )
        assert shares is not None
        orders = np.argsort(-logits, axis=-1, kind="stable")  # (N, V)
        return [
            tuple(
                LikelyLabel(
                    self.labels[label],
                    float(shares[row, label]),
                    None if others is None else float(others[row, label]),
                )
                for label in order.tolist()
            )
            for row, order in enumerate(orders)
        ]


AnyLabelPipeline = LabelPipeline[Any, Any]
"""A classifier of texts or of pictures."""
