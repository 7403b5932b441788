"""A training step that is captured once as a CUDA graph and replayed (`kernels/cuda_graphs.py`).

Batches are padded to few shapes (`batching/shape_buckets.py`) and copied to the tensors that the
graph of their shape reads; the learning rate and the number of tokens lie on the device too. A step
of one batch is one graph, in which several ranks sum their gradients; in a step of several batches,
the graph of each adds to the gradients, and one more updates the weights after they are summed. The
first batch of each shape is run without a graph, which compiles and loads all kernels, and the
second is captured. Replays draw new random numbers.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from regard.batching.shape_buckets import Buckets
from regard.errors import TrainingError
from regard.kernels.cuda_graphs import CaptureError, CudaGraphs, Replay, copy_to_static
from regard.models.contracts import AnyModel
from regard.training.loss import Loss, LossFn, LossModule
from regard.training.step import EagerStep, StepContext, count_labels
from regard.types import AnyBatch

MAX_SHAPES = 96  # shapes to capture; batches of other shapes are run without a graph


def require_cuda_graphs(device: torch.device) -> None:
    """Raise an error if a device does not support CUDA graphs."""
    if device.type != "cuda":
        raise TrainingError(
            f"training.capture replays CUDA graphs, which need a GPU; this is a {device.type}: "
            "leave it out"
        )


class CudaGraphStep:
    """The same step as `EagerStep`, replayed from CUDA graphs.

    If it cannot be captured, `note` is called once, and an `EagerStep` takes over.
    """

    def __init__(
        self,
        context: StepContext,
        buckets: Buckets[Any],
        capturer: CudaGraphs,
        note: Callable[[str], None],
    ) -> None:
        self.context, self.buckets, self.capturer, self.note = context, buckets, capturer, note
        model = context.model
        # Models that do not pack may use their weights in other ways than matrix products.
        self.loss: Callable[[AnyBatch], Loss] = (
            Bf16Loss(context.loss, model)
            if model.supports_packing
            else partial(context.loss, model)
        )
        self.parameters = list(model.parameters())
        self.device = self.parameters[0].device
        # The numbers that change from step to step.
        self.inverse_tokens, self.ema_weight = (
            torch.zeros((), device=self.device) for _ in range(2)
        )
        groups = context.optimizer.param_groups
        self.rates: dict[float, Tensor] = {
            factor: torch.zeros((), device=self.device)
            for factor in dict.fromkeys(group["rate_factor"] for group in groups)
        }
        """The learning rate for each factor by which groups multiply the schedule's."""
        self.totals_before = torch.zeros_like(context.totals)
        self.static_batches: dict[Hashable, AnyBatch] = {}
        self.warmed_up: set[Hashable] = set()
        self.replays: dict[Hashable, Replay] = {}
        """The graph of each shape; under None, the graph of the update after several batches."""
        self.fallback: EagerStep | None = None
        for group in groups:
            group["lr"] = self.rates[group["rate_factor"]]
            group["capturable"] = self.device.type == "cuda"

    def __call__(
        self, batches: Sequence[AnyBatch], *, lr: float, step: int, tokens: int | None = None
    ) -> None:
        if self.fallback is None:
            try:
                self._step(batches, tokens, lr, step)
                return
            except CaptureError as error:
                self.note(f"steps are not captured as graphs from here on: {error}")
                self.fallback = self._fall_back()
        self.fallback(batches, tokens=tokens, lr=lr, step=step)

    def forget_shapes(self) -> None:
        """Warm up and capture each shape anew. All gradients are freed, even those kept in
        place.
        """
        for captured in (self.replays, self.static_batches, self.warmed_up):
            captured.clear()
        self.context.optimizer.zero_grad(set_to_none=True)

    def _step(self, batches: Sequence[AnyBatch], tokens: int | None, lr: float, step: int) -> None:
        context, ema = self.context, self.context.ema
        with self.capturer.side_stream():
            self.totals_before.copy_(self.context.totals)
            self.inverse_tokens.fill_(1 / (tokens or count_labels(batches)))
            for factor, rate in self.rates.items():
                rate.fill_(lr * factor)
            self.ema_weight.fill_(ema.ema_weight(step) if ema else 0.0)
            if len(batches) == 1:
                context.seed_batch(step, 0)
                self._train_on(batches[0], self._whole_step)
                return
            for parameter in self.parameters:  # several graphs use the same gradient tensors
                if parameter.grad is None and parameter.requires_grad:
                    parameter.grad = torch.zeros_like(parameter)
            for number, batch in enumerate(batches):
                context.seed_batch(step, number)
                self._train_on(batch, self._accumulate_grads)
            context.sum_gradients(self.parameters, in_place=True)  # the next graph reads them
            self._warm_up_or_replay(None, self._finish_accumulation)

    def _fall_back(self) -> EagerStep:
        """The step that takes over, with the state from before the step that failed."""
        self.replays.clear()
        self.static_batches.clear()
        context = self.context
        context.totals.copy_(self.totals_before)
        context.optimizer.zero_grad(set_to_none=True)
        for group in context.optimizer.param_groups:
            group["capturable"] = False
        return EagerStep(context)

    def _train_on(self, batch: AnyBatch, work: Callable[[AnyBatch], None]) -> None:
        """Run, capture or replay `work` with a batch."""
        shape = self.buckets.shape(batch)
        if shape not in self.static_batches and len(self.static_batches) >= MAX_SHAPES:
            work(batch.to(self.device))
            return
        filled = self.buckets.pad(batch, shape)
        if shape in self.static_batches:
            copy_batch(filled, self.static_batches[shape])
        elif shape in self.warmed_up:
            self.static_batches[shape] = filled.to(self.device)
        else:
            filled = filled.to(self.device)
        self._warm_up_or_replay(shape, partial(work, self.static_batches.get(shape, filled)))

    def _warm_up_or_replay(self, key: Hashable, work: Replay) -> None:
        """Run `work` the first time, capture it the second time, and replay it from then on."""
        if key not in self.warmed_up:
            work()
            self.warmed_up.add(key)
            return
        if key not in self.replays:
            self.replays[key] = self.capturer.capture(work)
        self.replays[key]()

    def _whole_step(self, batch: AnyBatch) -> None:
        """A step of one batch; its gradients are freed."""
        self._accumulate_grads(batch)
        self.context.sum_gradients(self.parameters)
        self._update_weights()
        self.context.optimizer.zero_grad(set_to_none=True)

    def _finish_accumulation(self) -> None:
        """The end of a step of several batches; its gradients become zeros in place."""
        self._update_weights()
        self.context.optimizer.zero_grad(set_to_none=False)

    def _accumulate_grads(self, batch: AnyBatch) -> None:
        context = self.context
        with context.autocast():
            loss = self.loss(batch)
        if loss.routings:
            raise CaptureError("the model has experts, and the host counts their use")
        torch.autograd.backward(loss.loss * self.inverse_tokens)
        context.totals.add_(torch.stack([loss.loss.detach(), loss.nll]))

    def _update_weights(self) -> None:
        context = self.context
        if context.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.parameters, context.clip_norm)
        with context.autocast():  # for the products of matrices in Muon
            context.optimizer.step()
        if context.ema:
            context.ema.update_by_device_weight(self.ema_weight)


