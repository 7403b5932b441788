"""Random bits that are a function of a seed and a place.

What a kernel drops in a forward pass it must drop again in the backward pass, without having kept a
mask. This is the plain twin of `device/chance.py`, in 64-bit integers where that has 32-bit ones.
"""

import torch
from torch import Tensor

GOLDEN, LOW = 0x9E3779B9, 0xFFFFFFFF
STEPS = 1 << 24
"""A share to drop is counted in so many parts."""


def draw_seed(where: torch.device) -> Tensor:
    """A seed (1,) from torch's generator of that device, which is not asked for its value."""
    return torch.randint(2**62, (1,), device=where)


def no_seed(where: torch.device) -> Tensor:
    """What stands in the place of a seed where nothing is dropped: (0,)."""
    return torch.empty(0, dtype=torch.int64, device=where)


def threshold(dropout: float) -> int:
    """`dropout` in the parts that are counted in."""
    return round(dropout * STEPS)


def kept(seed: Tensor, rows: Tensor, part: Tensor, cols: Tensor, dropout: float) -> Tensor:
    """Whether the cell at (`rows`, `part`, `cols`), which broadcast, stays; `seed` is (1,)."""
    keys = _mix(_mix(rows ^ (seed & LOW)) + part * GOLDEN + ((seed >> 32) & LOW))
    return (_mix(keys + cols * GOLDEN) >> 8) >= threshold(dropout)


def _mix(x: Tensor) -> Tensor:
    """A 32-bit number made of each (Wellons 2018, `lowbias32`)."""
    x = x & LOW
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & LOW
    x = ((x ^ (x >> 15)) * 0x846CA68B) & LOW
    return x ^ (x >> 16)
