"""A saved model as a function: a series -> the numbers that come next."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import RenderableType

from regard.errors import CorpusError, SettingsError
from regard.inspection.interventions import HeadChange, HeadCounts
from regard.inspection.plots.figure import ThemeName
from regard.inspection.plots.terminal import WeightBars
from regard.inspection.plots.time_weights import TimeWeights, plot_time_weights
from regard.inspection.recording.recorder import AttentionRecorder, compose_hooks
from regard.inspection.viewer.html_page import render_series_page
from regard.models.contracts import Predictor
from regard.recipes.open_run import Run
from regard.tasks.families.pipeline import Pipeline, TaskAnswer
from regard.tasks.families.viewer_document import HeadAblation
from regard.tasks.forecast.options import is_table
from regard.tasks.forecast.series import MAX_MAGNITUDE, Numbers, Scale, parse_number, read_series
from regard.tasks.forecast.task import Forecast, to_inputs
from regard.types import AttentionHook, Series

INVISIBLE_SPREAD = 1e-6  # scaled numbers that differ by less look the same to a model
DOCUMENT_VERSION = 1  # the format's version
Row = float | Sequence[float]  # the numbers of a time step


@dataclass(frozen=True, eq=False, repr=False)
class SeriesAnswer(TaskAnswer[TimeWeights]):
    """A forecast; a look has the attention of the first step."""

    alt = "weights over time"
    heads: ClassVar[HeadCounts] = {"cross": {0: 1}}

    given: Numbers  # (N, F)
    forecast: Numbers  # (steps, F)

    @property
    def value(self) -> float:
        """The next number, of the first column."""
        return float(self.forecast[0, 0])

    @property
    def title(self) -> str:
        """The kind of the weights."""
        return self.required_attention().title

    def plot(self, *, theme: ThemeName = "light") -> Figure:
        """A figure of the weights over time."""
        return plot_time_weights(self.required_attention(), theme=theme)

    def show(self) -> RenderableType:
        """The weights over time, for the terminal."""
        attention = self.required_attention()
        return WeightBars(attention.weights, attention.labels)

    def render(self, model: str, without: Sequence[HeadAblation]) -> str:
        return render_series_page(series_document(self, model=model))

    def to_json(self) -> dict[str, Any]:
        """Plain values; numbers of one column are not nested."""
        one = self.forecast.shape[1] == 1
        given, forecast = (x[:, 0] if one else x for x in (self.given, self.forecast))
        document: dict[str, Any] = {"given": given.tolist(), "forecast": forecast.tolist()}
        document["notes"] = list(self.notes)
        return document | self.look_json()

    def look_json(self) -> dict[str, Any]:
        if self.attention is None:
            return {}
        weights, normalized = self.attention.weights.tolist(), self.attention.normalized
        before = {} if self.before is None else {"before": self.before.to_json()["forecast"]}
        return before | {"attention": {"weights": weights, "normalized": normalized}}

    def __str__(self) -> str:
        return format_rows(self.forecast)


class Forecaster(Pipeline[Forecast, Predictor[Series]]):
    """A model as a function of a series of numbers."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.columns = self.task.series.columns

    def __repr__(self) -> str:
        return f"<Forecaster {self.folder}, of {', '.join(self.columns)}>"

    def __call__(
        self,
        numbers: Sequence[Row],
        *,
        steps: int = 1,
        look: bool = False,
        changes: Sequence[HeadChange] = (),
    ) -> SeriesAnswer:
        """The forecast after `numbers`, which are a number, or one a column, for each time step.

        Each of the `steps` is forecast from `numbers` and the forecasts before it. `changes` apply
        at every step. With them or with `look`, the attention of the first step is recorded.
        """
        if changes:
            return self.look_under(changes, partial(self._forecast, numbers, steps, True))
        return self._forecast(numbers, steps, look, ())

    def _forecast(
        self,
        numbers: Sequence[Row],
        steps: int,
        look: bool,
        changes: Sequence[HeadChange],
    ) -> SeriesAnswer:
        given = self._to_rows(numbers)
        if steps < 1:
            raise SettingsError(f"steps: must be at least 1, got {steps}")
        values, attention = given, None
        for step in range(steps):
            recorder = AttentionRecorder() if look and step == 0 else None
            hooks: list[AttentionHook] = [*changes, *([recorder] if recorder else [])]
            forecast, scaled, scale = self._next(values, compose_hooks(*hooks) if hooks else None)
            if recorder is not None:
                attention = self._attention(given, forecast, scaled, scale, recorder)
            values = np.concatenate([values, forecast])
        forecast = values[len(given) :]
        return SeriesAnswer(given, forecast, notes=self._notes(given), attention=attention)

    def look(self, texts: Sequence[str], changes: Sequence[HeadChange] = ()) -> SeriesAnswer:
        """The forecast of a series as `read` takes it, with its attention."""
        return self(self.read(texts), look=True, changes=changes)

    def read(self, texts: Sequence[str]) -> Sequence[Row]:
        """The series in `texts`: numbers, or the name of a table with the run's columns."""
        if is_table(texts):
            rows: list[list[float]] = read_series(
                texts[0], self.task.recipe.corpus.columns
            ).values.tolist()
            return rows
        return self.parse(" ".join(texts))

    def parse(self, text: str) -> Sequence[Row]:
        """The series in a text: numbers with spaces or commas between them; with several columns,
        spaces between time steps and commas between the numbers of a step.
        """
        one = len(self.columns) == 1
        steps = (text.replace(",", " ") if one else text).split()
        return [
            [parse_number(number, f"time step {place}") for number in step.split(",")]
            for place, step in enumerate(steps, 1)
        ]

    def _to_rows(self, numbers: Sequence[Row]) -> Numbers:
        """The numbers as (N, F); an error if there are none, or they are not finite or not F."""
        width, wanted = len(self.columns), ", ".join(self.columns)
        if not len(numbers):
            raise SettingsError(f"the series is empty: give one or more numbers of {wanted}")
        try:
            rows = np.array(numbers, np.float64).reshape(len(numbers), -1)
        except ValueError:
            raise SettingsError("the series: time steps must have equally many numbers") from None
        if rows.shape[1] != width:
            raise SettingsError(
                f"the series: a time step has {width} numbers ({wanted}), got {rows.shape[1]}"
            )
        if not (np.abs(rows) <= MAX_MAGNITUDE).all():  # also if one is NaN
            raise CorpusError(
                f"the series: expected finite numbers of at most {MAX_MAGNITUDE:g}; fill or remove "
                "the others"
            )
        return rows

    def _notes(self, given: Numbers) -> tuple[str, ...]:
        corpus = self.task.recipe.corpus
        window = self.task.windows.last(given)
        scaled = window.values[window.mask]  # (S, F)
        spread = np.ptp(scaled, axis=0).max()
        if corpus.scaling == "minmax" and len(scaled) > 1 and spread < INVISIBLE_SPREAD:
            low, high = self.task.series.values.min(), self.task.series.values.max()
            return (
                f"in the scale of the series, from {low:.3g} to {high:.3g}, all these numbers look "
                "the same; a model trained with corpus.scaling window-maxabs can tell them apart",
            )
        if len(given) < corpus.shortest_window:
            return (
                f"{len(given)} time steps are fewer than the {corpus.shortest_window} of the "
                "shortest window in training",
            )
        return ()

    @torch.inference_mode()
    def _next(
        self, values: Numbers, hook: AttentionHook | None
    ) -> tuple[Numbers, torch.Tensor, Scale]:
        """The numbers (1, F) after `values` (N, F), plain and scaled, and the scale."""
        windows = self.task.windows.last(values)
        scaled = self.model(to_inputs(windows).to(self.device), hook=hook).double().cpu()  # (1, F)
        forecast = windows.scale.invert(scaled.numpy())
        if not np.isfinite(forecast).all():
            raise CorpusError(
                "the forecast is too large for a number; give smaller ones, or ask for fewer steps"
            )
        return forecast, scaled, windows.scale

    def _attention(
        self,
        given: Numbers,
        forecast: Numbers,
        scaled: torch.Tensor,
        scale: Scale,
        recorder: AttentionRecorder,
    ) -> TimeWeights:
        recorded = recorder.weights()
        if not recorded:
            raise SettingsError(
                f"{self.task.folder}: its model forecasts from its last state and has no attention "
                "to look at; train one that has, such as fibonacci-attention"
            )
        [weights] = recorded.values()  # (1, 1, 1, S)
        window = given[-self.task.recipe.corpus.window :]
        return TimeWeights(
            torch.from_numpy(scale.apply(window)),
            scaled[0],
            weights[0, 0, 0, -len(window) :].float(),
            tuple(map(format_row, window)),
            format_row(forecast[0]),
            not recorder.signed,
        )


def series_document(answer: SeriesAnswer, *, model: str) -> dict[str, Any]:
    """An answer with its attention as plain data for the viewer."""
    attention = answer.required_attention()
    return {
        "version": DOCUMENT_VERSION,
        "model": model,
        "text": f"{' '.join(attention.labels)} → {attention.answer}",
        "labels": list(attention.labels),
        "values": attention.values.tolist(),
        "forecast": attention.forecast.tolist(),
        "answer": attention.answer,
        "before": None if answer.before is None else format_row(answer.before.forecast[0]),
        "weights": attention.weights.tolist(),
        "normalized": attention.normalized,
        "notes": list(answer.notes),
    }


def format_row(row: Numbers) -> str:
    """The numbers of a time step, with six significant digits."""
    return ", ".join(f"{number:.6g}" for number in row.tolist())


def format_rows(rows: Numbers) -> str:
    """Time steps separated by spaces, with commas between the numbers of a step."""
    return " ".join(format_row(row).replace(", ", ",") for row in rows)
