"""A linear layer and its ReLU in one product, and the gradients of ReLU and bias in one pass."""

from typing import Any

import torch
from torch import Tensor

from regard.kernels.dispatch import launch

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
        """The column sums of the gradient before the ReLU are that of the bias."""
        x, weight, output = ctx.saved_tensors
        (num, width), grad = output.shape, grad.contiguous()
        inner_grad = torch.empty_like(grad)  # (N, F)
        sums = grad.new_empty(PROGRAMS, width, dtype=torch.float32)
        launch(
            "fused_linear_relu", "backward", (-(-width // COLS), PROGRAMS),
            output, grad, inner_grad, sums, num,
            WIDTH=width, ROWS=ROWS, COLS=COLS, PROGRAMS=PROGRAMS, num_warps=WARPS, on=output,
        )  # fmt: skip
        bias_grad = sums.sum(0).to(grad.dtype)  # (F,)
        return inner_grad @ weight, inner_grad.T @ x, bias_grad  # (N, D), (F, D), (F,)
