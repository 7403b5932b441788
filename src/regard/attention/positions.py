"""Where a token stands, told to a model that would otherwise see a set."""

import math
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import TextError

PositionsName = Literal["sinusoid", "learned", "relative", "rotary"]


def angles(positions: Tensor, width: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """p / 10000^(2i/D) for each position p and each i below D / 2: (T,) -> (T, D / 2)."""
    evens = torch.arange(0, width, 2, dtype=dtype, device=positions.device)  # (D / 2,)
    frequencies = torch.exp(evens * (-math.log(10000.0) / width))  # (D / 2,)
    return positions[:, None] * frequencies


def sinusoid(positions: Tensor, width: int) -> Tensor:
    """sin(p / 10000^(2i/D)) at 2i and the cosine at 2i + 1: (T,) -> (T, D), float32.

    Vaswani et al. 2017, section 3.5. The distance between two of them depends on their offset
    alone.
    """
    phases = angles(positions, width)  # (T, D / 2)
    return torch.stack([phases.sin(), phases.cos()], -1).flatten(1)[:, :width]  # (T, D)


@cache
def _cached_sinusoid(position: int, width: int, where: torch.device) -> Tensor:
    """`sinusoid` of one position (1, D), which every search asks for again.

    None is ever given up: a step that was recorded reads it where it lies.
    """
    with torch.inference_mode(False):  # whoever asks next may be learning
        return sinusoid(torch.arange(position, position + 1, device=where), width)


class SinusoidPositions(nn.Module):
    """Fixed waves: no parameters, no longest sentence."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, positions: Tensor) -> Tensor:
        """(T,) -> (T, D)"""
        return sinusoid(positions, self.width)

    def at(self, position: int, where: torch.device) -> Tensor:
        """That of one position alone: (1, D)."""
        return _cached_sinusoid(position, self.width, where)


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

    def at(self, position: int, where: torch.device) -> Tensor:
        """That of one position alone, where the table is: (1, D)."""
        return self.table.weight[position : position + 1]


Positions = SinusoidPositions | LearnedPositions
"""What is added to the vectors of tokens."""


def build_positions(name: PositionsName, width: int, limit: int) -> Positions | None:
    """What the positions called `name` add to token vectors; `limit` bounds the learned ones.

    None for those of which only self-attention knows (`relative`, `rotary`).
    """
    match name:
        case "sinusoid":
            return SinusoidPositions(width)
        case "learned":
            return LearnedPositions(width, limit)
        case "relative" | "rotary":
            return None


def check_max_positions(name: PositionsName, limit: int | None) -> None:
    """Nothing, or a ValueError where a setting bounds positions that have no bound."""
    if name != "learned" and limit is not None:
        raise ValueError(
            f"max_positions {limit} has no effect on {name} positions, which know no longest "
            "sentence; leave it out or set positions to 'learned'"
        )


def check_length(length: int, limit: int | None) -> None:
    """Nothing, or a TextError where `length` tokens are more than learned positions can tell."""
    if limit is not None and length > limit:
        raise TextError(
            f"a sentence of {length} tokens is longer than the {limit} positions that the model "
            "has learned; cut it or leave it out"
        )
