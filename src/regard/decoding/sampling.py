"""Sampling: answers drawn at random, each as often as the model holds it likely."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, device

from regard.decoding.grid import Candidates, Grid
from regard.decoding.settings import SamplingSettings
from regard.kernels.choice import Sayable


class Sampler:
    """Draws the next token of each of some hypotheses that do not know of each other.

    Sample k of sentence n depends on the seed, on n and on k alone: each has a generator of its
    own, and its numbers are drawn before the search begins.
    """

    def __init__(
        self,
        settings: SamplingSettings,
        samples: int,
        numbers: Sequence[int],
        longest: int,
        where: device,
    ) -> None:
        self.settings, self.samples = settings, samples
        draws = [
            [_uniform((settings.seed, number, k), longest) for k in range(samples)]
            for number in numbers
        ]
        self._draws = torch.from_numpy(np.array(draws)).to(where)  # (B, K, steps)

    @property
    def start(self) -> int:
        return self.samples

    @property
    def width(self) -> int:
        return self.samples

    def at_once(self, logits: Tensor, grid: Grid, sayable: Sayable) -> Candidates | None:
        """None: there is no kernel for it."""
        return None

    def __call__(self, log_probs: Tensor, grid: Grid) -> Candidates:
        """One way (B, K) for each cell, with the probability that the model itself gives it."""
        likely = log_probs / self.settings.temperature  # (B, K, V)
        if self.settings.top_k is not None:
            likely = top_k(likely, self.settings.top_k)
        if self.settings.top_p is not None:
            likely = top_p(likely, self.settings.top_p)
        tokens = draw(likely, self._draws[grid.rows, :, grid.length])  # (B, K)
        gains = log_probs.gather(-1, tokens[..., None]).squeeze(-1)  # (B, K)
        return Candidates(grid.log_probs + gains, tokens, None)


def top_k(logits: Tensor, k: int) -> Tensor:
    """The logits (..., V) without those below the k-th largest."""
    least = logits.topk(min(k, logits.shape[-1])).values[..., -1:]  # (..., 1)
    return logits.masked_fill(logits < least, float("-inf"))


def top_p(logits: Tensor, p: float) -> Tensor:
    """The logits (..., V) of the likeliest tokens, down to the one with which their sum reaches p.

    Holtzman et al. 2020, section 3.1.
    """
    ordered = logits.sort(dim=-1, descending=True, stable=True)  # (..., V)
    probs = ordered.values.softmax(-1)
    before = probs.cumsum(-1) - probs  # what likelier tokens have together
    kept = ordered.values.masked_fill(before >= p, float("-inf"))
    return torch.empty_like(logits).scatter_(-1, ordered.indices, kept)


def draw(logits: Tensor, uniform: Tensor) -> Tensor:
    """The token of each row (..., V) on whose share of [0, 1) its number (...) falls."""
    cumulative = logits.softmax(-1).cumsum(-1)  # (..., V)
    target = uniform[..., None].to(logits.dtype) * cumulative[..., -1:]  # (..., 1), below the sum
    tokens = torch.searchsorted(cumulative, target, right=True).squeeze(-1)  # (...)
    return tokens.clamp_max(logits.shape[-1] - 1)  # only NaN falls outside: reported at the end


def _uniform(seeds: tuple[int, ...], num: int) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    """Numbers in [0, 1): multiples of 2^-24, so that their product with a sum stays below it."""
    return np.random.default_rng(seeds).random(num, dtype=np.float32)
