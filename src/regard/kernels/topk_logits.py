"""The likeliest ways to go on with each sentence of a search, straight from its logits.

To make log-probabilities of all logits, to leave out what is never said and to find the largest of
each chunk are four passes over the largest tensor of a step, two of which write it. A kernel reads
it once. Its plain twin are `Rules.log_probs` and `Beam`.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.kernels.dispatch import HALF_DTYPES, disabled, runs_on
from regard.kernels.launch import LAUNCH_OPTIONS, device_of, next_power_of_two, triton_module

CHUNK = 32
"""Tokens of which only the likeliest is ranked at first; a multiple where there are very many."""
MAX_RANKED = 4096
"""The most numbers that one program ranks."""


class Tiles(NamedTuple):
    """How the work is cut."""

    cols: int = 8192
    """Logits that a program reads at a time."""
    warps: int = 8
    each: int = 16
    """Numbers of one thread where they are ranked."""


tiles = Tiles()
"""What is used; whoever has measured others puts them here."""


class TokenRules(NamedTuple):
    """What may be said at any time."""

    banned: tuple[int, ...]
    """Ids below 32 that are not."""
    eos: int
    """The id that ends an answer: its log-probability counts as `floor` if it is lower."""
    floor: float
    banned_keep_mass: bool
    """Whether what is never said keeps its share of the probability."""


class TopK(NamedTuple):
    """The best ways to go on with each sentence, the best first."""

    values: Tensor  # (B, C) float32: the sum of log-probabilities
    tokens: Tensor  # (B, C)
    parents: Tensor  # (B, C) the cell


def use_topk_logits(logits: Tensor, count: int) -> bool:
    """Whether there are kernels for the `count` best ways by `logits` (B, K, V)."""
    if "topk_logits" in disabled or not runs_on(logits) or torch.is_grad_enabled():
        return False
    known = logits.dtype in (torch.float32, *HALF_DTYPES) and logits.is_contiguous()
    return known and logits.numel() > 0 and count * _chunk(*logits.shape[1:]) <= MAX_RANKED


def topk_continuations(logits: Tensor, totals: Tensor, count: int, token_rules: TokenRules) -> TopK:
    """The `count` likeliest, by logits (B, K, V) and what cells have summed up so far (B, K)."""
    sentences, cells, size = logits.shape
    chunk = _chunk(cells, size)
    chunks = -(-size // chunk)
    float32_options: dict[str, Any] = {"dtype": torch.float32, "device": logits.device}
    # each by itself: a kernel is compiled again for what does not lie at a multiple of 16 bytes
    tops, logs = (torch.empty(sentences, cells, **float32_options) for _ in range(2))
    maxima = torch.empty(sentences, cells, chunks, **float32_options)
    values = torch.empty(sentences, count, **float32_options)
    best = TopK(values, *(torch.empty_like(values, dtype=torch.long) for _ in range(2)))
    rules = (
        size, chunks, sum(1 << token for token in token_rules.banned), token_rules.eos,
        token_rules.floor,
    )  # fmt: skip
    options: dict[str, Any] = {
        "LOST": token_rules.banned_keep_mass,
        "CHUNK": chunk,
        **LAUNCH_OPTIONS,
    }
    lanes, picks = next_power_of_two(cells * chunks), next_power_of_two(count)
    kernels = triton_module("topk_logits")
    with device_of(logits):
        kernels.chunk_maxima[(sentences * cells,)](
            logits, tops, logs, maxima, *rules,
            CHUNKS=min(tiles.cols // chunk, next_power_of_two(chunks)), num_warps=tiles.warps,
            **options,
        )  # fmt: skip
        kernels.rank_chunks[(sentences,)](
            logits, tops, logs, maxima, totals.contiguous(), *best, *rules,
            CELLS=cells, LANES=lanes, COUNT=count, PICKS=picks,
            num_warps=max(1, max(lanes, picks * chunk) // (32 * tiles.each)), **options,
        )  # fmt: skip
    return best


def _chunk(cells: int, size: int) -> int:
    """Tokens to a chunk, so that the largest of all chunks of a sentence can be ranked at once."""
    chunk = CHUNK
    while cells * -(-size // chunk) > MAX_RANKED:
        chunk *= 2
    return chunk
