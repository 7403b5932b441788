"""The sum of the rows of a matrix: the slope of a bias.

Torch's own reduction takes four times as long as it takes to read the matrix.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.launch import LAUNCH_OPTIONS, device_of, triton_module


class Tiles(NamedTuple):
    """How the work of the kernel is cut."""

    rows: int
    cols: int
    warps: int
    programs: int
    """For each block of columns; each sums some of the rows."""


first_pass_tiles = Tiles(32, 128, 4, 48)
"""For many rows, whose programs leave a row each."""
last_pass_tiles = Tiles(128, 32, 4, 1)
"""For the few that are left."""
TWO_PASS_ROWS = 1024


def column_sums(x: Tensor) -> Tensor:
    """The sum of the rows of `x`, in float32: (N, D) -> (D,)."""
    return _partial_sums(
        _partial_sums(x, first_pass_tiles) if len(x) > TWO_PASS_ROWS else x, last_pass_tiles
    )[0]


def plain_column_sums(x: Tensor) -> Tensor:
    """`sum_rows` as its formula reads."""
    return x.sum(0, dtype=torch.float32)


def _partial_sums(x: Tensor, tiles: Tiles) -> Tensor:
    """The sums of each program: (N, D) -> (P, D)."""
    if x.stride(1) != 1:
        x = x.contiguous()
    num, width = x.shape
    partial = x.new_empty(tiles.programs, width, dtype=torch.float32)
    with device_of(x):
        triton_module("column_sum").column_sums[(-(-width // tiles.cols), tiles.programs)](
            x, partial, num, x.stride(0), WIDTH=width, ROWS=tiles.rows, COLS=tiles.cols,
            PROGRAMS=tiles.programs, num_warps=tiles.warps, **LAUNCH_OPTIONS,
        )  # fmt: skip
    return partial
