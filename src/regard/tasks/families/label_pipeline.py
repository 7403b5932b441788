"""The common base of all classifiers: examples -> labels with calibrated probabilities."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike, fspath
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from rich.console import RenderableType

from regard.errors import PictureError, SettingsError
from regard.evaluation.classification import (
    CALIBRATION_BINS,
    Classified,
    Confusion,
    Logits,
    MacroF1,
    calibration_error,
    class_sums,
    compare_classified,
    confusion_matrix,
    log_softmax,
    mean_log_probs,
    wilson_interval,
)
from regard.evaluation.scores import Comparison, ScoreSettings
from regard.inspection.plots.figure import FORMATS
from regard.inspection.plots.plain_table import probability_table
from regard.models.contracts import AnyPredictor
from regard.recipes.evaluator import EvaluationOptions, Evaluator
from regard.recipes.open_run import Run
from regard.tasks.contracts import Evaluation, Notify, SplitName
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
        return self._ranked(self._mean([logits_of(run) for run in runs]))

    def _mean(self, logits: Sequence[Logits]) -> Logits:
        """The logs of the mean of the calibrated probabilities (N, V) of all runs."""
        runs = zip((self, *self.others), logits, strict=True)
        return mean_log_probs([self.task.calibrated(some, run.task) for run, some in runs])

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

    # -- measuring ------------------------------------------------------------------------------

    def classify_split(self, split: SplitName) -> Classified:
        """The logits of the model, or of the ensemble, for the examples of a split; their
        labels.
        """
        for other in self.others:
            self.task.check_same_examples(other.task, split, option="--ensemble")
        runs = (self, *self.others)
        first, *rest = (run.task.classify_split(run.model, split) for run in runs)
        if not rest:
            return first
        return Classified(self._mean([first.logits, *(one.logits for one in rest)]), first.labels)

    def evaluate(self, split: SplitName) -> Evaluation:
        """The numbers of a split."""
        classified = self.classify_split(split)
        # each member of an ensemble is calibrated by itself
        temperature = 1.0 if self.others else self.task.temperature
        counts = confusion_matrix(classified)  # (V, V)
        right, total = int(counts.trace()), int(counts.sum())
        numbers = {
            "accuracy": classified.accuracy(),
            "macro_f1": MacroF1().value(np.concatenate(class_sums(counts)).astype(np.float64)),
            "nll": classified.nll(),
            "nll_calibrated": classified.nll(temperature),
            "calibration_error": calibration_error(classified),
            "calibration_error_calibrated": calibration_error(classified, temperature),
        }
        notes = (
            f"{right:,} of {total:,} examples right; accuracy, F1 and errors in percent, the "
            "interval by Wilson's score, likelihoods in nats",
            f"{self._describe_calibration(split)}; expected calibration error in "
            f"{CALIBRATION_BINS} bins",
        )
        intervals = {"accuracy": wilson_interval(right, total)}
        return Evaluation(split, numbers, notes, intervals, Confusion(self.labels, counts))

    def _describe_calibration(self, split: SplitName) -> str:
        if self.others:
            tasks = [self.task, *(other.task for other in self.others)]
            raw = ", ".join(str(task.folder) for task in tasks if task.uncalibrated)
            but = f", but {raw}, which has no temperature" if raw else ""
            return (
                f"the mean of the probabilities of {len(tasks)} runs, each calibrated by its own "
                f"data{but}"
            )
        divided = f"logits divided by the temperature {self.task.temperature:.3f}"
        return f"calibrated: {divided}, which {self.task.describe_fit(split)}"

    def compare(self, other: Self, split: SplitName) -> list[Comparison]:
        """Paired bootstrap tests of its answers against those of another run."""
        self.task.check_same_examples(other.task, split)
        theirs, ours = other.classify_split(split), self.classify_split(split)
        return compare_classified(theirs, ours, ScoreSettings())


class LabelEvaluator(Evaluator):
    """Measures classifiers, alone or together."""

    uses: ClassVar[str] = "data ensemble output"

    def __init__(self, options: EvaluationOptions, tell: Notify) -> None:
        super().__init__(options, tell)
        if options.output is not None and options.output.suffix not in (".json", *FORMATS):
            raise SettingsError(
                f"--output {options.output}: its name should end in {', '.join(FORMATS)} or .json"
            )

    @classmethod
    def measure(cls, runs: Sequence[Run], split: SplitName) -> Evaluation:
        evaluation: Evaluation = runs[0].spec.pipeline()(*runs).evaluate(split)
        return evaluation

    @classmethod
    def compare(cls, runs: Sequence[Run], other: Run, split: SplitName) -> list[Comparison]:
        build = runs[0].spec.pipeline()
        tests: list[Comparison] = build(*runs).compare(build(other), split)
        return tests


AnyLabelPipeline = LabelPipeline[Any, Any, Classification[Any]]
"""A classifier of texts or of pictures."""
