"""A step of training that is captured once and replayed (`kernels.graphs`).

Batches are brought to few shapes (`batching.buckets`) and copied to where the graph of their shape
reads, and what changes from step to step otherwise (the rate, the number of tokens) lies on the
device too. Where a step has one batch there is one graph for each shape, which does all of it;
where it has several, each shape's adds to the gradients and one more uses them up.

The first batch of each shape is learned from without a graph, which readies all kernels; the second
is captured, so that no graph is made for what is seen once. What is random differs in each replay:
a graph asks the device's generator anew.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from regard.batching.shape_buckets import BatchShape, ShapeBuckets, pad_to_shape
from regard.errors import TrainingError
from regard.kernels.cuda_graphs import (
    CaptureError,
    CudaGraphs,
    Replay,
    copy_to_static,
)
from regard.training.gpu.bf16_weights import Bf16Loss
from regard.training.loss import Loss
from regard.training.step import EagerStep, StepContext
from regard.types import Batch

MAX_SHAPES = 96
"""Shapes that are captured, the first to be seen twice: batches of others, which are rare then, are
learned from as they are."""

NoteFn = Callable[[str], None]


def require_cuda_graphs(device: torch.device) -> None:
    """An error where a device has no graphs."""
    if device.type != "cuda":
        raise TrainingError(
            f"training.capture is for a GPU, whose graphs it replays; this is a {device.type}: "
            "leave it out"
        )


def cuda_graphs_on(device: torch.device) -> CudaGraphs:
    """What records steps on a device, or an error where it has no graphs."""
    require_cuda_graphs(device)
    return CudaGraphs(device)


class _DeviceScalars:
    """What changes from step to step, where the device finds it."""

    def __init__(self, device: torch.device) -> None:
        self.inverse_tokens, self.lr, self.ema_weight = (
            torch.zeros((), device=device) for _ in range(3)
        )

    def set(self, tokens: int, lr: float, ema_weight: float) -> None:
        """One over the tokens, the learning rate, how far the moving average goes."""
        self.inverse_tokens.fill_(1 / tokens)
        self.lr.fill_(lr)
        self.ema_weight.fill_(ema_weight)


class CudaGraphStep:
    """A step that comes to what its twin `PlainStep` comes to, without its launches.

    Where something cannot be captured, `noted` is told so once, and its twin goes on from there.
    """

    def __init__(
        self, context: StepContext, buckets: ShapeBuckets, capturer: CudaGraphs, noted: NoteFn
    ) -> None:
        self.context, self.buckets, self.capturer = context, buckets, capturer
        self.noted = noted
        model = context.model
        # Of other families nobody knows that they use their weights in products alone.
        self.loss: Callable[[Batch], Loss] = (
            Bf16Loss(context.loss, model)
            if model.supports_packing
            else partial(context.loss, model)
        )
        self.parameters = list(model.parameters())
        self.device = self.parameters[0].device
        self.scalars = _DeviceScalars(self.device)
        self.totals_before = torch.zeros_like(context.totals)
        self.static_batches: dict[BatchShape, Batch] = {}
        self.warmed_up: set[BatchShape | None] = set()
        self.replays: dict[BatchShape | None, Replay] = {}
        """What is replayed for each shape; for None, what uses up gradients of several batches."""
        self.fallback: EagerStep | None = None
        for group in context.optimizer.param_groups:
            group["lr"] = self.scalars.lr
            group["capturable"] = self.device.type == "cuda"

    def __call__(self, batches: Sequence[Batch], *, lr: float, step: int) -> None:
        if self.fallback is None:
            try:
                self._step(batches, lr, step)
                return
            except CaptureError as error:
                self.noted(f"steps are not captured as graphs from here on: {error}")
                self.fallback = self._fall_back()
        self.fallback(batches, lr=lr, step=step)

    def _step(self, batches: Sequence[Batch], lr: float, step: int) -> None:
        ema, tokens = self.context.ema, sum(batch.num_tokens for batch in batches)
        with self.capturer.side_stream():
            self.totals_before.copy_(self.context.totals)
            self.scalars.set(tokens, lr, ema.ema_weight(step) if ema else 0.0)
            if len(batches) == 1:
                self._train_on(batches[0], self._whole_step)
                return
            self._allocate_grads()
            for batch in batches:
                self._train_on(batch, self._accumulate_grads)
            self._warm_up_or_replay(None, self._finish_accumulation)

    def _allocate_grads(self) -> None:
        """Make gradients that stay where they are: several graphs use them."""
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def _fall_back(self) -> EagerStep:
        """What goes on in the place of this, from before the step that failed."""
        self.replays.clear()
        self.static_batches.clear()
        context = self.context
        context.totals.copy_(self.totals_before)
        context.optimizer.zero_grad(set_to_none=True)
        for group in context.optimizer.param_groups:
            group["capturable"] = False
        return EagerStep(context)

    def _train_on(self, batch: Batch, work: Callable[[Batch], None]) -> None:
        """Do `work` with a batch."""
        shape = self.buckets.shape(batch)
        if shape not in self.static_batches and len(self.static_batches) >= MAX_SHAPES:
            work(batch.to(self.device))
            return
        filled = pad_to_shape(batch, shape, packed=self.buckets.packed)
        if shape in self.static_batches:
            copy_batch(filled, self.static_batches[shape])
        elif shape in self.warmed_up:
            self.static_batches[shape] = filled.to(self.device)
        else:
            filled = filled.to(self.device)
        self._warm_up_or_replay(shape, partial(work, self.static_batches.get(shape, filled)))

    def _warm_up_or_replay(self, key: BatchShape | None, work: Replay) -> None:
        """Do it as it is for the first time, and after that as it was captured."""
        if key not in self.warmed_up:
            work()
            self.warmed_up.add(key)
            return
        if key not in self.replays:
            self.replays[key] = self.capturer.capture(work)
        self.replays[key]()

    def _whole_step(self, batch: Batch) -> None:
        """A whole step, whose gradients nobody else needs."""
        self._accumulate_grads(batch)
        self._update_weights()
        self.context.optimizer.zero_grad(set_to_none=True)

    def _finish_accumulation(self) -> None:
        """What a step does behind its last batch."""
        self._update_weights()
        self.context.optimizer.zero_grad(set_to_none=False)

    def _accumulate_grads(self, batch: Batch) -> None:
        context = self.context
        with context.autocast():
            loss = self.loss(batch)
        if loss.routings:
            raise CaptureError("the model has experts, whose use the host counts")
        torch.autograd.backward(loss.loss * self.scalars.inverse_tokens)
        context.totals.add_(torch.stack([loss.loss.detach(), loss.nll]))

    def _update_weights(self) -> None:
        context = self.context
        if context.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.parameters, context.clip_norm)
        context.optimizer.step()
        if context.ema:
            context.ema.update_by_device_weight(self.parameters, self.scalars.ema_weight)


def copy_batch(batch: Batch, static: Batch) -> None:
    """Copy a batch to where another of its shape lies, without waiting for a device."""
    copy_to_static(_batch_tensors(batch), _batch_tensors(static))


def _batch_tensors(batch: Batch) -> tuple[Tensor, ...]:
    return *batch.source, *batch.target, batch.target_indices, batch.labels, batch.source_indices
