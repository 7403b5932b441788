"""The loop that `regard train` runs, fed with given batches."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from bench.peers.contract import ModelShape, PeerConfig, Trained
from bench.peers.regard_model import build_fresh_model
from bench.peers.training_loop import SMOOTHING, wait_for_device
from regard.batching.collate import PositionedBatch
from regard.batching.sampler import Shard, StreamPosition
from regard.batching.shape_buckets import ShapeBuckets
from regard.models.contracts import AnyModel
from regard.tasks.translation.settings import TranslationTrainingSettings
from regard.training.loop import BatchesFrom, TrainingTask, fit
from regard.training.loss import Loss, batch_loss
from regard.types import AnyBatch

NEVER = 1_000_000
"""A step that is not reached."""


class SilentReporter:
    """A reporter without output."""

    def logged(self, step: int, numbers: Mapping[str, float]) -> None: ...
    def validated(self, step: int, numbers: Mapping[str, float], *, best: bool) -> None: ...
    def noted(self, message: str) -> None: ...


class RegardTrainer:
    """A model of ours, trained on by `fit` each time with a fresh optimizer."""

    def __init__(self, shape: ModelShape, setup: PeerConfig) -> None:
        self.now = setup.now
        self.device, self.width = torch.device(setup.device), shape.width
        self.model = build_fresh_model(shape).to(self.device)
        self.settings = TranslationTrainingSettings.model_validate(
            {
                "steps": NEVER,
                "precision": setup.precision,
                "compile": setup.compiled,
                "label_smoothing": SMOOTHING,
                "schedule": {"shape": "constant", "warmup": 0},
                "validation": {"every": NEVER},
                "log_every": NEVER,
                "save_every": NEVER,
            }
        )

    def _task(self, stream: BatchesFrom, losses: "_Losses") -> TrainingTask:
        packing, limit = self.model.supports_packing, self.model.max_length
        buckets = ShapeBuckets(self.settings.batch_tokens, packing, limit)
        return TrainingTask(stream, losses, _no_validation, buckets=buckets)

    def train(self, batches: Sequence[AnyBatch]) -> Trained:
        """One update for each batch; the clock is read when the loop asks whether to stop."""
        stamps: list[float] = []

        def stop_requested() -> bool:
            if len(stamps) in (0, len(batches) - 1):
                wait_for_device(self.device)
            stamps.append(self.now())
            return len(stamps) == len(batches)

        losses = _Losses(self.settings.label_smoothing)
        with tempfile.TemporaryDirectory() as folder:
            fit(
                self.model,
                self._task(partial(_stream, batches), losses),
                self.settings,
                folder=Path(folder),
                width=self.width,
                reporter=SilentReporter(),
                stop_requested=stop_requested,
            )
        tokens = sum(batch.num_labels for batch in batches[1:])
        return Trained(stamps[-1] - stamps[0], tokens, losses.last())


class _Losses:
    """The loss of training; keeps the last one."""

    def __init__(self, smoothing: float) -> None:
        self._smoothing = smoothing
        self._last: tuple[Loss, int] | None = None

    def __call__(self, model: AnyModel, batch: AnyBatch) -> Loss:
        loss = batch_loss(model, batch, self._smoothing)
        self._last = loss, batch.num_labels
        return loss

    def last(self) -> float:
        assert self._last is not None  # called after training
        loss, tokens = self._last
        return loss.loss.item() / tokens


def _stream(
    batches: Sequence[AnyBatch], start: StreamPosition, shard: Shard
) -> Iterator[PositionedBatch]:
    numbered = enumerate(batches, start.batch + 1)
    return (
        PositionedBatch(batch, StreamPosition(0, number)) for number, batch in shard.take(numbered)
    )


def _no_validation(model: AnyModel) -> Mapping[str, float]:
    raise AssertionError("the loop is stopped before it validates")
