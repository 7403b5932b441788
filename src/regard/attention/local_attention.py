"""The part of the source that a query attends to: all of it, or a window (Luong et al.
2015, 3.2).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.attend import padding_mask

WindowName = Literal["global", "local-m", "local-p"]


def window_mask(centres: Tensor, keys: int, reach: int) -> Tensor:
    """A query may attend to `reach` keys on either side of its centre: (..., T) -> (..., T, S)."""
    positions = torch.arange(keys, device=centres.device)  # (S,)
    return (positions - centres[..., None]).abs() <= reach  # (..., T, S)


class WindowMask(NamedTuple):
    """Arguments of `attend`."""

    mask: Tensor  # broadcasts to (B, 1, T, S)
    bias: Tensor | None = None  # (B, 1, T, S), added to the scores


class GlobalWindow(nn.Module):
    """Every query attends to the whole source."""

    def forward(self, queries: Tensor, positions: Tensor, real: Tensor) -> WindowMask:
        """For `queries` (B, T, D), at target `positions` (T,) or (1,), and `real` (B, S)."""
        return WindowMask(padding_mask(real))


class MonotonicWindow(nn.Module):
    """`reach` words to either side of the target's own position (*local-m*).

    Positions beyond the end of the source attend to its end; the paper's window is empty there.
    """

    def __init__(self, reach: int) -> None:
        super().__init__()
        self.reach = reach

    def forward(self, queries: Tensor, positions: Tensor, real: Tensor) -> WindowMask:
        """See `GlobalWindow`."""
        last = real.sum(1, keepdim=True) - 1  # (B, 1)
        centres = torch.minimum(positions, last)  # (B, T)
        near = window_mask(centres, real.shape[1], self.reach)  # (B, T, S)
        return WindowMask(near[:, None] & padding_mask(real))


class PredictedWindow(nn.Module):
    """`reach` words to either side of a position that each query predicts (*local-p*).

    It is p = S · sigmoid(vᵀ tanh(W q)) in a source of S words, counted from 0. The logarithm of a
    Gaussian around it, σ = reach / 2, is added to the scores; the paper multiplies the weights.
    """

    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.hidden = nn.Linear(width, width, bias=False)
        self.place = nn.Linear(width, 1, bias=False)

    def forward(self, queries: Tensor, positions: Tensor, real: Tensor) -> WindowMask:
        """See `GlobalWindow`."""
        lengths = real.sum(1, keepdim=True)  # (B, 1)
        hidden = torch.tanh(self.hidden(queries))  # (B, T, D)
        fractions = torch.sigmoid(self.place(hidden)).squeeze(-1)  # (B, T)
        wide = torch.promote_types(fractions.dtype, torch.float32)  # bfloat16 is too coarse
        centres = lengths * fractions.to(wide)  # (B, T)
        near = window_mask(centres, real.shape[1], self.reach)  # (B, T, S)
        source = torch.arange(real.shape[1], device=real.device)  # (S,)
        bias = -((source - centres[..., None]) ** 2) / (2 * (self.reach / 2) ** 2)  # (B, T, S)
        return WindowMask(near[:, None] & padding_mask(real), bias[:, None])


def build_window(name: WindowName, width: int, reach: int) -> nn.Module:
    """The window called `name`, for queries of `width`; `reach` is D in the paper."""
    builders: dict[WindowName, Callable[[], nn.Module]] = {
        "global": GlobalWindow,
        "local-m": lambda: MonotonicWindow(reach),
        "local-p": lambda: PredictedWindow(width, reach),
    }
    return builders[name]()