def copy_batch(batch: AnyBatch, static: AnyBatch) -> None:
    """Copy a batch to a static one of the same shape, without waiting for the device."""
    copy_to_static(batch.tensors(), static.tensors())


class Bf16Loss:
    """The loss of a model whose linear layers get weights in autocast's precision, all cast at
    once.

    Autocast takes two small kernels for each weight and its gradient; here one kernel casts all of
    them, with the same results. The output layer is left out: its gradients are summed in float32.
    """

    def __init__(self, loss: LossFn, model: AnyModel) -> None:
        self.loss_module, last = LossModule(loss, model), model.output_layer()
        self.weights = {
            f"model.{name}.{kind}": weight
            for name, layer in model.named_modules()
            if isinstance(layer, nn.Linear) and (last is None or layer.weight is not last.weight)
            for kind, weight in layer.named_parameters(recurse=False)
        }

    def __call__(self, batch: AnyBatch) -> Loss:
        device_type = batch.labels.device.type
        if not torch.is_autocast_enabled(device_type):
            return self.loss_module.forward(batch)
        dtype = torch.get_autocast_dtype(device_type)
        trained = {name: weight for name, weight in self.weights.items() if weight.requires_grad}
        frozen = {n: weight for n, weight in self.weights.items() if not weight.requires_grad}
        half_weights = _CastWeights.apply(dtype, *trained.values())  # type: ignore[no-untyped-call]
        copies = _cast(list(frozen.values()), [dtype] * len(frozen))
        overrides = dict(zip((*trained, *frozen), (*half_weights, *copies), strict=True))
        loss: Loss = functional_call(self.loss_module, overrides, (batch,))
        return loss


class _CastWeights(torch.autograd.Function):
    """Some tensors in another precision."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.dtypes = [x.dtype for x in weights]
        ctx.set_materialize_grads(False)
        return _cast(weights, [dtype] * len(weights))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        present = [(x, dtype) for x, dtype in zip(grads, ctx.dtypes, strict=True) if x is not None]
        cast = iter(_cast(*zip(*present, strict=True))) if present else iter(())
        return None, *(None if x is None else next(cast) for x in grads)


def _cast(tensors: Sequence[Tensor], dtypes: Sequence[torch.dtype]) -> tuple[Tensor, ...]:
    """Copies of `tensors`, each in its precision, by one kernel."""
    if not tensors:  # with adapters, no weight of a linear layer is trained
        return ()
    pairs = zip(tensors, dtypes, strict=True)
    copies = [torch.empty_like(x, dtype=dtype) for x, dtype in pairs]
    torch._foreach_copy_(copies, list(tensors))
    return tuple(copies)
