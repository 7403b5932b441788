"""The common base of all classifiers: examples -> labels with calibrated probabilities."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike, fspath
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from rich.console import RenderableType

from regard.errors import PictureError
from regard.evaluation.classification import Logits, log_softmax, mean_log_probs
from regard.inspection.plots.plain_table import probability_table
from regard.models.contracts import AnyPredictor
from regard.recipes.open_run import Run
from regard.tasks.families.classification import AnyClassificationTask
from regard.tasks.families.pipeline import AttentionT, Pipeline, TaskAnswer
from regard.tasks.families.viewer_document import ViewerCandidate

DECIMALS = 6
SHOWN_LABELS = 10  # in the terminal, and on a page


class LikelyLabel(NamedTuple):
    """A label that an example may have."""

    label: str
    probability: float  # calibrated
    before: float | None = None  # the probability without interventions

    def __str__(self) -> str:
        return f"{self.label} {self.probability:.1%}"


@dataclass(frozen=True, eq=False, repr=False)
class Classification(TaskAnswer[AttentionT]):
    """The labels of a text or a picture, the likeliest first."""

    given: str  # the text, or the file of the picture
    labels: tuple[LikelyLabel, ...]  # all; empty if there was nothing to classify

    title = "the likeliest labels"

    @property
    def label(self) -> str:
        """The likeliest label; empty if there is none."""
        return self.labels[0].label if self.labels else ""

    @property
    def probability(self) -> float:
        """The probability of the likeliest label."""
        return self.labels[0].probability if self.labels else 0.0

    def to_json(self, best: int | None = None) -> dict[str, Any]:
        """Plain values, with only the `best` labels if given."""
        if self.error is not None:
            return {"given": self.given, "error": self.error}
        labels = {one.label: one.probability for one in self.labels[:best]}
        return {"given": self.given, "labels": labels, "notes": list(self.notes)} | self.look_json()

    def table(self) -> RenderableType:
        """The likeliest labels, for the terminal."""
        return probability_table("label", self.labels[:SHOWN_LABELS])

    def shown_candidates(self) -> list[ViewerCandidate]:
        """The likeliest labels, as the viewer lists them."""
        return [{"text": one.label, "score": one.probability} for one in self.labels[:SHOWN_LABELS]]

    def text_html(self) -> str:
        return f"<p>{escape(self.given)} → <b>{escape(self.error or str(self))}</b></p>"

    def __str__(self) -> str:
        return str(self.labels[0]) if self.labels else ""


TaskT = TypeVar("TaskT", bound=AnyClassificationTask)
ModelT = TypeVar("ModelT", bound=AnyPredictor)
LabelsT = TypeVar("LabelsT", bound=Classification[Any])


class LabelPipeline(ABC, Pipeline[TaskT, ModelT], Generic[TaskT, ModelT, LabelsT]):
    """A classifier as a function of the arguments of `regard classify`; several answer by the mean
    of their probabilities.
    """

    names_examples: ClassVar[bool] = False
    """Whether examples are named by files, whose names are printed beside their labels."""

    def __init__(self, run: Run, *others: Run) -> None:
        super().__init__(run, *others)
        for other in self.others:
            self.task.check_member(other.task)

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels."""
        return self.task.labels

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings about all answers."""
        return tuple(
            f"{one.folder}: {one.task.uncalibrated}: probabilities are not calibrated"
            for one in (self, *self.others)
            if one.task.uncalibrated and not one.task.recipe.is_imported
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.folder}, {len(self.labels)} labels>"

    def __call__(self, given: str | PathLike[str]) -> LabelsT:
        """The labels of one text or picture; a `PictureError` if it cannot be read."""
        [answer] = self.classify([fspath(given)])
        if answer.error is not None:
            raise PictureError(answer.error)
        return answer

    def find(self, arguments: Sequence[str]) -> list[str]:
        """The texts or picture files that arguments of a command line, or lines of its input,
        name.
        """
        return list(arguments)

    @abstractmethod
    def stream(self, given: Sequence[str]) -> Iterator[LabelsT]:
        """An answer for each example that `find` returned, in order, as they are made."""

    def classify(self, given: Sequence[str]) -> list[LabelsT]:
        """The same, all at once."""
        return list(self.stream(given))

    def likely_labels(
        self, logits: Logits, before: Logits | None = None
    ) -> list[tuple[LikelyLabel, ...]]:
        """The labels of examples by their logits (N, V), each row's likeliest first; `before` are
        the logits without interventions.
        """
        temperature = self.task.temperature
        others = None if before is None else log_softmax(before / temperature)
        return self._ranked(log_softmax(logits / temperature), others)

    def voted_labels(self, logits_of: Callable[[Any], Logits]) -> list[tuple[LikelyLabel, ...]]:
        """The same by all runs of the ensemble, whose logits `logits_of` computes."""
        runs = (self, *self.others)
        if len(runs) == 1:
            return self.likely_labels(logits_of(self))
        calibrated = [self.task.calibrated(logits_of(one), one.task) for one in runs]
        return self._ranked(mean_log_probs(calibrated))

    def _ranked(
        self, log_probs: Logits, before: Logits | None = None
    ) -> list[tuple[LikelyLabel, ...]]:
        shares, others = (
            None if x is None else np.exp(x).round(DECIMALS) for x in (log_probs, before)
        )
        assert shares is not None
        orders = np.argsort(-log_probs, axis=-1, kind="stable")  # (N, V)
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


AnyLabelPipeline = LabelPipeline[Any, Any, Classification[Any]]
"""A classifier of texts or of pictures."""
