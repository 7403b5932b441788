"""A linear layer and its activation; one kernel computes the gradients of activation and bias."""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.dispatch import launch

FusedActivation = Literal["relu", "gelu"]
ROWS, COLS, WARPS = 16, 128, 4
PROGRAMS = 64
"""Programs for each block of columns; each sums the gradients of some rows."""


def fused_linear(x: Tensor, weight: Tensor, bias: Tensor, activation: FusedActivation) -> Tensor:
    """activation(x Wᵀ + b), in the precision of x: (N, D), (F, D), (F,) -> (N, F)."""
    given = x, weight.to(x.dtype), bias.to(x.dtype), activation
    output: Tensor = _FusedLinear.apply(*given)  # type: ignore[no-untyped-call]
    return output


class _FusedLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, activation: FusedActivation
    ) -> Tensor:
        """Saves what the backward pass needs of the activation: ReLU's output or GELU's input."""
        if activation == "relu":
            output = saved = torch._addmm_activation(bias, x, weight.T)  # (N, F)
        else:
            saved = torch.addmm(bias, x, weight.T)  # (N, F)
            output = F.gelu(saved)
        ctx.save_for_backward(x, weight, saved)
        ctx.activation = activation
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """The gradient of the bias is the column sums of `inner_grad`, before the activation."""
        x, weight, saved = ctx.saved_tensors
        (num, width), grad = saved.shape, grad.contiguous()
        inner_grad = torch.empty_like(grad)  # (N, F)
        sums = grad.new_empty(PROGRAMS, width, dtype=torch.float32)
        launch(
            "fused_linear", "backward", (-(-width // COLS), PROGRAMS),
            saved, grad, inner_grad, sums, num,
            GELU=ctx.activation == "gelu", WIDTH=width,
            ROWS=ROWS, COLS=COLS, PROGRAMS=PROGRAMS, num_warps=WARPS, on=saved,
        )  # fmt: skip
        bias_grad = sums.sum(0).to(grad.dtype)  # (F,)
        return inner_grad @ weight, inner_grad.T @ x, bias_grad, None  # (N, D), (F, D), (F,)
