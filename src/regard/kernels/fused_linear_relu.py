"""A linear layer and its ReLU, for training.

The ReLU is fused into the matrix product, and its gradient with that of the bias: two passes less
over the widest activations of a Transformer.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.kernels.dispatch import LAUNCH_OPTIONS, device_of, triton_module

ROWS, COLS, WARPS = 16, 128, 4
PROGRAMS = 64
"""For each block of columns; each sums the gradients of some rows."""


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """max(0, x Wᵀ + b), in the precision of x: (N, D), (F, D), (F,) -> (N, F)."""
    output: Tensor = _LinearRelu.apply(x, weight.to(x.dtype), bias.to(x.dtype))  # type: ignore[no-untyped-call]
    return output


class _LinearRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        output = torch._addmm_activation(bias, x, weight.T)
        ctx.save_for_backward(x, weight, output)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight, output = ctx.saved_tensors
        pre_activation, bias = _relu_backward(output, grad)  # (N, F), (F,)
        return pre_activation @ weight, pre_activation.T @ x, bias  # (N, D), (F, D), (F,)


class _ReluGrads(NamedTuple):
    pre_activation: Tensor  # (N, F)
    bias: Tensor  # (F,)


def _relu_backward(output: Tensor, grad: Tensor) -> _ReluGrads:
    """The gradients of the pre-activation and, as its column sums, of the bias."""
    (num, width), grad = output.shape, grad.contiguous()
    pre_activation = torch.empty_like(grad)
    sums = grad.new_empty(PROGRAMS, width, dtype=torch.float32)
    with device_of(output):
        triton_module("fused_linear_relu").backward[(-(-width // COLS), PROGRAMS)](
            output, grad, pre_activation, sums, num,
            WIDTH=width, ROWS=ROWS, COLS=COLS, PROGRAMS=PROGRAMS, num_warps=WARPS, **LAUNCH_OPTIONS,
        )  # fmt: skip
    return _ReluGrads(pre_activation, sums.sum(0).to(grad.dtype))
