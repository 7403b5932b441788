"""Dropout (Srivastava et al. 2014).

On a CPU torch draws a double for each number, which takes three times as long as the linear layer
beside it; here each 64 random bits decide on four numbers. For kernels see `triton/dropout_rng.py`.
"""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16
"""A dropout probability is rounded to a multiple of 1 / LEVELS."""
THRESHOLD_STEPS = 1 << 24
"""The same, inside kernels."""


class Dropout(nn.Module):
    """In training, sets each number to 0 with probability `p` and scales up the others."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"the share to drop must be at least 0 and less than 1, got {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> (...)"""
        return apply_dropout(x, self.p) if self.training else x

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...

    def extra_repr(self) -> str:
        return f"{self.p}"


def apply_dropout(x: Tensor, p: float) -> Tensor:
    """`x` with about `p` of its numbers set to 0 and the others scaled up to keep the mean."""
    if p == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    return x * dropout_mask(x.shape, p, x.dtype)


def dropout_mask(shape: torch.Size, p: float, dtype: torch.dtype) -> Tensor:
    """0 for about `p` of the numbers, and for the others the value that makes the mean 1."""
    count = shape.numel()
    random_int64 = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(1 << 63), None)
    random_int16 = random_int64.view(torch.int16)[:count].view(shape)  # uniform from -LEVELS / 2
    num_dropped = min(max(round(p * LEVELS), 1), LEVELS - 1)
    threshold = num_dropped - LEVELS // 2  # the least level that is kept
    # Clamping to two neighbouring integers is far faster than a comparison.
    kept = random_int16.clamp_(threshold - 1, threshold).sub_(threshold - 1)  # 0 or 1
    return kept.to(dtype).mul_(LEVELS / (LEVELS - num_dropped))


def draw_seed(device: torch.device) -> Tensor:
    """A seed (1,) for a kernel from torch's generator, drawn without waiting for the device."""
    return torch.randint(2**62, (1,), device=device)


def drop_threshold(dropout: float) -> int:
    """A kernel drops a number if its 24 random bits are below this."""
    return round(dropout * THRESHOLD_STEPS)
