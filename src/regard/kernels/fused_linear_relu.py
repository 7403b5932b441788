"""A linear layer and the ReLU behind it.

The ReLU is done where the product is made, and its slope together with that of the bias: two passes
less over the widest vectors of a Transformer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.library import custom_op

from regard.kernels.column_sum import column_sums
from regard.kernels.dispatch import use_inference_kernel, use_kernel
from regard.kernels.launch import LAUNCH_OPTIONS, device_of, triton_module


class Tiles(NamedTuple):
    """How the work of the kernel is cut."""

    rows: int = 16
    cols: int = 128
    warps: int = 4
    programs: int = 64
    """For each block of columns; each sums the slopes of some rows."""


tiles = Tiles()
"""What is used; whoever has measured others puts them here."""


def use_linear_relu(x: Tensor, *, training: bool) -> bool:
    """Whether `linear_relu` is the fastest way for `x`."""
    return (
        use_kernel("fused_linear_relu", x)
        if training
        else use_inference_kernel("fused_linear_relu", x)
    )


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """max(0, x Wᵀ + b), in the precision of x: (N, D), (F, D), (F,) -> (N, F)."""
    inputs = x, weight.to(x.dtype), bias.to(x.dtype)
    if not torch.is_grad_enabled():
        return _linear_relu(*inputs)
    # An operator, which a compiler needs, takes the host a third of a millisecond.
    chosen: Callable[..., Tensor] = (
        _forward if torch.compiler.is_compiling() else _LinearReluFunction.apply
    )
    return chosen(*inputs)


def plain_linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`linear_relu` as its formula reads."""
    return F.relu(F.linear(x, weight.to(x.dtype), bias.to(x.dtype)))


def _linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch._addmm_activation(bias, x, weight.T)


_forward = custom_op("regard::linear_relu", _linear_relu, mutates_args=())


@_forward.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])  # len() would make a compiler fix it


def _relu_backward(out: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The slope of what was bent (N, F), and its sums over all rows (F,) in float32."""
    (num, width), grad = out.shape, grad.contiguous()
    pre_activation_grad = torch.empty_like(grad)
    sums = grad.new_empty(tiles.programs, width, dtype=torch.float32)
    with device_of(out):
        triton_module("fused_linear_relu").backward[(-(-width // tiles.cols), tiles.programs)](
            out, grad, pre_activation_grad, sums, num, WIDTH=width, ROWS=tiles.rows,
            COLS=tiles.cols,
            PROGRAMS=tiles.programs, num_warps=tiles.warps, **LAUNCH_OPTIONS,
        )  # fmt: skip
    return pre_activation_grad, column_sums(sums)


_backward = custom_op("regard::relu_backward", _relu_backward, mutates_args=())


@_backward.register_fake
def _(out: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    return grad.new_empty(grad.shape), grad.new_empty(grad.shape[1], dtype=torch.float32)


def _save_for_backward(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs, output)


def _op_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _input_grads(ctx, grad, _backward)


def _input_grads(
    ctx: Any, grad: Tensor, relu_backward: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor, Tensor]:
    """The slopes of all inputs."""
    x, weight, bias, out = ctx.saved_tensors
    pre_activation_grad, bias_grad = relu_backward(out, grad)  # (N, F), (F,)
    return (
        pre_activation_grad @ weight,
        pre_activation_grad.T @ x,
        bias_grad.to(bias.dtype),
    )  # (N, D), (F, D), (F,)


_forward.register_autograd(_op_backward, setup_context=_save_for_backward)


class _LinearReluFunction(torch.autograd.Function):
    """The operator, for when nobody compiles."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        out = _linear_relu(*inputs)
        _save_for_backward(ctx, inputs, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _input_grads(ctx, grad, _relu_backward)
