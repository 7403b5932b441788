"""What a launch of any kernel takes."""

import importlib
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

LAUNCH_OPTIONS = {"enable_fp_fusion": True}
"""For every launch: a product and a sum are one instruction, by default only up to Triton 3.9."""
MIN_TILE = 16
"""The fewest rows, columns or lanes of what a kernel multiplies on tensor cores."""


def triton_module(name: str) -> Any:
    """The kernels of `device/` behind the module of that name; with the first, Triton is imported.

    They have no types that anybody could check.
    """
    return importlib.import_module(f"regard.kernels.triton.{name}")


def device_of(x: Tensor) -> AbstractContextManager[object]:
    """Within it, kernels start where `x` is."""
    return torch.cuda.device_of(x)  # type: ignore[no-untyped-call]


def next_power_of_two(size: int, *, least: int = 1) -> int:
    """The one that holds `size`, and no less than `least`: a tile has so many places."""
    return max(least, 1 << (size - 1).bit_length())
