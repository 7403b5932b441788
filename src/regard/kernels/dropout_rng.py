"""Random bits that are a function of a seed and a place.

What a kernel drops in a forward pass it must drop again in the backward pass, without having kept a
mask. This is the plain twin of `device/chance.py`, in 64-bit integers where that has 32-bit ones.
"""

import torch
from torch import Tensor

GOLDEN, LOW_32_BITS = 0x9E3779B9, 0xFFFFFFFF
THRESHOLD_STEPS = 1 << 24
"""A share to drop is counted in so many parts."""


def draw_seed(where: torch.device) -> Tensor:
    """A seed (1,) from torch's generator of that device, which is not asked for its value."""
    return torch.randint(2**62, (1,), device=where)


def empty_seed(where: torch.device) -> Tensor:
    """What stands in the place of a seed where nothing is dropped: (0,)."""
    return torch.empty(0, dtype=torch.int64, device=where)


def drop_threshold(dropout: float) -> int:
    """`dropout` in the parts that are counted in."""
    return round(dropout * THRESHOLD_STEPS)


def keep_mask(seed: Tensor, rows: Tensor, part: Tensor, cols: Tensor, dropout: float) -> Tensor:
    """Whether the cell at (`rows`, `part`, `cols`), which broadcast, stays; `seed` is (1,)."""
    keys = _mix(_mix(rows ^ (seed & LOW_32_BITS)) + part * GOLDEN + ((seed >> 32) & LOW_32_BITS))
    return (_mix(keys + cols * GOLDEN) >> 8) >= drop_threshold(dropout)


def _mix(x: Tensor) -> Tensor:
    """A 32-bit number made of each (Wellons 2018, `lowbias32`)."""
    x = x & LOW_32_BITS
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & LOW_32_BITS
    x = ((x ^ (x >> 15)) * 0x846CA68B) & LOW_32_BITS
    return x ^ (x >> 16)
