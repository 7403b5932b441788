"""Sampling: tokens drawn at random from the distribution of the model."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, device

from regard.decoding.search.hypotheses import Hypotheses
from regard.decoding.settings import SamplingSettings
from regard.kernels.beam_update import Candidates
from regard.kernels.topk_logits import TokenRules


class SamplingSelector:
    """Draws the next token of each hypothesis independently.

    Sample k of sentence n depends on the seed, n and k alone: its random numbers are drawn before
    the search begins.
    """

    def __init__(
        self,
        settings: SamplingSettings,
        samples: int,
        numbers: Sequence[int],
        longest: int,
        where: device,
    ) -> None:
        self.settings, self.width, self.initial_width = settings, samples, samples
        seeds = ([(settings.seed, number, k) for k in range(samples)] for number in numbers)
        uniforms = [[_uniform_numbers(seed, longest) for seed in row] for row in seeds]
        self._uniforms = torch.from_numpy(np.array(uniforms)).to(where)  # (B, K, steps)

    def fused(
        self, logits: Tensor, hypotheses: Hypotheses, token_rules: TokenRules
    ) -> Candidates | None:
        """None: there is no kernel for sampling."""
        return None

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> Candidates:
        """One candidate (B, K) for each hypothesis; its log-probability is the model's own."""
        narrowed = log_probs / self.settings.temperature  # (B, K, V)
        if self.settings.top_k is not None:
            narrowed = top_k(narrowed, self.settings.top_k)
        if self.settings.top_p is not None:
            narrowed = top_p(narrowed, self.settings.top_p)
        uniform = self._uniforms[hypotheses.sentence_index, :, hypotheses.length]  # (B, K)
        tokens = draw(narrowed, uniform)  # (B, K)
        token_log_probs = log_probs.gather(-1, tokens[..., None]).squeeze(-1)  # (B, K)
        return Candidates(hypotheses.log_probs + token_log_probs, tokens, None)


def top_k(logits: Tensor, k: int) -> Tensor:
    """The logits (..., V); those below the k-th largest become -inf."""
    kth = logits.topk(min(k, logits.shape[-1])).values[..., -1:]  # (..., 1)
    return logits.masked_fill(logits < kth, float("-inf"))


def top_p(logits: Tensor, p: float) -> Tensor:
    """The logits (..., V); those outside the smallest set of likeliest tokens whose probability
    reaches p become -inf (Holtzman et al. 2020, section 3.1).
    """
    ordered = logits.sort(dim=-1, descending=True, stable=True)  # (..., V)
    probs = ordered.values.softmax(-1)
    before = probs.cumsum(-1) - probs  # the probability of all more likely tokens
    kept = ordered.values.masked_fill(before >= p, float("-inf"))
    return torch.empty_like(logits).scatter_(-1, ordered.indices, kept)


def draw(logits: Tensor, uniform: Tensor) -> Tensor:
    """The token of each row (..., V) that its uniform number (...) in [0, 1) selects."""
    cumulative = logits.softmax(-1).cumsum(-1)  # (..., V)
    target = uniform[..., None].to(logits.dtype) * cumulative[..., -1:]  # (..., 1), below the sum
    tokens = torch.searchsorted(cumulative, target, right=True).squeeze(-1)  # (...)
    return tokens.clamp_max(logits.shape[-1] - 1)  # exceeded only for NaN: `to_lists` reports it


def _uniform_numbers(
    seeds: tuple[int, ...], num: int
) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    """Numbers in [0, 1): multiples of 2^-24, so that a number times a sum stays below the sum."""
    return np.random.default_rng(seeds).random(num, dtype=np.float32)
