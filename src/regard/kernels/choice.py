"""The likeliest ways to go on with each sentence of a search, straight from its logits.

To make log-probabilities of all logits, to leave out what is never said and to find the largest of
each chunk are four passes over the largest tensor of a step, two of which write it. A kernel reads
it once. Its plain twin are `Rules.log_probs` and `Beam`.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.kernels.available import HALVES, disabled, runs_on
from regard.kernels.launching import COMPILED, device_of, kernels_of, power_of_two

CHUNK = 32
"""Tokens of which only the likeliest is ranked at first; a multiple where there are very many."""
MOST = 4096
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


class Sayable(NamedTuple):
    """What may be said at any time."""

    never: tuple[int, ...]
    """Ids below 32 that are not."""
    last: int
    """The id that ends an answer: its log-probability counts as `floor` if it is lower."""
    floor: float
    lost: bool
    """Whether what is never said keeps its share of the probability."""


class Best(NamedTuple):
    """The best ways to go on with each sentence, the best first."""

    values: Tensor  # (B, C) float32: the sum of log-probabilities
    tokens: Tensor  # (B, C)
    parents: Tensor  # (B, C) the cell


def suits_choice(logits: Tensor, count: int) -> bool:
    """Whether there are kernels for the `count` best ways by `logits` (B, K, V)."""
    if "choice" in disabled or not runs_on(logits) or torch.is_grad_enabled():
        return False
    known = logits.dtype in (torch.float32, *HALVES) and logits.is_contiguous()
    return known and logits.numel() > 0 and count * _chunk(*logits.shape[1:]) <= MOST


def best_ways(logits: Tensor, totals: Tensor, count: int, sayable: Sayable) -> Best:
    """The `count` likeliest, by logits (B, K, V) and what cells have summed up so far (B, K)."""
    sentences, cells, size = logits.shape
    chunk = _chunk(cells, size)
    chunks = -(-size // chunk)
    real: dict[str, Any] = {"dtype": torch.float32, "device": logits.device}
    # each by itself: a kernel is compiled again for what does not lie at a multiple of 16 bytes
    tops, logs = (torch.empty(sentences, cells, **real) for _ in range(2))
    maxima = torch.empty(sentences, cells, chunks, **real)
    values = torch.empty(sentences, count, **real)
    found = Best(values, *(torch.empty_like(values, dtype=torch.long) for _ in range(2)))
    rules = (
        size, chunks, sum(1 << token for token in sayable.never), sayable.last, sayable.floor,
    )  # fmt: skip
    how: dict[str, Any] = {"LOST": sayable.lost, "CHUNK": chunk, **COMPILED}
    lanes, picks = power_of_two(cells * chunks), power_of_two(count)
    kernels = kernels_of("choice")
    with device_of(logits):
        kernels.skim[(sentences * cells,)](
            logits, tops, logs, maxima, *rules,
            CHUNKS=min(tiles.cols // chunk, power_of_two(chunks)), num_warps=tiles.warps, **how,
        )  # fmt: skip
        kernels.choose[(sentences,)](
            logits, tops, logs, maxima, totals.contiguous(), *found, *rules,
            CELLS=cells, LANES=lanes, COUNT=count, PICKS=picks,
            num_warps=max(1, max(lanes, picks * chunk) // (32 * tiles.each)), **how,
        )  # fmt: skip
    return found


def _chunk(cells: int, size: int) -> int:
    """Tokens to a chunk, so that the largest of all chunks of a sentence can be ranked at once."""
    chunk = CHUNK
    while cells * -(-size // chunk) > MOST:
        chunk *= 2
    return chunk
