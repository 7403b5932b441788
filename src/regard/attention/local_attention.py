"""Which part of the source a query looks at: all of it, or a window (Luong et al. 2015, 3.2)."""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.attend import padding_mask, window_mask

WindowName = Literal["global", "local-m", "local-p"]


class WindowMask(NamedTuple):
    """What `attend` is to be given."""

    mask: Tensor  # broadcasts to (B, 1, T, S)
    bias: Tensor | None = None  # (B, 1, T, S), added to the scores


class SourceWindow(nn.Module, ABC):
    """A choice of source positions for each query."""

    @abstractmethod
    def forward(self, queries: Tensor, positions: Tensor, real: Tensor) -> WindowMask:
        """The view of `queries` (B, T, D), at target `positions` (T,) or (1,), of `real` (B, S)."""


class GlobalWindow(SourceWindow):
    """Every query sees the whole source."""

    def forward(self, queries: Tensor, positions: Tensor, real: Tensor) -> WindowMask:
        return WindowMask(padding_mask(real))


class MonotonicWindow(SourceWindow):
    """`reach` words to either side of the target's own position (*local-m*).

    A target that has grown longer than its source goes on looking at the end of it, where the
    paper's window would run empty.
    """

    def __init__(self, reach: int) -> None:
        super().__init__()
        self.reach = reach

    def forward(self, queries: Tensor, positions: Tensor, real: Tensor) -> WindowMask:
        last = real.sum(1, keepdim=True) - 1  # (B, 1)
        centres = torch.minimum(positions, last)  # (B, T)
        near = window_mask(centres, real.shape[1], self.reach)  # (B, T, S)
        return WindowMask(near[:, None] & padding_mask(real))


class PredictedWindow(SourceWindow):
    """`reach` words to either side of a place that each query predicts (*local-p*).

    The place is p = S · sigmoid(vᵀ tanh(W q)), for a source of S words counted from 0, and words
    are favoured by a Gaussian around it with σ = reach / 2. The paper multiplies the weights by
    the Gaussian, after which they no longer sum to one; here its logarithm is added to the scores,
    which is the same product, made a distribution again.
    """

    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.hidden = nn.Linear(width, width, bias=False)
        self.place = nn.Linear(width, 1, bias=False)

    def forward(self, queries: Tensor, positions: Tensor, real: Tensor) -> WindowMask:
        lengths = real.sum(1, keepdim=True)  # (B, 1)
        relative_centres = torch.sigmoid(self.place(torch.tanh(self.hidden(queries)))).squeeze(
            -1
        )  # (B, T)
        # In bfloat16 a place beyond 128 could not tell a word from its neighbour.
        centres = lengths * relative_centres.to(
            torch.promote_types(relative_centres.dtype, torch.float32)
        )  # (B, T)
        near = window_mask(centres, real.shape[1], self.reach)  # (B, T, S)
        source = torch.arange(real.shape[1], device=real.device)  # (S,)
        bias = -((source - centres[..., None]) ** 2) / (2 * (self.reach / 2) ** 2)  # (B, T, S)
        return WindowMask(near[:, None] & padding_mask(real), bias[:, None])


def build_window(name: WindowName, width: int, reach: int) -> SourceWindow:
    """The window called `name`, for queries of `width`; `reach` is D in the paper."""
    match name:
        case "global":
            return GlobalWindow()
        case "local-m":
            return MonotonicWindow(reach)
        case "local-p":
            return PredictedWindow(width, reach)
