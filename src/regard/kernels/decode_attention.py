"""Attention of the few queries that a step of a search has for each sentence.

A general kernel has tiles of 64 or 128 queries, of which a beam fills 5, and wants a mask in a form
of its own, which takes several operations more to make than the attention itself. Its plain twin
are the two products of `attention.few`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.dispatch import HALF_DTYPES, disabled, runs_on
from regard.kernels.launch import (
    LAUNCH_OPTIONS,
    MIN_TILE,
    device_of,
    next_power_of_two,
    triton_module,
)

MAX_QUERIES = 64
"""The most queries that it is for."""
MAX_QUERIES_FLOAT32 = 16
"""The same in float32: of more, too few numbers find a register."""
MAX_HEAD_WIDTH = 128
"""The widest head."""


class Tiles(NamedTuple):
    """How the work is cut."""

    cols: int = 16
    """Keys at a time, at the most: with few, many programs find room beside each other, and while
    one waits for its keys another has them."""
    warps: int = 8
    """The most."""
    each: int = 1024
    """Numbers of keys for each of them."""
    stages: int = 2
    precision: str = "tf32x3"
    """Of products in float32: of three products of tensor cores, which are as good, or `ieee`."""


tiles = Tiles()
"""What is used; whoever has measured others puts them here."""


def use_decode_attention(queries: Tensor) -> bool:
    """Whether there is a kernel for `queries` (B, H, T, K), of which no slopes are wanted."""
    if "decode_attention" in disabled or not runs_on(queries):
        return False
    max_queries = MAX_QUERIES_FLOAT32 if queries.dtype == torch.float32 else MAX_QUERIES
    small = queries.shape[2] <= max_queries and queries.shape[3] <= MAX_HEAD_WIDTH
    return small and queries.dtype in (torch.float32, *HALF_DTYPES)


def decode_attention(
    queries: Tensor, keys: Tensor, values: Tensor, mask_bias: Tensor, *, scale: float
) -> Tensor:
    """softmax(factor queries keysᵀ + hidden) values: (B, H, T, K), (B, H, S, K) -> (B, H, T, K).

    `hidden` is (B, 1, T|1, S). What comes back lies as (B, T, H, K), ready for heads to be merged.
    """
    queries, keys, values, mask_bias = (
        _last_axis_contiguous(x) for x in (queries, keys, values, mask_bias)
    )
    sentences, heads, num, width = queries.shape
    length = keys.shape[2]
    mixed = queries.new_empty(sentences, num, heads, width).transpose(1, 2)  # (B, H, T, K)
    if not mixed.numel():
        return mixed
    rows, cols, lanes = (next_power_of_two(size, least=MIN_TILE) for size in (num, length, width))
    cols = min(tiles.cols, cols)
    with device_of(queries):
        triton_module("decode_attention").decode_attention[(sentences * heads,)](
            queries, keys, values, mask_bias, mixed, num, length, scale,
            *queries.stride()[:3], *keys.stride()[:3], *values.stride()[:3],
            mask_bias.stride(0), mask_bias.stride(2) if mask_bias.shape[2] > 1 else 0,
            *mixed.stride()[:3],
            HEADS=heads, WIDTH=width, ROWS=rows, LANES=lanes, COLS=cols,
            PRECISION=tiles.precision,
            num_warps=min(tiles.warps, max(1, cols * lanes // tiles.each)),
            num_stages=tiles.stages, **LAUNCH_OPTIONS,
        )  # fmt: skip
    return mixed


def _last_axis_contiguous(x: Tensor) -> Tensor:
    """`x` with its last axis in one piece."""
    return x if x.stride(-1) == 1 else x.contiguous()
