"""A sub-layer's way out, in one pass: its bias, dropout, the way past it and the layer norm."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.library import custom_op

from regard.kernels.column_sum import column_sums
from regard.kernels.dispatch import have_triton, use_inference_kernel, use_kernel
from regard.kernels.dropout_rng import draw_seed, drop_threshold, empty_seed, keep_mask
from regard.kernels.launch import LAUNCH_OPTIONS, device_of, next_power_of_two, triton_module

MAX_WIDTH = 8192
"""The widest row that a program can hold."""
MIN_INFERENCE_ROWS = 8192
"""Rows from which it is faster in a step of a search, too: of fewer, the host that starts it takes
longer than a GPU, and torch's two operations are started as fast as this one."""


class Tiles(NamedTuple):
    """How the work of the kernels is cut."""

    cells: int = 2048
    """Numbers that a program has at a time: so many rows as that is."""
    warps: int = 4
    programs: int = 528
    """In the backward pass, each of which sums slopes of weights: four for each processor.

    As many for a few rows, for which a kernel would otherwise be compiled again.
    """


tiles = Tiles()
"""What is used; whoever has measured others puts them here."""


class LayerNormParams(NamedTuple):
    """What a layer norm is made of."""

    weight: Tensor  # (D,)
    bias: Tensor  # (D,)
    epsilon: float = 1e-5


def use_add_norm(y: Tensor, *, training: bool) -> bool:
    """Whether `add_norm` is the fastest way out for what a sub-layer made, `y` (..., D)."""
    if training:
        return use_kernel("fused_add_norm", y)
    many = y.numel() >= MIN_INFERENCE_ROWS * y.shape[-1] and y.shape[-1] <= MAX_WIDTH
    return many and have_triton() and use_inference_kernel("fused_add_norm", y)


