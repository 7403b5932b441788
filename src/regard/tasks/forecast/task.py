"""Forecasting: the numbers that follow a window of a series."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import PositiveInt, model_validator

from regard.batching.collate import PositionedBatch
from regard.batching.sampler import WHOLE_STREAM, Shard, StreamPosition
from regard.errors import SettingsError
from regard.evaluation.mean_losses import MeanLoss, compare_losses
from regard.evaluation.scores import Comparison
from regard.manifest import check_file
from regard.models.contracts import Predictor
from regard.models.series.recurrent import SimpleRnn, SimpleRnnSettings
from regard.tasks.contracts import Evaluation, Notify, SplitName, Task, TaskRecipe
from regard.tasks.forecast.series import (
    Indices,
    NumberSeries,
    SeriesSettings,
    SeriesWindows,
    Windows,
    build_series,
    read_series,
    split_targets,
    write_series,
)
from regard.training.loop import Selection, TrainingTask
from regard.training.loss import squared_error_loss
from regard.training.settings import TrainingSettings
from regard.training.step import PrecisionName
from regard.types import Batch, Series

SERIES_FILE = "series.csv"
EVALUATION_ROWS = 4096  # windows that are forecast at once


class ForecastTrainingSettings(TrainingSettings):
    """How a model is trained."""

    batch_size: PositiveInt = 64
    """Windows in a batch."""
    precision: PrecisionName = "float32"
    """The precision of matrix products; forecasts need more digits than bfloat16 has."""


class ForecastRecipe(TaskRecipe):
    """One run of a forecaster: its data, its model and its training."""

    task: Literal["forecast"]
    """The task: predicting the numbers that follow a series."""
    corpus: SeriesSettings
    """The training data."""
    model: SimpleRnnSettings = SimpleRnnSettings()
    """The model."""
    training: ForecastTrainingSettings = ForecastTrainingSettings()
    """How the model is trained."""

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.model.attention != "none" and self.model.time_steps != self.corpus.window:
            raise ValueError(
                f"model.time_steps {self.model.time_steps} must be corpus.window "
                f"{self.corpus.window}: attention has a weight for each time step of a window"
            )
        return self


class ForecastErrors(NamedTuple):
    """Scaled forecasts and the true numbers, each (N, F)."""

    found: NDArray[np.float64]
    wanted: NDArray[np.float64]
    last: NDArray[np.float64]  # the last number of each window

    def mse(self) -> float:
        """The mean squared error."""
        return float(np.square(self.found - self.wanted).mean())


class Forecast(Task[ForecastRecipe, Predictor[Series]]):
    """A window of a series -> the numbers of the next time step."""

    series: NumberSeries
    windows: SeriesWindows
    targets: dict[SplitName, Indices]

    @property
    def file(self) -> Path:
        """The file of the series that the run has read."""
        return self.folder / "data" / SERIES_FILE

    def prepare(self, note: Notify, *, resumed: bool) -> None:
        if not (resumed and self.file.exists()):
            series = build_series(self.recipe.corpus)
            split_targets(self.recipe.corpus, series)  # an error if it is too short
            write_series(self.file, series)
        self.load()

    def load(self) -> None:
        check_file(self.file)
        columns = tuple(range(self._num_columns()))
        self.series = read_series(str(self.file), columns)
        self.windows = SeriesWindows(self.recipe.corpus, self.series)
        self.targets = split_targets(self.recipe.corpus, self.series)

    def _num_columns(self) -> int:
        return len(self.recipe.corpus.columns) if self.recipe.corpus.file is not None else 1

    def new_model(self) -> Predictor[Series]:
        return SimpleRnn(self.recipe.model, self._num_columns())

    def training(self, model: Predictor[Series]) -> TrainingTask:
        return TrainingTask(
            self.batches,
            squared_error_loss,
            self.validate,
            Selection("mse", lower_is_better=True),
            has_perplexity=False,
            unit="windows",
        )

    def batches(
        self, start: StreamPosition, shard: Shard = WHOLE_STREAM
    ) -> Iterator[PositionedBatch]:
        """An endless stream of batches: windows of random length, all once in each epoch."""
        for targets, lengths, behind in shard.take(self._positioned_targets(start)):
            yield PositionedBatch(self.cut(targets, lengths)[0], behind)

    def _positioned_targets(
        self, start: StreamPosition
    ) -> Iterator[tuple[Indices, Indices, StreamPosition]]:
        """The targets of each batch, the lengths of their windows, and the position after it."""
        seed, size = self.recipe.training.seed, self.recipe.training.batch_size
        epoch, first = start
        while True:
            random = np.random.default_rng([seed, epoch])
            targets = random.permutation(self.targets["train"])
            lengths = self.windows.random_lengths(targets, random)
            count = -(-len(targets) // size)
            for number in range(first, count):
                rows = slice(number * size, (number + 1) * size)
                behind = (epoch, number + 1) if number + 1 < count else (epoch + 1, 0)
                yield targets[rows], lengths[rows], StreamPosition(*behind)
            epoch, first = epoch + 1, 0

    def cut(self, targets: Indices, lengths: Indices) -> tuple[Batch[Series], Windows]:
        """The windows before `targets`, as a batch and as they were cut."""
        windows = self.windows.cut(self.series.values, targets, lengths)
        labels = windows.scale.apply(self.series.values[targets])  # (B, F)
        return Batch(to_inputs(windows), None, None, torch.from_numpy(labels).float()), windows

    def validate(self, model: Predictor[Series]) -> dict[str, float]:
        """The error on the validation windows."""
        return {"mse": self.forecast_split(model, "valid").mse()}

    @torch.inference_mode()
    def forecast_split(self, model: Predictor[Series], split: SplitName) -> ForecastErrors:
        """Forecasts of a split; windows are shortened as in training, but each always by the same
        amount.
        """
        device, targets = next(model.parameters()).device, self.targets[split]
        lengths = self.windows.random_lengths(targets, np.random.default_rng(0))
        parts = []
        for first in range(0, len(targets), EVALUATION_ROWS):
            rows = slice(first, first + EVALUATION_ROWS)
            batch, windows = self.cut(targets[rows], lengths[rows])
            found = model(batch.inputs.to(device)).double().cpu().numpy()  # (B, F)
            parts.append((found, batch.labels.double().numpy(), windows.values[:, -1]))
        return ForecastErrors(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def held_out(self) -> SplitName:
        return "test"

    def evaluate(self, model: Predictor[Series], split: SplitName) -> Evaluation:
        errors = self.forecast_split(model, split)
        gaps = np.abs(errors.found - errors.wanted)
        naive = ForecastErrors(errors.last, errors.wanted, errors.last).mse()
        count, scaling = len(errors.found), self.recipe.corpus.scaling
        return Evaluation(
            split,
            {"mse": errors.mse(), "mae": float(gaps.mean()), "mse of the last number": naive},
            (f"{count:,} windows; errors of the scaled numbers ({scaling})",),
        )

    def compare(
        self,
        model: Predictor[Series],
        other: Self,
        its_model: Predictor[Series],
        split: SplitName,
    ) -> list[Comparison]:
        """Paired tests of squared and absolute errors of the same forecasts."""
        ours, theirs = self.forecast_split(model, split), other.forecast_split(its_model, split)
        if not np.array_equal(ours.wanted, theirs.wanted):
            raise SettingsError(
                f"--against: {other.folder} forecasts other {split} windows: a test needs the same "
                "series, windows and scaling"
            )
        gaps, their_gaps = (one.found - one.wanted for one in (ours, theirs))  # (N, F)
        return [
            compare_losses(measure(their_gaps).mean(1), measure(gaps).mean(1), metric)
            for measure, metric in (
                (np.square, MeanLoss("mse", "window")),
                (np.abs, MeanLoss("mae", "window")),
            )
        ]

    def summary(self) -> dict[str, str]:
        series, counts = self.series, {name: len(rows) for name, rows in self.targets.items()}
        windows = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        shape = f"{len(series.values):,} time steps of {', '.join(series.columns)}"
        name = self.recipe.corpus.name or self.recipe.corpus.file
        return {"series": f"{name}: {shape}", "windows": windows}


def to_inputs(windows: Windows) -> Series:
    """The model's input for some windows."""
    return Series(torch.from_numpy(windows.values).float(), torch.from_numpy(windows.mask))
