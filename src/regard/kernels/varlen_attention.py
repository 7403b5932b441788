"""Attention of short sentences that lie end to end in one row.

A general kernel has tiles of 64 or 128 queries of *one* sentence. Sentences of 29 tokens, the mean
of news text, leave most of such a tile empty; here several of them share one.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.library import custom_op

from regard.kernels.dropout_rng import draw_seed, drop_threshold, empty_seed, keep_mask
from regard.kernels.launch import (
    LAUNCH_OPTIONS,
    MIN_TILE,
    device_of,
    next_power_of_two,
    triton_module,
)

LOG2_E = 1.4426950408889634
HEAD_WIDTHS = (16, 128)
"""The narrowest and the widest head that there are tiles for."""


class PackedRows(NamedTuple):
    """Where B sentences lie in a row of N tokens: the tensors of an `attention.packed.Layout`."""

    offsets: Tensor  # (B + 1,) int32
    indices: Tensor  # (N,) int64; divided by `longest`, the sentence of each token
    longest: int


class Tiles(NamedTuple):
    """How the work of a kernel is cut."""

    rows: int  # queries at a time
    cols: int  # keys at a time
    warps: int
    stages: int = 1
    stride: int = 0
    """For slopes of whole sentences: the tokens among which those of a program begin."""
    registers: int = 0
    """The most that a thread may have, so that more of them run at a time; 0: as it comes."""


class TilePlan(NamedTuple):
    """The tiles of the kernels."""

    forward: Tiles = Tiles(64, 64, 4)
    queries: Tiles = Tiles(64, 64, 4)
    keys: Tiles = Tiles(64, 64, 4)
    whole: Tiles | None = Tiles(64, 64, 4, stride=48)
    """One kernel for all three slopes; None: one for those of queries, one for the others."""


TILE_PLANS: dict[int, TilePlan] = {
    64: TilePlan(forward=Tiles(64, 32, 4), whole=Tiles(32, 64, 4, stride=32)),
    128: TilePlan(keys=Tiles(64, 64, 8), whole=Tiles(64, 64, 8, stride=48)),
}
"""By the lanes of a head, where they are not the usual ones: for 64 those that were the quickest on
an H200 for sentences of like length, for 128 those that spill few registers."""


def attend_varlen(
    parts: Sequence[Tensor],
    of_queries: PackedRows,
    of_keys: PackedRows,
    *,
    causal: bool,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """The values, mixed for each query by what it likes in its own sentence: (N, H, K).

    `parts` are (·, P, H, K), together a query, a key and a value for each token: all in one tensor
    (N, 3, H, K), as one projection makes them; queries (N, 1, H, K) and the others (M, 2, H, K); or
    three tensors. Slopes come back in tensors of the same kind, so that nothing is ever copied.
    """
    where = parts[0].device
    seed = draw_seed(where) if dropout else empty_seed(where)
    options = (*of_queries, *of_keys, seed, causal, scale, dropout)
    mixed: Tensor
    if torch.compiler.is_compiling():
        mixed, _ = _forward(list(parts), *options)
    else:  # an operator takes the host a third of a millisecond
        mixed = _AttendFunction.apply(options, *parts)  # type: ignore[no-untyped-call]
    return mixed


def plain_attend_varlen(
    parts: Sequence[Tensor],
    of_queries: PackedRows,
    of_keys: PackedRows,
    *,
    causal: bool,
    scale: float,
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> Tensor:
    """`attend_short` as its formula reads, over all N · M pairs of tokens."""
    queries, keys, values = split_qkv(parts)
    rows, cols = (torch.arange(len(x), device=x.device) for x in (queries, keys))
    seen = of_queries.indices[:, None] // of_queries.longest == of_keys.indices // of_keys.longest
    if causal:
        seen = seen & (rows[:, None] >= cols)
    scores = torch.einsum("nhk,mhk->hnm", queries, keys) * scale  # (H, N, M)
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1).masked_fill(~seen, 0.0)
    if dropout:
        assert seed is not None
        heads = torch.arange(queries.shape[1], device=rows.device)
        keep = keep_mask(seed, rows[:, None], heads[:, None, None], cols, dropout)  # (H, N, M)
        weights = weights * keep / (1 - dropout)
    return torch.einsum("hnm,mhk->nhk", weights, values)


def split_qkv(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Views (N, H, K), (M, H, K), (M, H, K) of queries, keys and values."""
    queries, keys, values = (x for part in parts for x in part.unbind(1))
    return queries, keys, values


