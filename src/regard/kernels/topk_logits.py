"""The best continuations of each sentence of a search, from logits that are read once.

The plain formula (`Rules.log_probs`, `BeamSelector`) reads this largest of all tensors four times.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.beam_update import Candidates
from regard.kernels.dispatch import launch, next_power_of_two, topk_chunk

LOGITS_AT_A_TIME = 8192
NUMBERS_PER_THREAD = 16


class TokenRules(NamedTuple):
    """Which tokens are allowed at every step."""

    banned: tuple[int, ...]  # ids below 32
    eos: int  # its log-probability is at least `floor`
    floor: float
    banned_keep_mass: bool  # whether banned tokens keep their share of the probability


def topk_continuations(
    logits: Tensor, totals: Tensor, count: int, token_rules: TokenRules
) -> Candidates:
    """The `count` best, by `logits` (B, K, V) and `totals` (B, K), log-probabilities so far."""
    sentences, width, vocabulary = logits.shape
    chunk = topk_chunk(width, vocabulary)
    chunks = -(-vocabulary // chunk)
    # Separate tensors: a kernel is compiled again for an address that 16 does not divide.
    tops, logs = (logits.new_empty(sentences, width, dtype=torch.float32) for _ in range(2))
    maxima = logits.new_empty(sentences, width, chunks, dtype=torch.float32)
    values = logits.new_empty(sentences, count, dtype=torch.float32)
    best = Candidates(values, *(torch.empty_like(values, dtype=torch.long) for _ in range(2)))
    banned_bits = sum(1 << token for token in token_rules.banned)
    rules = vocabulary, chunks, banned_bits, token_rules.eos, token_rules.floor
    options = {"BANNED_KEEP_MASS": token_rules.banned_keep_mass, "CHUNK": chunk}
    chunks_pow2, picks = next_power_of_two(width * chunks), next_power_of_two(count)
    launch(
        "topk_logits", "chunk_maxima", (sentences * width,), logits, tops, logs, maxima, *rules,
        CHUNKS=min(LOGITS_AT_A_TIME // chunk, next_power_of_two(chunks)), num_warps=8,
        on=logits, **options,
    )  # fmt: skip
    launch(
        "topk_logits", "rank_chunks", (sentences,),
        logits, tops, logs, maxima, totals.contiguous(), *best, *rules,
        BEAM=width, CHUNKS_POW2=chunks_pow2, COUNT=count, PICKS=picks,
        num_warps=max(1, max(chunks_pow2, picks * chunk) // (32 * NUMBERS_PER_THREAD)),
        on=logits, **options,
    )  # fmt: skip
    return best
