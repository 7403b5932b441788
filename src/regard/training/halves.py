"""Weights in half precision, all made at once.

Autocast rounds each weight where it is first used, and makes its slope precise again where it is
found: two small kernels for each of some hundred weights. Here one rounds all of them before the
loss, and one has all their slopes behind it; every number is the same.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from regard.models.contracts import AnyModel
from regard.training.loss import Loss
from regard.training.step import LossOf
from regard.types import Batch


class Halved:
    """The loss of a model whose linear layers are given weights in autocast's precision.

    Not the output layer, whose slopes are summed in float32. Without autocast it is the loss.
    """

    def __init__(self, loss: LossOf, model: AnyModel) -> None:
        self.bound, last = _Bound(loss, model), model.output_layer()
        self.weights = {
            f"model.{name}.{kind}": weight
            for name, layer in model.named_modules()
            if isinstance(layer, nn.Linear) and (last is None or layer.weight is not last.weight)
            for kind, weight in layer.named_parameters(recurse=False)
        }

    def __call__(self, batch: Batch) -> Loss:
        """How wrong the model is."""
        kind = batch.labels.device.type
        if not torch.is_autocast_enabled(kind):
            return self.bound.forward(batch)
        dtype = torch.get_autocast_dtype(kind)
        halves = _Halves.apply(dtype, *self.weights.values())  # type: ignore[no-untyped-call]
        given = dict(zip(self.weights, halves, strict=True))
        found: Loss = functional_call(self.bound, given, (batch,))
        return found


class _Bound(nn.Module):
    """A model and its loss, as one module."""

    def __init__(self, loss: LossOf, model: AnyModel) -> None:
        super().__init__()
        self.loss, self.model = loss, model

    def forward(self, batch: Batch) -> Loss:
        return self.loss(self.model, batch)


class _Halves(torch.autograd.Function):
    """Some tensors in another precision."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *whole: Tensor) -> tuple[Tensor, ...]:
        ctx.dtypes = [x.dtype for x in whole]
        ctx.set_materialize_grads(False)
        halves = [torch.empty_like(x, dtype=dtype) for x in whole]
        torch._foreach_copy_(halves, list(whole))
        return tuple(halves)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        there = [(at, x) for at, x in enumerate(slopes) if x is not None]
        made: list[Tensor | None] = [None] * len(slopes)
        whole = [torch.empty_like(x, dtype=ctx.dtypes[at]) for at, x in there]
        torch._foreach_copy_(whole, [x for _, x in there])
        for (at, _), slope in zip(there, whole, strict=True):
            made[at] = slope
        return None, *made