def _attend_forward(  # noqa: PLR0913 (an operator's schema has tensors and numbers alone)
    parts: list[Tensor],
    q_offsets: Tensor,
    q_indices: Tensor,
    q_longest: int,
    k_offsets: Tensor,
    k_indices: Tensor,
    k_longest: int,
    seed: Tensor,
    causal: bool,
    scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """What was found (N, H, K), and the logarithms of the sums of the weights (H, N)."""
    queries, keys, values = split_qkv(parts)
    num, heads, width = queries.shape
    mixed = queries.new_empty(num, heads, width)
    sums = queries.new_empty(heads, num, dtype=torch.float32)
    tiles = _tile_plan(width).forward
    with device_of(queries):
        triton_module("varlen_attention").forward[(heads, -(-num // tiles.rows))](
            queries, keys, values, mixed, sums, seed,
            q_indices, k_offsets, q_longest, num,
            *_token_and_head_strides(queries, keys, values, mixed),
            scale * LOG2_E, drop_threshold(dropout), 1 / (1 - dropout),
            **_constants(causal, dropout, width, tiles),
        )  # fmt: skip
    return mixed, sums


_forward = custom_op("regard::attend_short", _attend_forward, mutates_args=())


@_forward.register_fake
def _(parts: list[Tensor], *_: Any) -> tuple[Tensor, Tensor]:
    queries = parts[0]
    num, heads, width = queries.shape[0], *queries.shape[2:]
    return (
        queries.new_empty(num, heads, width),
        queries.new_empty(heads, num, dtype=torch.float32),
    )


def _attend_backward(  # noqa: PLR0913
    grad: Tensor,
    parts: list[Tensor],
    mixed: Tensor,
    sums: Tensor,
    q_offsets: Tensor,
    q_indices: Tensor,
    q_longest: int,
    k_offsets: Tensor,
    k_indices: Tensor,
    k_longest: int,
    seed: Tensor,
    causal: bool,
    scale: float,
    dropout: float,
) -> list[Tensor]:
    """The slopes of the parts, given that of what was found."""
    grads = [part.new_empty(part.shape) for part in parts]
    if not len(mixed):  # no query begins a tile, so that nobody would write those of the keys
        return [one.zero_() for one in grads]
    if grad.stride(-1) != 1:
        grad = grad.contiguous()
    where = q_offsets, q_indices, q_longest, k_offsets, k_indices, k_longest
    numbers = scale, scale * LOG2_E, drop_threshold(dropout), 1 / (1 - dropout)
    with device_of(grad):
        _launch_backward(
            _BackwardTensors(split_qkv(parts), mixed, grad, sums, split_qkv(grads), seed),
            where, numbers, {"causal": causal, "dropout": dropout, "width": mixed.shape[2]},
        )  # fmt: skip
    return grads


class _BackwardTensors(NamedTuple):
    """The tensors of a backward pass."""

    inputs: tuple[Tensor, Tensor, Tensor]
    mixed: Tensor
    grad: Tensor
    sums: Tensor
    to: tuple[Tensor, Tensor, Tensor]
    seed: Tensor


def _launch_backward(
    it: _BackwardTensors, where: tuple[Any, ...], numbers: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Write the slopes."""
    q_offsets, q_indices, q_longest, k_offsets, k_indices, k_longest = where
    inputs, mixed, grad, sums, to, seed = it
    kernels = triton_module("varlen_attention")
    (num, heads, _), num_keys, plan = mixed.shape, len(inputs[1]), _tile_plan(options["width"])
    if plan.whole is not None:
        kernels.backward_whole[(heads, -(-num // plan.whole.stride))](
            *inputs, mixed, grad, sums, *to, seed,
            q_indices, q_offsets, k_offsets, q_longest, len(q_offsets) - 1, num,
            *_token_and_head_strides(*inputs, mixed, grad, *to),
            *numbers, **_constants(**options, tiles=plan.whole), STRIDE=plan.whole.stride,
        )  # fmt: skip
        return
    deltas = torch.empty_like(sums)
    kernels.backward_queries[(heads, -(-num // plan.queries.rows))](
        *inputs, mixed, grad, sums, deltas, to[0], seed,
        q_indices, k_offsets, q_longest, num,
        *_token_and_head_strides(*inputs, mixed, grad, to[0]),
        *numbers, **_constants(**options, tiles=plan.queries),
    )  # fmt: skip
    kernels.backward_keys[(heads, -(-num_keys // plan.keys.cols))](
        *inputs, grad, sums, deltas, *to[1:], seed,
        k_indices, q_offsets, k_longest, num, num_keys,
        *_token_and_head_strides(*inputs, grad, *to[1:]),
        *numbers, **_constants(**options, tiles=plan.keys),
    )  # fmt: skip


_backward = custom_op("regard::attend_short_backward", _attend_backward, mutates_args=())


@_backward.register_fake
def _(grad: Tensor, parts: list[Tensor], *_: Any) -> list[Tensor]:
    return [part.new_empty(part.shape) for part in parts]


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    parts, q_offsets, q_indices, q_longest, k_offsets, k_indices, k_longest, seed, *rest = inputs
    tensors = q_offsets, q_indices, k_offsets, k_indices, seed
    ctx.save_for_backward(*tensors, *output, *parts)
    ctx.longest, ctx.rest = (q_longest, k_longest), rest
    ctx.set_materialize_grads(False)


def _op_backward(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Any, ...]:
    nothing = (None,) * 10
    if grad is None:
        return None, *nothing
    q_offsets, q_indices, k_offsets, k_indices, seed, mixed, sums, *parts = ctx.saved_tensors
    queries = q_offsets, q_indices, ctx.longest[0]
    keys = k_offsets, k_indices, ctx.longest[1]
    return _backward(grad, parts, mixed, sums, *queries, *keys, seed, *ctx.rest), *nothing


_forward.register_autograd(_op_backward, setup_context=_save_for_backward)


class _AttendFunction(torch.autograd.Function):
    """The operator, for when nobody compiles."""

    @staticmethod
    def forward(ctx: Any, options: tuple[Any, ...], *parts: Tensor) -> Tensor:
        mixed, sums = _attend_forward(list(parts), *options)
        ctx.save_for_backward(mixed, sums, *parts)
        ctx.options = options
        return mixed

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        mixed, sums, *parts = ctx.saved_tensors
        return None, *_attend_backward(grad, parts, mixed, sums, *ctx.options)


def _token_and_head_strides(*tensors: Tensor) -> list[int]:
    """The strides of tokens and of heads of each tensor (N, H, K)."""
    for x in tensors:
        if x.stride(2) != 1:
            raise ValueError(f"a head's numbers must lie side by side, got strides {x.stride()}")
    return [x.stride(axis) for x in tensors for axis in (0, 1)]


def tile_width(width: int) -> int:
    """Places that a head of that width takes in a tile."""
    return next_power_of_two(width, least=MIN_TILE)


def _tile_plan(width: int) -> TilePlan:
    return TILE_PLANS.get(tile_width(width), TilePlan())


def _constants(causal: bool, dropout: float, width: int, tiles: Tiles) -> dict[str, Any]:
    bound = {"maxnreg": tiles.registers} if tiles.registers else {}
    return {
        **LAUNCH_OPTIONS,
        **bound,
        "CAUSAL": causal,
        "DROP": dropout > 0,
        "WIDTH": width,
        "LANES": tile_width(width),
        "ROWS": tiles.rows,
        "COLS": tiles.cols,
        "num_warps": tiles.warps,
        "num_stages": tiles.stages,
    }
