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

from regard.kernels.available import suits, suits_steps
from regard.kernels.launching import COMPILED, device_of, kernels_of
from regard.kernels.sums import sum_rows


class Tiles(NamedTuple):
    """How the work of the kernel is cut."""

    rows: int = 16
    cols: int = 128
    warps: int = 4
    programs: int = 64
    """For each block of columns; each sums the slopes of some rows."""


tiles = Tiles()
"""What is used; whoever has measured others puts them here."""


def suits_bend(x: Tensor, *, training: bool) -> bool:
    """Whether `linear_relu` is the fastest way for `x`."""
    return suits("bend", x) if training else suits_steps("bend", x)


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """max(0, x Wᵀ + b), in the precision of x: (N, D), (F, D), (F,) -> (N, F)."""
    inputs = x, weight.to(x.dtype), bias.to(x.dtype)
    if not torch.is_grad_enabled():
        return _bend(*inputs)
    # An operator, which a compiler needs, takes the host a third of a millisecond.
    chosen: Callable[..., Tensor] = _forward if torch.compiler.is_compiling() else _Eager.apply
    return chosen(*inputs)


def plain_linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`linear_relu` as its formula reads."""
    return F.relu(F.linear(x, weight.to(x.dtype), bias.to(x.dtype)))


def _bend(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch._addmm_activation(bias, x, weight.T)


_forward = custom_op("regard::linear_relu", _bend, mutates_args=())


@_forward.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])  # len() would make a compiler fix it


def _unbend(out: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """The slope of what was bent (N, F), and its sums over all rows (F,) in float32."""
    (num, width), slope = out.shape, slope.contiguous()
    inner = torch.empty_like(slope)
    sums = slope.new_empty(tiles.programs, width, dtype=torch.float32)
    with device_of(out):
        kernels_of("bend").backward[(-(-width // tiles.cols), tiles.programs)](
            out, slope, inner, sums, num, WIDTH=width, ROWS=tiles.rows, COLS=tiles.cols,
            PROGRAMS=tiles.programs, num_warps=tiles.warps, **COMPILED,
        )  # fmt: skip
    return inner, sum_rows(sums)


_backward = custom_op("regard::relu_backward", _unbend, mutates_args=())


@_backward.register_fake
def _(out: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    return slope.new_empty(slope.shape), slope.new_empty(slope.shape[1], dtype=torch.float32)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs, output)


def _slopes(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _share(ctx, slope, _backward)


def _share(
    ctx: Any, slope: Tensor, unbend: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor, Tensor]:
    """The slopes of all inputs."""
    x, weight, bias, out = ctx.saved_tensors
    inner, to_bias = unbend(out, slope)  # (N, F), (F,)
    return inner @ weight, inner.T @ x, to_bias.to(bias.dtype)  # (N, D), (F, D), (F,)


_forward.register_autograd(_slopes, setup_context=_keep)


class _Eager(torch.autograd.Function):
    """The operator, for when nobody compiles."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        out = _bend(*inputs)
        _keep(ctx, inputs, out)
        return out

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Any:
        return _share(ctx, slope, _unbend)
