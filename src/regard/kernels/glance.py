"""Attention of the few queries that a step of a search has for each sentence.

A general kernel has tiles of 64 or 128 queries, of which a beam fills 5, and wants a mask in a form
of its own, which takes several operations more to make than the attention itself. Its plain twin
are the two products of `attention.few`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.available import HALVES, disabled, runs_on
from regard.kernels.launching import COMPILED, LEAST, device_of, kernels_of, power_of_two

MOST = 64
"""The most queries that it is for."""
MOST_PRECISE = 16
"""The same in float32: of more, too few numbers find a register."""
WIDEST = 128
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


def suits_glance(queries: Tensor) -> bool:
    """Whether there is a kernel for `queries` (B, H, T, K), of which no slopes are wanted."""
    if "glance" in disabled or not runs_on(queries):
        return False
    most = MOST_PRECISE if queries.dtype == torch.float32 else MOST
    small = queries.shape[2] <= most and queries.shape[3] <= WIDEST
    return small and queries.dtype in (torch.float32, *HALVES)


def glance(
    queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor, *, factor: float
) -> Tensor:
    """softmax(factor queries keysᵀ + hidden) values: (B, H, T, K), (B, H, S, K) -> (B, H, T, K).

    `hidden` is (B, 1, T|1, S). What comes back lies as (B, T, H, K), ready for heads to be merged.
    """
    queries, keys, values, hidden = (_dense(x) for x in (queries, keys, values, hidden))
    sentences, heads, num, width = queries.shape
    length = keys.shape[2]
    mixed = queries.new_empty(sentences, num, heads, width).transpose(1, 2)  # (B, H, T, K)
    if not mixed.numel():
        return mixed
    rows, cols, lanes = (power_of_two(size, least=LEAST) for size in (num, length, width))
    cols = min(tiles.cols, cols)
    with device_of(queries):
        kernels_of("glance").glance[(sentences * heads,)](
            queries, keys, values, hidden, mixed, num, length, factor,
            *queries.stride()[:3], *keys.stride()[:3], *values.stride()[:3],
            hidden.stride(0), hidden.stride(2) if hidden.shape[2] > 1 else 0,
            *mixed.stride()[:3],
            HEADS=heads, WIDTH=width, ROWS=rows, LANES=lanes, COLS=cols,
            PRECISION=tiles.precision,
            num_warps=min(tiles.warps, max(1, cols * lanes // tiles.each)),
            num_stages=tiles.stages, **COMPILED,
        )  # fmt: skip
    return mixed


def _dense(x: Tensor) -> Tensor:
    """`x` with its last axis in one piece."""
    return x if x.stride(-1) == 1 else x.contiguous()
