"""Dropout at the price of a product, on a CPU."""

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 1 << 16
"""A share to drop is rounded to a multiple of 1 / LEVELS."""


def apply_dropout(x: Tensor, p: float) -> Tensor:
    """`x` with about `share` of its numbers set to 0 and the others scaled up to make up for them.

    On a CPU torch asks its generator for a double for each number, which takes three times as long
    as the linear layer beside it. There it is asked for 64 bits for each four numbers instead.
    """
    if p == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    return x * dropout_mask(x.shape, p, x.dtype)


def dropout_mask(shape: torch.Size, p: float, dtype: torch.dtype) -> Tensor:
    """0 for about `share` of the numbers, and for the others what makes the mean 1."""
    count = shape.numel()
    random_int64 = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(1 << 63), None)
    random_int16 = random_int64.view(torch.int16)[:count].view(shape)  # evenly from -LEVELS / 2 up
    num_dropped = min(max(round(p * LEVELS), 1), LEVELS - 1)
    threshold = num_dropped - LEVELS // 2  # the least level that is kept
    # Neighbouring whole numbers are the quickest way to two values: a comparison takes far longer.
    kept = random_int16.clamp_(threshold - 1, threshold).sub_(threshold - 1)  # 0 or 1
    return kept.to(dtype).mul_(LEVELS / (LEVELS - num_dropped))