def add_norm(
    x: Tensor, y: Tensor, norm: LayerNormParams, *, bias: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """norm(x + dropout(y + bias)), in the precision of y: (N, D)."""
    seed = draw_seed(x.device) if dropout else empty_seed(x.device)
    normed: Tensor = _operator()(x, y, bias, *norm, seed, dropout, False)[0]
    return normed


def add_norm_with_sum(
    x: Tensor, y: Tensor, norm: LayerNormParams, *, bias: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """x + dropout(y + bias), in the precision of x, and its norm, in that of y: each (N, D)."""
    seed = draw_seed(x.device) if dropout else empty_seed(x.device)
    normed, added, *_ = _operator()(x, y, bias, *norm, seed, dropout, True)
    return added, normed


def _operator() -> Callable[..., tuple[Tensor, ...]]:
    """The operator where somebody compiles; it takes the host a third of a millisecond."""
    return _forward if torch.compiler.is_compiling() else _AddNormFunction.apply


def plain_add_norm_with_sum(
    x: Tensor,
    y: Tensor,
    norm: LayerNormParams,
    *,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`add_then_norm` as its formula reads; the second of the two is `add_norm`."""
    y = y if bias is None else y + bias
    if dropout:
        assert seed is not None
        rows, cols = (torch.arange(size, device=x.device) for size in x.shape)
        dropout_mask = keep_mask(
            seed, rows[:, None], torch.zeros_like(rows[:1]), cols, dropout
        )  # (N, D)
        y = y * dropout_mask / (1 - dropout)
    added = x + y
    return added, F.layer_norm(added, added.shape[-1:], *norm)


def _add_norm(  # noqa: PLR0913 (an operator's schema has tensors and numbers alone)
    x: Tensor,
    y: Tensor,
    bias: Tensor | None,
    weight: Tensor,
    shift: Tensor,
    epsilon: float,
    seed: Tensor,
    dropout: float,
    return_sum: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The norm (N, D), what it was given if `keep` else nothing (0, D), means and spreads (N,)."""
    x, y = x.contiguous(), y.contiguous()
    outputs = _allocate(x, y, return_sum)
    num, width = x.shape
    constants = _constants(bias, dropout, return_sum, width)
    if not num:
        return outputs
    with device_of(x):
        triton_module("fused_add_norm").forward[(-(-num // constants["ROWS"]),)](
            x, y, x if bias is None else bias, weight, shift, outputs[1], outputs[0], *outputs[2:],
            seed, num, drop_threshold(dropout), 1 / (1 - dropout), epsilon, **constants,
        )  # fmt: skip
    return outputs


_forward = custom_op("regard::add_norm", _add_norm, mutates_args=())


def _allocate(x: Tensor, y: Tensor, return_sum: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    num, width = x.shape
    added = x.new_empty(num if return_sum else 0, width)
    means, rstds = (x.new_empty(num, dtype=torch.float32) for _ in range(2))
    return y.new_empty(num, width), added, means, rstds


@_forward.register_fake
def _(x: Tensor, y: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _allocate(x, y, rest[-1])


def _add_norm_backward(  # noqa: PLR0913
    grad: Tensor,
    sum_grad: Tensor | None,
    x: Tensor,
    y: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    means: Tensor,
    rstds: Tensor,
    seed: Tensor,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Slopes of x, of y (nothing where it is that of x), and of the vectors (2, D) or (3, D).

    These are weight, shift and, if there is one, bias.

    Where the norm's input was kept it is `x`, there is no y, and `beside` is the slope that it has
    by the way past the norm.
    """
    num, width = x.shape
    x_grad, y_grad, _ = outputs = _allocate_grads(grad, x, bias, dropout)
    if not num:
        return *outputs[:2], outputs[2].zero_()
    # A row for each program, so that the rows of all vectors are summed in one go.
    sums = x.new_empty(tiles.programs, 3 if bias is not None else 2, width, dtype=torch.float32)
    partial_sums = *sums.unbind(1), *([sums] if bias is None else [])
    with device_of(x):
        triton_module("fused_add_norm").backward[(tiles.programs,)](
            x, x if y is None else y.contiguous(), x if bias is None else bias, weight,
            grad.contiguous(), x if sum_grad is None else sum_grad.contiguous(),
            means, rstds, seed, x_grad, y_grad, *partial_sums, num,
            drop_threshold(dropout), 1 / (1 - dropout),
            BESIDE=sum_grad is not None, PROGRAMS=tiles.programs,
            **_constants(bias, dropout, y is None, width),
        )  # fmt: skip
    return *outputs[:2], column_sums(sums.flatten(1)).view(-1, width)


_backward = custom_op("regard::add_norm_backward", _add_norm_backward, mutates_args=())


def _allocate_grads(
    grad: Tensor, x: Tensor, bias: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor, Tensor]:
    (num, width), vectors = x.shape, 2 if bias is None else 3
    y_grad = grad.new_empty(num if dropout else 0, width)
    return x.new_empty(num, width), y_grad, x.new_empty(vectors, width, dtype=torch.float32)


@_backward.register_fake
def _(
    grad: Tensor, sum_grad: Tensor | None, x: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return _allocate_grads(grad, x, rest[1], rest[-1])


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, y, bias, weight, shift, _, seed, dropout, return_sum = inputs
    _, added, means, rstds = output
    saved = (added, None) if return_sum else (x, y)
    ctx.save_for_backward(*saved, bias, weight, shift, means, rstds, seed)
    ctx.dropout, ctx.return_sum = dropout, return_sum
    ctx.mark_non_differentiable(means, rstds)
    ctx.set_materialize_grads(False)


def _op_backward(
    ctx: Any, grad: Tensor | None, sum_grad: Tensor | None, *_: Any
) -> tuple[Any, ...]:
    return _input_grads(ctx, grad, sum_grad, _backward)


def _input_grads(
    ctx: Any, grad: Tensor | None, sum_grad: Tensor | None, backward: Callable[..., Any]
) -> tuple[Any, ...]:
    """The slopes of all inputs."""
    x, y, bias, weight, shift, means, rstds, seed = ctx.saved_tensors
    if grad is None:  # the norm itself led nowhere
        grad = torch.zeros_like(x)
    sum_grad = sum_grad if ctx.return_sum else None
    x_grad, y_grad, vectors = backward(
        grad, sum_grad, x, y, bias, weight, means, rstds, seed, ctx.dropout
    )
    if not ctx.dropout:
        y_grad = x_grad.to(grad.dtype)
    weight_grad, shift_grad, *bias_grad = vectors.unbind()
    return (
        x_grad,
        y_grad,
        None if bias is None else bias_grad[0].to(bias.dtype),
        weight_grad.to(weight.dtype),
        shift_grad.to(shift.dtype),
        *(None,) * 4,
    )


_forward.register_autograd(_op_backward, setup_context=_save_for_backward)


class _AddNormFunction(torch.autograd.Function):
    """The operator, for when nobody compiles."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        outputs = _add_norm(*inputs)
        _save_for_backward(ctx, inputs, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        return _input_grads(ctx, grads[0], grads[1], _add_norm_backward)


def _constants(bias: Tensor | None, dropout: float, return_sum: bool, width: int) -> dict[str, Any]:
    if width > MAX_WIDTH:
        raise ValueError(f"rows of at most {MAX_WIDTH} numbers can be normed here, got {width}")
    lanes = next_power_of_two(width)
    return {
        "BIAS": bias is not None,
        "DROP": dropout > 0,
        "KEEP": return_sum,
        "WIDTH": width,
        "LANES": lanes,
        "ROWS": max(1, tiles.cells // lanes),
        "num_warps": max(tiles.warps, lanes // 512),  # lest a wide row find too few registers
        **LAUNCH_OPTIONS,
    }
