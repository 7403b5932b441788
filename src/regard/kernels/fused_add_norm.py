"""The end of a sub-layer in one pass: its bias, dropout, the residual sum and the layer norm; and
a layer norm alone, whose gradients torch computes slowly for narrow rows.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.kernels.dispatch import MAX_NORM_WIDTH, launch, next_power_of_two
from regard.kernels.dropout import draw_seed, drop_threshold

TILE_SIZE = 2048
"""The number of values that a program handles at a time."""
PROGRAMS = 528
"""Of the backward pass, four for each processor of an H200; constant, so that it compiles once."""


class LayerNormParams(NamedTuple):
    """The parameters of a layer norm."""

    weight: Tensor  # (D,)
    bias: Tensor  # (D,)
    epsilon: float = 1e-5


def add_norm(
    x: Tensor,
    y: Tensor,
    norm: LayerNormParams,
    *,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    scales: Tensor | None = None,
) -> Tensor:
    """norm(x + s dropout(y + bias)), in the precision of y: (N, D).

    s are the `scales` (N,) of rows; None: 1.
    """
    return _AddNorm.apply(x, y, bias, scales, *norm, dropout, False)[0]  # type: ignore[no-any-return, no-untyped-call]


def add_norm_with_sum(
    x: Tensor,
    y: Tensor,
    norm: LayerNormParams,
    *,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    scales: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """x + s dropout(y + bias), in the precision of x, and its norm, in that of y: each (N, D)."""
    normed, added = _AddNorm.apply(x, y, bias, scales, *norm, dropout, True)  # type: ignore[no-untyped-call]
    return added, normed


def layer_norm(x: Tensor, norm: LayerNormParams, dtype: torch.dtype) -> Tensor:
    """norm(x) in the precision `dtype`: (N, D)."""
    normed: Tensor = _Norm.apply(x, *norm, dtype)  # type: ignore[no-untyped-call]
    return normed


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, shift: Tensor, epsilon: float, dtype: torch.dtype
    ) -> Tensor:
        x = x.contiguous()
        num, width = x.shape
        normed = torch.empty_like(x, dtype=dtype)
        means, rstds = (x.new_empty(num, dtype=torch.float32) for _ in range(2))
        options = _options(None, None, 0.0, False, width)
        if num:
            launch(
                "fused_add_norm", "forward", (-(-num // options["ROWS"]),),
                x, x, x, x, weight, shift, x, normed, means, rstds, x, num, 0, 1.0, epsilon,
                HAS_Y=False, on=x, **options,
            )  # fmt: skip
        ctx.save_for_backward(x, weight, shift, means, rstds)
        return normed

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight, shift, means, rstds = ctx.saved_tensors
        (num, width), grad = x.shape, grad.contiguous()
        x_grad = torch.empty_like(x)
        shares = _new_shares(x, 2)
        if num:
            launch(
                "fused_add_norm", "backward", (PROGRAMS,),
                x, x, x, x, weight, grad, x, means, rstds, x, x_grad, x_grad, shares, num, 0, 1.0,
                HAS_SUM_GRAD=False, PROGRAMS=PROGRAMS, on=x,
                **_options(None, None, 0.0, True, width),
            )  # fmt: skip
        weight_grad, shift_grad = shares.sum(0).unbind()  # (D,) each
        return x_grad, weight_grad.to(weight.dtype), shift_grad.to(shift.dtype), None, None


def _new_shares(x: Tensor, count: int) -> Tensor:
    """Room for each program's shares in the gradients of `count` vectors (D,), for x (N, D)."""
    allocate = x.new_empty if len(x) else x.new_zeros
    return allocate(PROGRAMS, count, x.shape[1], dtype=torch.float32)


class _AddNorm(torch.autograd.Function):
    """The norm (N, D), and its input (N, D) if `return_sum`, else an empty tensor."""

    @staticmethod
    def forward(  # noqa: PLR0913 (autograd functions take tensors and numbers)
        ctx: Any, x: Tensor, y: Tensor, bias: Tensor | None, scales: Tensor | None, weight: Tensor,
        shift: Tensor, epsilon: float, dropout: float, return_sum: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        x, y = x.contiguous(), y.contiguous()
        num, width = x.shape
        normed, added = torch.empty_like(y), x.new_empty(num if return_sum else 0, width)
        means, rstds = (x.new_empty(num, dtype=torch.float32) for _ in range(2))
        seed = draw_seed(x.device) if dropout else None
        options = _options(bias, scales, dropout, return_sum, width)
        if num:
            launch(
                "fused_add_norm", "forward", (-(-num // options["ROWS"]),),
                x, y, x if bias is None else bias, x if scales is None else scales, weight, shift,
                added, normed, means, rstds, x if seed is None else seed, num,
                drop_threshold(dropout), 1 / (1 - dropout), epsilon, HAS_Y=True, on=x, **options,
            )  # fmt: skip
        inputs = (added, None) if return_sum else (x, y)
        ctx.save_for_backward(*inputs, bias, scales, weight, shift, means, rstds, seed)
        ctx.dropout = dropout
        ctx.set_materialize_grads(False)
        return normed, added

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, sum_grad: Tensor | None) -> Any:
        """`sum_grad` is the gradient of the returned sum, from the residual branch, if any."""
        x, y, bias, scales, weight, shift, means, rstds, seed = ctx.saved_tensors
        (num, width), return_sum = x.shape, y is None
        grad = torch.zeros_like(x) if grad is None else grad.contiguous()
        sum_grad = sum_grad.contiguous() if return_sum and sum_grad is not None else None
        x_grad = torch.empty_like(x)
        grads_differ = ctx.dropout or scales is not None  # those of x and y
        y_grad = torch.empty_like(grad) if grads_differ else x_grad
        shares = _new_shares(x, 2 if bias is None else 3)  # of weight, shift and, if any, bias
        if num:
            launch(
                "fused_add_norm", "backward", (PROGRAMS,),
                x, x if y is None else y, x if bias is None else bias,
                x if scales is None else scales, weight, grad,
                x if sum_grad is None else sum_grad, means, rstds, x if seed is None else seed,
                x_grad, y_grad, shares, num, drop_threshold(ctx.dropout), 1 / (1 - ctx.dropout),
                HAS_SUM_GRAD=sum_grad is not None, PROGRAMS=PROGRAMS, on=x,
                **_options(bias, scales, ctx.dropout, return_sum, width),
            )  # fmt: skip
        weight_grad, shift_grad, *bias_grad = shares.sum(0).unbind()  # (D,) each
        return (
            x_grad,
            y_grad if grads_differ else x_grad.to(grad.dtype),
            None if bias is None else bias_grad[0].to(bias.dtype),
            None,
            weight_grad.to(weight.dtype),
            shift_grad.to(shift.dtype),
            *(None,) * 3,
        )


def _options(
    bias: Tensor | None, scales: Tensor | None, dropout: float, return_sum: bool, width: int
) -> dict[str, Any]:
    """What both kernels are compiled for."""
    if width > MAX_NORM_WIDTH:
        raise ValueError(f"rows of at most {MAX_NORM_WIDTH} numbers can be normed, got {width}")
    width_pow2 = next_power_of_two(width)
    return {
        "BIAS": bias is not None, "SCALES": scales is not None, "DROPOUT": dropout > 0,
        "RETURN_SUM": return_sum,
        "WIDTH": width, "WIDTH_POW2": width_pow2, "ROWS": max(1, TILE_SIZE // width_pow2),
        "num_warps": max(4, width_pow2 // 512),  # a wide row needs more registers
    }  # fmt: skip
