"""The sum of the rows of a matrix: the slope of a bias.

Torch's own reduction takes four times as long as it takes to read the matrix.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.launching import COMPILED, device_of, kernels_of


class Tiles(NamedTuple):
    """How the work of the kernel is cut."""

    rows: int
    cols: int
    warps: int
    programs: int
    """For each block of columns; each sums some of the rows."""


first = Tiles(32, 128, 4, 48)
"""For many rows, whose programs leave a row each."""
last = Tiles(128, 32, 4, 1)
"""For the few that are left."""
FEW = 1024


def sum_rows(x: Tensor) -> Tensor:
    """The sum of the rows of `x`, in float32: (N, D) -> (D,)."""
    return _sum(_sum(x, first) if len(x) > FEW else x, last)[0]


def plain_sum_rows(x: Tensor) -> Tensor:
    """`sum_rows` as its formula reads."""
    return x.sum(0, dtype=torch.float32)


def _sum(x: Tensor, tiles: Tiles) -> Tensor:
    """The sums of each program: (N, D) -> (P, D)."""
    if x.stride(1) != 1:
        x = x.contiguous()
    num, width = x.shape
    made = x.new_empty(tiles.programs, width, dtype=torch.float32)
    with device_of(x):
        kernels_of("sums").sum_rows[(-(-width // tiles.cols), tiles.programs)](
            x, made, num, x.stride(0), WIDTH=width, ROWS=tiles.rows, COLS=tiles.cols,
            PROGRAMS=tiles.programs, num_warps=tiles.warps, **COMPILED,
        )  # fmt: skip
    return made
