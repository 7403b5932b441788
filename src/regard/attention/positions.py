"""Where a token stands, told to a model that would otherwise see a set."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

PositionsName = Literal["sinusoid", "learned"]


def sinusoid(positions: Tensor, width: int) -> Tensor:
    """sin(p / 10000^(2i/D)) at 2i and the cosine at 2i + 1: (T,) -> (T, D), float32.

    Vaswani et al. 2017, section 3.5. The distance between two of them depends on their offset
    alone.
    """
    evens = torch.arange(0, width, 2, device=positions.device)  # (D / 2,)
    rates = torch.exp(evens * (-math.log(10000.0) / width))  # (D / 2,)
    angles = positions[:, None] * rates  # (T, D / 2)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]  # (T, D)


class SinusoidPositions(nn.Module):
    """Fixed waves: no parameters, no longest sentence."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, positions: Tensor) -> Tensor:
        """(T,) -> (T, D)"""
        return sinusoid(positions, self.width)


class LearnedPositions(nn.Module):
    """One learned vector for each of `limit` positions."""

    def __init__(self, width: int, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.table = nn.Embedding(limit, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def forward(self, positions: Tensor) -> Tensor:
        """(T,) -> (T, D)"""
        vectors: Tensor = self.table(positions)
        return vectors


def build_positions(name: PositionsName, width: int, limit: int) -> nn.Module:
    """The positions called `name`; `limit` bounds the learned ones."""
    match name:
        case "sinusoid":
            return SinusoidPositions(width)
        case "learned":
            return LearnedPositions(width, limit)
