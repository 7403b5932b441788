"""Hard attention: one key for each query, drawn by its weight (Xu et al. 2015, section 4.1)."""

from typing import NamedTuple

import torch
from torch import Tensor

EXPECTED_SHARE = 0.5
"""Share of training examples with the expected value in place of a draw, to reduce variance."""


class Drawn(NamedTuple):
    """The weights to use, and what the loss needs."""

    weights: Tensor  # (B, H, T, S) one-hot; unchanged where the expected value is used
    log_probability: Tensor  # (B, H, T) of the key drawn; 0 where none was
    entropy: Tensor  # (B, H, T) of the distribution drawn from


def draw_key(weights: Tensor, expected: Tensor) -> Drawn:
    """A key for each query, drawn by `weights` (B, H, T, S); none where `expected` (B,) is True.

    It is the argmax of weight / e with exponential e, which needs no GPU sync.
    """
    noise = torch.empty_like(weights).exponential_()
    drawn = (weights.detach() / noise).argmax(-1, keepdim=True)  # (B, H, T, 1)
    one_hot = torch.zeros_like(weights).scatter_(-1, drawn, 1.0)
    soft = expected[:, None, None]  # (B, 1, 1)
    tiny = torch.finfo(weights.dtype).tiny
    log_weights = weights.clamp(min=tiny).log()  # (B, H, T, S)
    log_probability = log_weights.gather(-1, drawn).squeeze(-1).masked_fill(soft, 0.0)
    entropy = -(weights * log_weights).sum(-1)
    return Drawn(torch.where(soft[..., None], weights, one_hot), log_probability, entropy)


def most_likely_key(weights: Tensor) -> Tensor:
    """One-hot weights (B, H, T, S) at the largest."""
    largest = weights.argmax(-1, keepdim=True)
    return torch.zeros_like(weights).scatter_(-1, largest, 1.0)
