"""A sub-layer's way out, in one pass: its bias, dropout, the way past it and the layer norm."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.library import custom_op

from regard.kernels.available import have_triton, suits, suits_steps
from regard.kernels.chance import draw_seed, kept, no_seed, threshold
from regard.kernels.launching import COMPILED, device_of, kernels_of, power_of_two
from regard.kernels.sums import sum_rows

WIDEST = 8192
"""The widest row that a program can hold."""
MANY = 8192
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


class Norm(NamedTuple):
    """What a layer norm is made of."""

    weight: Tensor  # (D,)
    bias: Tensor  # (D,)
    epsilon: float = 1e-5


def suits_norm(y: Tensor, *, training: bool) -> bool:
    """Whether `add_norm` is the fastest way out for what a sub-layer made, `y` (..., D)."""
    if training:
        return suits("norm", y)
    many = y.numel() >= MANY * y.shape[-1] and y.shape[-1] <= WIDEST
    return many and have_triton() and suits_steps("norm", y)


def add_norm(
    x: Tensor, y: Tensor, norm: Norm, *, bias: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """norm(x + dropout(y + bias)), in the precision of y: (N, D)."""
    seed = draw_seed(x.device) if dropout else no_seed(x.device)
    normed: Tensor = _chosen()(x, y, bias, *norm, seed, dropout, False)[0]
    return normed


def add_then_norm(
    x: Tensor, y: Tensor, norm: Norm, *, bias: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """x + dropout(y + bias), in the precision of x, and its norm, in that of y: each (N, D)."""
    seed = draw_seed(x.device) if dropout else no_seed(x.device)
    normed, added, *_ = _chosen()(x, y, bias, *norm, seed, dropout, True)
    return added, normed


def _chosen() -> Callable[..., tuple[Tensor, ...]]:
    """The operator where somebody compiles; it takes the host a third of a millisecond."""
    return _forward if torch.compiler.is_compiling() else _Eager.apply


def plain_add_then_norm(
    x: Tensor,
    y: Tensor,
    norm: Norm,
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
        stays = kept(seed, rows[:, None], torch.zeros_like(rows[:1]), cols, dropout)  # (N, D)
        y = y * stays / (1 - dropout)
    added = x + y
    return added, F.layer_norm(added, added.shape[-1:], *norm)


def _add(  # noqa: PLR0913 (an operator's schema has tensors and numbers alone)
    x: Tensor,
    y: Tensor,
    bias: Tensor | None,
    weight: Tensor,
    shift: Tensor,
    epsilon: float,
    seed: Tensor,
    dropout: float,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The norm (N, D), what it was given if `keep` else nothing (0, D), means and spreads (N,)."""
    x, y = x.contiguous(), y.contiguous()
    made = _room(x, y, keep)
    num, width = x.shape
    constants = _constants(bias, dropout, keep, width)
    if not num:
        return made
    with device_of(x):
        kernels_of("norm").forward[(-(-num // constants["ROWS"]),)](
            x, y, x if bias is None else bias, weight, shift, made[1], made[0], *made[2:],
            seed, num, threshold(dropout), 1 / (1 - dropout), epsilon, **constants,
        )  # fmt: skip
    return made


_forward = custom_op("regard::add_norm", _add, mutates_args=())


def _room(x: Tensor, y: Tensor, keep: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    num, width = x.shape
    added = x.new_empty(num if keep else 0, width)
    means, spreads = (x.new_empty(num, dtype=torch.float32) for _ in range(2))
    return y.new_empty(num, width), added, means, spreads


@_forward.register_fake
def _(x: Tensor, y: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _room(x, y, rest[-1])


def _add_slopes(  # noqa: PLR0913
    slope: Tensor,
    beside: Tensor | None,
    x: Tensor,
    y: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    means: Tensor,
    spreads: Tensor,
    seed: Tensor,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Slopes of x, of y (nothing where it is that of x), and of the vectors (2, D) or (3, D).

    These are weight, shift and, if there is one, bias.

    Where the norm's input was kept it is `x`, there is no y, and `beside` is the slope that it has
    by the way past the norm.
    """
    num, width = x.shape
    to_x, to_y, _ = made = _slope_room(slope, x, bias, dropout)
    if not num:
        return *made[:2], made[2].zero_()
    # A row for each program, so that the rows of all vectors are summed in one go.
    sums = x.new_empty(tiles.programs, 3 if bias is not None else 2, width, dtype=torch.float32)
    shares = *sums.unbind(1), *([sums] if bias is None else [])
    with device_of(x):
        kernels_of("norm").backward[(tiles.programs,)](
            x, x if y is None else y.contiguous(), x if bias is None else bias, weight,
            slope.contiguous(), x if beside is None else beside.contiguous(),
            means, spreads, seed, to_x, to_y, *shares, num,
            threshold(dropout), 1 / (1 - dropout),
            BESIDE=beside is not None, PROGRAMS=tiles.programs,
            **_constants(bias, dropout, y is None, width),
        )  # fmt: skip
    return *made[:2], sum_rows(sums.flatten(1)).view(-1, width)


_backward = custom_op("regard::add_norm_backward", _add_slopes, mutates_args=())


def _slope_room(
    slope: Tensor, x: Tensor, bias: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor, Tensor]:
    (num, width), vectors = x.shape, 2 if bias is None else 3
    to_y = slope.new_empty(num if dropout else 0, width)
    return x.new_empty(num, width), to_y, x.new_empty(vectors, width, dtype=torch.float32)


@_backward.register_fake
def _(slope: Tensor, beside: Tensor | None, x: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _slope_room(slope, x, rest[1], rest[-1])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, y, bias, weight, shift, _, seed, dropout, keep = inputs
    _, added, means, spreads = output
    given = (added, None) if keep else (x, y)
    ctx.save_for_backward(*given, bias, weight, shift, means, spreads, seed)
    ctx.dropout, ctx.keep = dropout, keep
    ctx.mark_non_differentiable(means, spreads)
    ctx.set_materialize_grads(False)


def _slopes(ctx: Any, slope: Tensor | None, beside: Tensor | None, *_: Any) -> tuple[Any, ...]:
    return _share(ctx, slope, beside, _backward)


def _share(
    ctx: Any, slope: Tensor | None, beside: Tensor | None, backward: Callable[..., Any]
) -> tuple[Any, ...]:
    """The slopes of all inputs."""
    x, y, bias, weight, shift, means, spreads, seed = ctx.saved_tensors
    if slope is None:  # the norm itself led nowhere
        slope = torch.zeros_like(x)
    beside = beside if ctx.keep else None
    to_x, to_y, vectors = backward(
        slope, beside, x, y, bias, weight, means, spreads, seed, ctx.dropout
    )
    if not ctx.dropout:
        to_y = to_x.to(slope.dtype)
    to_weight, to_shift, *to_bias = vectors.unbind()
    return (
        to_x,
        to_y,
        None if bias is None else to_bias[0].to(bias.dtype),
        to_weight.to(weight.dtype),
        to_shift.to(shift.dtype),
        *(None,) * 4,
    )


_forward.register_autograd(_slopes, setup_context=_keep)


class _Eager(torch.autograd.Function):
    """The operator, for when nobody compiles."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        made = _add(*inputs)
        _keep(ctx, inputs, made)
        return made

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> Any:
        return _share(ctx, slopes[0], slopes[1], _add_slopes)


def _constants(bias: Tensor | None, dropout: float, keep: bool, width: int) -> dict[str, Any]:
    if width > WIDEST:
        raise ValueError(f"rows of at most {WIDEST} numbers can be normed here, got {width}")
    lanes = power_of_two(width)
    return {
        "BIAS": bias is not None,
        "DROP": dropout > 0,
        "KEEP": keep,
        "WIDTH": width,
        "LANES": lanes,
        "ROWS": max(1, tiles.cells // lanes),
        "num_warps": max(tiles.warps, lanes // 512),  # lest a wide row find too few registers
        **COMPILED,
    }
