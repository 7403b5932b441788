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
from regard.training.step import LossFn
from regard.types import Batch


class Bf16Loss:
    """The loss of a model whose linear layers are given weights in autocast's precision.

    Not the output layer, whose slopes are summed in float32. Without autocast it is the loss.
    """

    def __init__(self, loss: LossFn, model: AnyModel) -> None:
        self.loss_module, last = _LossModule(loss, model), model.output_layer()
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
            return self.loss_module.forward(batch)
        dtype = torch.get_autocast_dtype(kind)
        half_weights = _CastWeights.apply(dtype, *self.weights.values())  # type: ignore[no-untyped-call]
        overrides = dict(zip(self.weights, half_weights, strict=True))
        found: Loss = functional_call(self.loss_module, overrides, (batch,))
        return found


class _LossModule(nn.Module):
    """A model and its loss, as one module."""

    def __init__(self, loss: LossFn, model: AnyModel) -> None:
        super().__init__()
        self.loss, self.model = loss, model

    def forward(self, batch: Batch) -> Loss:
        return self.loss(self.model, batch)


class _CastWeights(torch.autograd.Function):
    """Some tensors in another precision."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights_float32: Tensor) -> tuple[Tensor, ...]:
        ctx.dtypes = [x.dtype for x in weights_float32]
        ctx.set_materialize_grads(False)
        half_weights = [torch.empty_like(x, dtype=dtype) for x in weights_float32]
        torch._foreach_copy_(half_weights, list(weights_float32))
        return tuple(half_weights)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        present = [(at, x) for at, x in enumerate(grads) if x is not None]
        input_grads: list[Tensor | None] = [None] * len(grads)
        weights_float32 = [torch.empty_like(x, dtype=ctx.dtypes[at]) for at, x in present]
        torch._foreach_copy_(weights_float32, [x for _, x in present])
        for (at, _), grad in zip(present, weights_float32, strict=True):
            input_grads[at] = grad
        return None, *input_grads
