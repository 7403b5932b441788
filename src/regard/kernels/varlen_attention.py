"""Attention of packed sentences, without padding, for training: short ones share a tile."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.kernels.dispatch import MIN_TILE, launch, next_power_of_two
from regard.kernels.dropout import draw_seed, drop_threshold

LOG2_E = 1.4426950408889634


class PackedRows(NamedTuple):
    """Where B sentences are in a row of N tokens: tensors of `attention.varlen.PackedLayout`."""

    offsets: Tensor  # (B + 1,) int32
    indices: Tensor  # (N,) int64; divided by `max_length`, the sentence of each token
    max_length: int


class Tiles(NamedTuple):
    """How the work of a kernel is divided."""

    rows: int  # queries at a time
    cols: int  # keys at a time
    warps: int = 4
    stride: int = 0  # backward: consecutive tokens whose sentences a program handles


class TilePlan(NamedTuple):
    """The tiles of both kernels."""

    forward: Tiles = Tiles(64, 64)
    backward: Tiles = Tiles(64, 64, stride=48)


TILE_PLANS = {
    64: TilePlan(forward=Tiles(64, 32), backward=Tiles(32, 64, stride=32)),
    128: TilePlan(backward=Tiles(64, 64, warps=8, stride=48)),
}
"""By head width, a power of two, where the default is slower on an H200."""


def attend_varlen(
    parts: Sequence[Tensor],
    of_queries: PackedRows,
    of_keys: PackedRows,
    *,
    causal: bool,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(scale Q Kᵀ) V of each sentence by itself: (N, H, K).

    `parts` are (·, P, H, K) and hold a query, a key and a value for each token: one tensor
    (N, 3, H, K), the output of one projection; queries (N, 1, H, K), and keys and values
    (M, 2, H, K); or three tensors. Gradients have the shapes of the parts: nothing is copied.
    """
    mixed: Tensor = _AttendVarlen.apply(of_queries, of_keys, (causal, scale, dropout), *parts)  # type: ignore[no-untyped-call]
    return mixed


class _AttendVarlen(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        of_queries: PackedRows,
        of_keys: PackedRows,
        numbers: tuple[bool, float, float],
        *parts: Tensor,
    ) -> Tensor:
        causal, scale, dropout = numbers
        queries, keys, values = _split_qkv(parts)
        num, heads, width = queries.shape
        mixed = queries.new_empty(num, heads, width)
        logsums = queries.new_empty(heads, num, dtype=torch.float32)
        seed = draw_seed(queries.device) if dropout else None
        tiles = TILE_PLANS.get(_width_pow2(width), TilePlan()).forward
        launch(
            "varlen_attention", "forward", (heads, -(-num // tiles.rows)),
            queries, keys, values, mixed, logsums, logsums if seed is None else seed,
            of_queries.indices, of_keys.offsets, of_queries.max_length, num,
            *_token_and_head_strides(queries, keys, values, mixed),
            scale * LOG2_E, drop_threshold(dropout), 1 / (1 - dropout),
            on=queries, **_options(causal, dropout, width, tiles),
        )  # fmt: skip
        ctx.save_for_backward(mixed, logsums, seed, *parts)
        ctx.rows, ctx.numbers = (of_queries, of_keys), numbers
        return mixed

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (of_queries, of_keys), (causal, scale, dropout) = ctx.rows, ctx.numbers
        mixed, logsums, seed, *parts = ctx.saved_tensors
        grads = [part.new_empty(part.shape) for part in parts]
        num, heads, width = mixed.shape
        if not num:  # without queries no program is launched that would write zeros
            return None, None, None, *(x.zero_() for x in grads)
        grad = grad if grad.stride(-1) == 1 else grad.contiguous()
        inputs, input_grads = _split_qkv(parts), _split_qkv(grads)
        tiles = TILE_PLANS.get(_width_pow2(width), TilePlan()).backward
        launch(
            "varlen_attention", "backward", (heads, -(-num // tiles.stride)),
            *inputs, mixed, grad, logsums, *input_grads, logsums if seed is None else seed,
            of_queries.indices, of_queries.offsets, of_keys.offsets, of_queries.max_length,
            len(of_queries.offsets) - 1, num,
            *_token_and_head_strides(*inputs, mixed, grad, *input_grads),
            scale, scale * LOG2_E, drop_threshold(dropout), 1 / (1 - dropout),
            STRIDE=tiles.stride, on=grad, **_options(causal, dropout, width, tiles),
        )  # fmt: skip
        return None, None, None, *grads


def _split_qkv(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Views (N, H, K), (M, H, K), (M, H, K) of queries, keys and values."""
    queries, keys, values = (x for part in parts for x in part.unbind(1))
    return queries, keys, values


def _token_and_head_strides(*tensors: Tensor) -> list[int]:
    """The strides of tokens and of heads of each tensor (N, H, K)."""
    for x in tensors:
        if x.stride(2) != 1:
            raise ValueError(f"a head's numbers must lie side by side, got strides {x.stride()}")
    return [x.stride(axis) for x in tensors for axis in (0, 1)]


def _width_pow2(width: int) -> int:
    return next_power_of_two(width, least=MIN_TILE)


def _options(causal: bool, dropout: float, width: int, tiles: Tiles) -> dict[str, Any]:
    return {
        "CAUSAL": causal, "DROPOUT": dropout > 0, "WIDTH": width, "WIDTH_POW2": _width_pow2(width),
        "ROWS": tiles.rows, "COLS": tiles.cols, "num_warps": tiles.warps, "num_stages": 1,
    }  # fmt: skip
