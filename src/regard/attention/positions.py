"""Where a token stands, told to a model that would otherwise see a set."""

import math
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.scores import ScaledDotScore
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


def relative_positions(queries: int, keys: int, *, first: int = 0, where: torch.device) -> Tensor:
    """How far each key stands behind each query, where key 0 stands `first` behind query 0: (T, S).

    Negative: before it.
    """
    key_positions = torch.arange(first, first + keys, device=where)  # (S,)
    return key_positions - torch.arange(queries, device=where)[:, None]  # (T, S)


class RelativeKeys(nn.Module):
    """A learned vector a for each distance, added to the keys of all heads.

        e_ij = q_i · (k_j + a_{clip(j - i)}) / √K

    Distances are clipped to `back` before and `ahead` behind the query, the paper's k; a decoder,
    whose past alone is ever seen, needs none ahead. What the vectors add to the scores is
    computed apart, and the keys stay as they are: a fused kernel takes it as a bias.

    The paper has such vectors for the values too, and finds that they change nothing (its table
    3: 25.8 BLEU with and without). Here there are none.
    """

    def __init__(self, width: int, *, back: int, ahead: int) -> None:
        super().__init__()
        self.back, self.ahead = back, ahead
        self.vectors = nn.Parameter(torch.empty(back + 1 + ahead, width))
        self.score = ScaledDotScore()
        nn.init.xavier_uniform_(self.vectors)

    def forward(self, queries: Tensor, relative_positions: Tensor) -> Tensor:
        """What the distances (T|1, S) add to the scores of `queries` (..., T, K): (..., T, S)."""
        each: Tensor = self.score(queries, self.vectors)  # (..., T, back + 1 + ahead)
        which = relative_positions.clamp(-self.back, self.ahead) + self.back  # (T|1, S)
        return each.gather(-1, which.expand(*each.shape[:-1], -1))  # (..., T, S)


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
