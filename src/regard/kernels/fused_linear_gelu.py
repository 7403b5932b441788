"""A linear layer and its GELU, and the gradients of GELU and bias in one pass."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.dispatch import launch

ROWS, COLS, WARPS = 16, 128, 4
PROGRAMS = 64
"""For each block of columns; each sums the gradients of some rows."""


def linear_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """gelu(x Wᵀ + b), in the precision of x: (N, D), (F, D), (F,) -> (N, F)."""
    output: Tensor = _LinearGelu.apply(x, weight.to(x.dtype), bias.to(x.dtype))  # type: ignore[no-untyped-call]
    return output


class _LinearGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        inner = torch.addmm(bias, x, weight.T)  # (N, F)
        ctx.save_for_backward(x, weight, inner)
        return F.gelu(inner)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """The column sums of the gradient before the GELU are that of the bias."""
        x, weight, inner = ctx.saved_tensors
        (num, width), grad = inner.shape, grad.contiguous()
        inner_grad = torch.empty_like(grad)  # (N, F)
        sums = grad.new_empty(PROGRAMS, width, dtype=torch.float32)
        launch(
            "fused_linear_gelu", "backward", (-(-width // COLS), PROGRAMS),
            inner, grad, inner_grad, sums, num,
            WIDTH=width, ROWS=ROWS, COLS=COLS, PROGRAMS=PROGRAMS, num_warps=WARPS, on=inner,
        )  # fmt: skip
        bias_grad = sums.sum(0).to(grad.dtype)  # (F,)
        return inner_grad @ weight, inner_grad.T @ x, bias_grad  # (N, D), (F, D), (F,)
