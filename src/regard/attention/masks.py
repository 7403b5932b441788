"""Who may look at what: boolean, True means may look, broadcast to (B, H, T, S)."""

import torch
from torch import Tensor, device


def padding_mask(real: Tensor) -> Tensor:
    """Every query may look at the real keys: `real` (B, S) -> (B, 1, 1, S)."""
    return real[:, None, None, :]


def causal_mask(queries: int, keys: int, *, where: device | None = None) -> Tensor:
    """A query may look at keys no later than itself, the last query at all: (1, 1, T, S).

    Fewer queries than keys means that the first keys were there before: a cache.
    """
    place = torch.arange(keys, device=where)  # (S,)
    return (place[keys - queries :, None] >= place)[None, None]  # (1, 1, T, S)


def window_mask(centres: Tensor, keys: int, reach: int) -> Tensor:
    """A query may look `reach` keys to either side of its centre: (..., T) -> (..., T, S)."""
    place = torch.arange(keys, device=centres.device)  # (S,)
    return (place - centres[..., None]).abs() <= reach  # (..., T, S)
