"""Position encodings: added to token vectors (sinusoids, learned), or used by self-attention."""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from regard.attention.score_functions import ScaledDotScore
from regard.errors import TextError
from regard.settings import Settings

ROTARY_BASE = 10000.0  # of Su et al. 2021; models for long texts have larger ones
PositionsName = Literal["sinusoid", "learned", "relative", "rotary"]
SinusoidLayout = Literal["interleaved", "halves", "tensor2tensor"]


class RotaryStretch(Settings):
    """How rotary frequencies are changed so that a model reads texts longer than its first ones.

    A frequency f becomes k f + (1 - k) f / `factor`, where k is 0 for those that turn less than
    `slow` times over `trained` tokens, 1 for those that turn more than `fast` times, and linear in
    between.
    """

    kind: Literal["linear", "llama3", "yarn"]
    """linear: k is 0 (Chen et al. 2023). llama3: k is linear in the number of turns (Grattafiori et
    al. 2024). yarn: k is linear in its logarithm (Peng et al. 2023)."""
    factor: PositiveFloat
    """The divisor of low frequencies."""
    trained: PositiveInt = 8192
    """Tokens of the longest texts before the change."""
    slow: PositiveFloat = 1.0
    """Turns over `trained` tokens up to which frequencies are divided."""
    fast: PositiveFloat = 4.0
    """Turns over `trained` tokens from which frequencies are kept."""
    rounded: bool = True
    """In `yarn`, whether the pairs of numbers at `slow` and `fast` are rounded to whole ones."""
    magnitude: PositiveFloat = 1.0
    """The factor of rotated queries and keys."""


class Rotary(NamedTuple):
    """The frequencies of rotary encodings."""

    base: float = ROTARY_BASE
    stretch: RotaryStretch | None = None


ROTARY = Rotary()


def angles(
    positions: Tensor, width: int, *, dtype: torch.dtype = torch.float32, rotary: Rotary = ROTARY
) -> Tensor:
    """p / base^(2i/D) for each position p and each i below D / 2: (...) -> (..., D / 2)."""
    evens = torch.arange(0, width, 2, dtype=dtype, device=positions.device)  # (D / 2,)
    frequencies = torch.exp(evens * (-math.log(rotary.base) / width))  # (D / 2,)
    if rotary.stretch is not None:
        kept = _kept_share(frequencies, width, rotary.base, rotary.stretch)  # (D / 2,)
        frequencies = frequencies * (kept + (1 - kept) / rotary.stretch.factor)
    return positions[..., None] * frequencies


def _kept_share(frequencies: Tensor, width: int, base: float, stretch: RotaryStretch) -> Tensor:
    """k of `RotaryStretch` for `frequencies` (D / 2,)."""
    if stretch.kind == "linear":
        return torch.zeros_like(frequencies)
    if stretch.kind == "llama3":
        turns = frequencies * (stretch.trained / (2 * math.pi))
        return ((turns - stretch.slow) / (stretch.fast - stretch.slow)).clamp(0, 1)
    # the pair that turns so often, as a real number
    first, last = (
        width * math.log(stretch.trained / (turns * 2 * math.pi)) / (2 * math.log(base))
        for turns in (stretch.fast, stretch.slow)
    )
    if stretch.rounded:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    pairs = torch.arange(len(frequencies), dtype=frequencies.dtype, device=frequencies.device)
    return 1 - ((pairs - first) / (last - first or 1e-3)).clamp(0, 1)


def sinusoid(positions: Tensor, width: int) -> Tensor:
    """sin(p / 10000^(2i/D)) at 2i, cos at 2i + 1: (T,) -> (T, D) (Vaswani et al. 2017, 3.5)."""
    phases = angles(positions, width)  # (T, D / 2)
    return torch.stack([phases.sin(), phases.cos()], -1).flatten(1)[:, :width]  # (T, D)


