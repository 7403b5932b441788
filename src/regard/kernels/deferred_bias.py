"""A linear layer whose bias has its slope from a kernel, in training, or is left to the norm's."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.kernels.column_sum import column_sums
from regard.kernels.dispatch import use_kernel


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b: (N, D), (F, D), (F,) -> (N, F); its plain twin is torch's.

    A kernel is for packed rows in half precision, on a GPU.
    """
    if bias is None or x.ndim != 2 or torch.compiler.is_compiling() or not use_kernel("linear", x):
        return F.linear(x, weight, bias)
    output: Tensor = _Linear.apply(x, weight.to(x.dtype), bias.to(x.dtype))  # type: ignore[no-untyped-call]
    return output


class Linear(nn.Linear):
    """Torch's own layer, with `linear` in training."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., F)"""
        return linear(x, self.weight, self.bias) if self.training else super().forward(x)


class DeferredBias(NamedTuple):
    """What a layer made, less the bias that is to be added yet, if there is one."""

    output: Tensor  # (N, F)
    bias: Tensor | None = None  # (F,)


def deferred_bias(layer: nn.Module, x: Tensor) -> DeferredBias:
    """What `layer` makes of `x`; of packed rows without its bias, where the norm's kernel runs."""
    if (
        isinstance(layer, Linear)
        and layer.training
        and x.ndim == 2
        and use_kernel("fused_add_norm", x)
    ):
        return DeferredBias(F.linear(x, layer.weight), layer.bias)
    return DeferredBias(layer(x))


class _Linear(torch.autograd.Function):
    """(N, D), (F, D), (F,) -> (N, F), all of one precision."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.T)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        to_x = grad @ weight if ctx.needs_input_grad[0] else None
        to_weight = grad.T @ x if ctx.needs_input_grad[1] else None
        return to_x, to_weight, column_sums(grad).to(grad.dtype)
