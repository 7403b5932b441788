"""Everything that follows the choice of continuations in a search step, in one kernel.

It appends tokens to hypotheses, moves finished ones to the n-best list and decides which sentences
are done: little arithmetic, but some fifty operations, whose launches take as long as those of all
layers of a model. The plain way is `_update_beam` of `decoding.search.step`.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from regard.kernels.dispatch import LAUNCH_OPTIONS, device_of, next_power_of_two, triton_module

TOKEN_BLOCK = 32
"""Tokens of each hypothesis that are copied at a time."""


class BeamUpdateConfig(NamedTuple):
    """Settings of the search."""

    width: int
    """Hypotheses that continue; only the best `width` continuations may end."""
    n_best: int
    """Finished hypotheses that must be final before a sentence is done."""
    stop: Literal["safe", "size", "limit"]
    factor: float | Tensor
    """Turns a log-probability into a score; may be on the device alone."""
    eos: int
    pad: int


class UpdatedBeam(NamedTuple):
    """The hypotheses of B sentences after a step."""

    tokens: Tensor  # (B, K', 2 + t)
    log_probs: Tensor  # (B, K')
    parents: Tensor | None  # (B, K')
    finished: tuple[Tensor, Tensor, Tensor, Tensor]  # as given, with tokens (B, N, 1 + t)
    done: Tensor  # (B,)


def update_beam(
    continuations: tuple[Tensor, Tensor, Tensor | None],
    live: tuple[Tensor, Tensor, Tensor],
    finished: tuple[Tensor, Tensor, Tensor, Tensor],
    already_done: Tensor | None,
    config: BeamUpdateConfig,
) -> UpdatedBeam:
    """Extend live hypotheses by `continuations`, and add those that end to `finished`.

    `continuations` are log-probabilities, tokens and parents (B, C), the best first; -inf marks
    none, and parents of None mean hypothesis c. `live` are the tokens (B, K, 1 + t) of the
    hypotheses, the number of each sentence (B,), and by that number the factor (S,) that bounds the
    scores of all descendants of a hypothesis. `finished` are scores (B, N; -inf: free), log-probs
    (B, N), tokens (B, N, u) and whether each ended (B, N), the best first. To sentences that are
    `already_done` (B,) nothing is added.
    """
    (log_probs, next_tokens, parents), (tokens, *_) = continuations, live
    (sentences, num_candidates), length = log_probs.shape, tokens.shape[2]
    width, capacity = min(config.width, num_candidates), finished[0].shape[1]
    out = UpdatedBeam(
        tokens.new_empty(sentences, width, length + 1),
        log_probs.new_empty(sentences, width),
        None if parents is None else parents.new_empty(sentences, width),
        (
            torch.empty_like(finished[0]),
            torch.empty_like(finished[1]),
            finished[2].new_empty(sentences, capacity, length),
            torch.empty_like(finished[3]),
        ),
        torch.empty(sentences, dtype=torch.bool, device=tokens.device),
    )
    # Where there are no parents or none done, the kernel is given some tensor that it never reads.
    done = out.done if already_done is None else already_done
    inputs = log_probs, next_tokens, next_tokens if parents is None else parents, done
    outputs = out.tokens, out.log_probs, out.tokens if out.parents is None else out.parents
    with device_of(tokens):
        triton_module("beam_update").update_beam[(sentences,)](
            *(x.contiguous() for x in (*inputs, *live, *finished)),
            *outputs, *out.finished, out.done,
            num_candidates, tokens.shape[1], width, capacity, config.n_best, length,
            finished[2].shape[2], config.factor, config.eos, config.pad,
            ALREADY_DONE=already_done is not None, PARENTS=parents is not None, STOP=config.stop,
            FACTOR_IS_NUMBER=not isinstance(config.factor, Tensor),
            CANDIDATES=next_power_of_two(num_candidates), FINISHED=next_power_of_two(capacity),
            TOKEN_BLOCK=TOKEN_BLOCK, num_warps=2, **LAUNCH_OPTIONS,
        )  # fmt: skip
    return out