def sinusoid_halves(positions: Tensor, width: int) -> Tensor:
    """The numbers of `sinusoid`, all sines before all cosines: (T,) -> (T, D), as in Marian.

    Computed in float64 and rounded, as other toolkits compute their tables.
    """
    phases = angles(positions, width, dtype=torch.float64)  # (T, D / 2)
    return torch.cat([phases.sin(), phases.cos()[:, : width // 2]], -1).float()  # (T, D)


def sinusoid_tensor2tensor(positions: Tensor, width: int) -> Tensor:
    """sin(p / 10000^(i/(D/2 - 1))) at i, cos at D/2 + i: (T,) -> (T, D).

    The formula of Tensor2Tensor's `get_timing_signal_1d`, which OpenNMT, fairseq and CTranslate2
    use; an odd width ends in a zero.
    """
    half = width // 2
    steps = torch.arange(half, dtype=torch.float32, device=positions.device)  # (D / 2,)
    frequencies = torch.exp(steps * (-math.log(10000.0) / max(1, half - 1)))
    phases = positions[..., None] * frequencies  # (T, D / 2)
    vectors = torch.cat([phases.sin(), phases.cos()], -1)
    return nn.functional.pad(vectors, (0, width - 2 * half))  # (T, D)


SINUSOIDS: dict[SinusoidLayout, Callable[[Tensor, int], Tensor]] = {
    "interleaved": sinusoid,
    "halves": sinusoid_halves,
    "tensor2tensor": sinusoid_tensor2tensor,
}


class SinusoidPositions(nn.Module):
    """Sinusoids: no parameters, no maximum length; `first` is the position of the first token."""

    def __init__(
        self, width: int, layout: SinusoidLayout = "interleaved", *, first: int = 0
    ) -> None:
        super().__init__()
        self.width, self.first, self.formula = width, first, SINUSOIDS[layout]

    def forward(self, positions: Tensor) -> Tensor:
        """(T,) -> (T, D)"""
        return self.formula(positions + self.first if self.first else positions, self.width)


class LearnedPositions(nn.Module):
    """One learned vector for each of `limit` positions; `offset` rows before them are not used."""

    def __init__(self, width: int, limit: int, offset: int = 0) -> None:
        super().__init__()
        self.limit, self.offset = limit, offset
        self.table = nn.Embedding(offset + limit, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def forward(self, positions: Tensor) -> Tensor:
        """(T,) -> (T, D)"""
        vectors: Tensor = self.table(positions + self.offset if self.offset else positions)
        return vectors


Positions = SinusoidPositions | LearnedPositions
"""Position encodings that are added to token vectors."""


def build_positions(
    name: PositionsName,
    width: int,
    limit: int,
    *,
    layout: SinusoidLayout = "interleaved",
    first: int = 0,
) -> Positions | None:
    """The encoding `name`; None if it is not added to token vectors. `limit` is for learned ones,
    `layout` for sinusoids, and `first`, the position of the first token, for both.
    """
    if name == "sinusoid":
        return SinusoidPositions(width, layout, first=first)
    return LearnedPositions(width, limit, first) if name == "learned" else None


def check_max_positions(name: PositionsName, limit: int | None) -> None:
    """Raise a ValueError if a `limit` is set for positions that have none."""
    if name != "learned" and limit is not None:
        raise ValueError(
            f"max_positions {limit} has no effect on {name} positions, which have no longest "
            "sentence; leave it out or set positions to 'learned'"
        )


def check_length(length: int, limit: int | None) -> None:
    """Raise a TextError if a sentence of `length` tokens has more than `limit` positions."""
    if limit is not None and length > limit:
        raise TextError(
            f"a sentence of {length} tokens is longer than the {limit} positions that the model "
            "has learned; cut it or leave it out"
        )


def relative_positions(queries: int, keys: int, *, first: int = 0, device: torch.device) -> Tensor:
    """The position of each key, from `first`, minus that of each query, from 0: (T, S)."""
    key_positions = torch.arange(first, first + keys, device=device)  # (S,)
    return key_positions - torch.arange(queries, device=device)[:, None]  # (T, S)


class RelativeKeys(nn.Module):
    """A learned vector a for each distance, added to the keys (Shaw et al. 2018).

        e_ij = q_i · (k_j + a_{clip(j - i)}) / √K

    All heads share the vectors. Distances are clipped to `back` positions before the query and
    `ahead` after it, the paper's k. q_i · a / √K is a bias for a fused kernel. The paper's vectors
    for values are left out: they change nothing (its table 3: 25.8 BLEU with and without).
    """

    def __init__(self, width: int, *, back: int, ahead: int) -> None:
        super().__init__()
        self.back, self.ahead = back, ahead
        self.vectors = nn.Parameter(torch.empty(back + 1 + ahead, width))
        self.score = ScaledDotScore()
        nn.init.xavier_uniform_(self.vectors)

    def forward(self, queries: Tensor, relative_positions: Tensor) -> Tensor:
        """The bias (..., T, S) of `queries` (..., T, K) for `relative_positions` (T|1, S)."""
        scores: Tensor = self.score(queries, self.vectors)  # (..., T, back + 1 + ahead)
        index = relative_positions.clamp(-self.back, self.ahead) + self.back  # (T|1, S)
        _, index = torch.broadcast_tensors(scores[..., :1], index)  # type: ignore[no-untyped-call]
        return scores.gather(-1, index)  # (..., T, S)


def apply_rotary(x: Tensor, positions: Tensor, rotary: Rotary = ROTARY) -> Tensor:
    """`x` (..., T, K) with each pair (x_2i, x_2i+1) rotated by the angle p / base^(2i/K).

    Su et al. 2021, equation 15. The dot product of a rotated query at position p and a rotated key
    at q depends only on q - p. `positions` broadcast to (..., T): (1,) if it is the same for all.
    """
    wide = torch.promote_types(x.dtype, torch.float32)  # bfloat16 cannot tell far positions apart
    phases = angles(positions, x.shape[-1], dtype=wide, rotary=rotary)  # (T, K / 2)
    if rotary.stretch is not None:
        x = x * rotary.stretch.magnitude
    if x.is_cuda and not torch.compiler.is_compiling():
        return rotate_pairs(x, phases)
    cos, sin = phases.cos(), phases.sin()
    even, odd = torch.unflatten(x.to(wide), -1, (-1, 2)).unbind(-1)  # (..., T, K / 2) each
    rotated = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1)  # (..., K / 2, 2)
    return rotated.flatten(-2).to(x.dtype)  # (..., T, K)


def rotate_pairs(x: Tensor, phases: Tensor) -> Tensor:
    """The formula of `apply_rotary` as a product of complex numbers, in three passes over memory
    instead of eight: `x` (..., T, K) by `phases` (..., T, K / 2).
    """
    rotated: Tensor = _RotatePairs.apply(x, torch.polar(torch.ones_like(phases), phases))  # type: ignore[no-untyped-call]
    return rotated


class _RotatePairs(torch.autograd.Function):
    """`x` (..., T, K) times complex `factors` (..., T, K / 2) of absolute value 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factors: Tensor) -> Tensor:
        ctx.save_for_backward(factors)
        return _multiply_pairs(x, factors)

    @staticmethod
    def backward(ctx: Any, grads: Tensor) -> tuple[Tensor, None]:
        (factors,) = ctx.saved_tensors
        return _multiply_pairs(grads, factors.conj()), None


def _multiply_pairs(x: Tensor, factors: Tensor) -> Tensor:
    wide = x.to(factors.real.dtype, copy=True)
    pairs = torch.view_as_complex(torch.unflatten(wide, -1, (-1, 2)))  # (..., T, K / 2)
    return torch.view_as_real(pairs.mul_(factors)).flatten(-2).to(x.dtype)
