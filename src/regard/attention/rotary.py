"""Positions as angles, by which queries and keys are turned (Su et al. 2021)."""

import torch
from torch import Tensor

from regard.attention.positions import angles


def apply_rotary(x: Tensor, positions: Tensor) -> Tensor:
    """`x` (..., T, K), each pair (x_2i, x_2i+1) turned by the angle p / 10000^(2i/K) of its place.

    Equation 15 of the paper. The dot product of a query at place p and a key at place q, both
    turned, depends on q - p and not on p. `positions` is (T,), or (1,) where all stand at one.
    """
    wide = torch.promote_types(x.dtype, torch.float32)  # in bfloat16 far places would coincide
    phases = angles(positions, x.shape[-1], dtype=wide)  # (T, K / 2)
    cos, sin = phases.cos(), phases.sin()
    even, odd = torch.unflatten(x.to(wide), -1, (-1, 2)).unbind(-1)  # (..., T, K / 2) each
    rotated = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1)  # (..., K / 2, 2)
    return rotated.flatten(-2).to(x.dtype)  # (..., T, K)
