"""The seed and the threshold of dropout inside kernels (`triton/dropout_rng.py`).

Whether a number is dropped is a function of the seed and its index, so that the backward pass
computes the mask again instead of reading it.
"""

import torch
from torch import Tensor

THRESHOLD_STEPS = 1 << 24


def draw_seed(device: torch.device) -> Tensor:
    """A seed (1,) from torch's generator of a device, drawn without waiting for the device."""
    return torch.randint(2**62, (1,), device=device)


def drop_threshold(dropout: float) -> int:
    """A number is dropped if its 24 random bits are below this."""
    return round(dropout * THRESHOLD_STEPS)
