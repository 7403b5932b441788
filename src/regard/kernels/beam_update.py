"""The update of a beam with the chosen continuations, in one kernel instead of about fifty.

The plain formula is `_update_beam` of `decoding.search.step`.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from regard.kernels.dispatch import launch, next_power_of_two

TOKEN_BLOCK = 32
"""Tokens of each hypothesis that are copied at a time."""


class Candidates(NamedTuple):
    """Candidate continuations of the hypotheses of each sentence, the best first."""

    log_probs: Tensor  # (B, C) of the extended hypothesis; -inf: there is no such continuation
    tokens: Tensor  # (B, C) the token it appends
    parents: Tensor | None  # (B, C) the hypothesis it extends; None: hypothesis c, and C is K


class NBest(NamedTuple):
    """The N best finished hypotheses of each sentence, the best first."""

    scores: Tensor  # (B, N); -inf: the slot is empty
    log_probs: Tensor  # (B, N)
    tokens: Tensor  # (B, N, u) BOS, the tokens, PAD
    ended: Tensor  # (B, N) whether it ended in EOS, rather than at the length limit


class BeamUpdateConfig(NamedTuple):
    """The kernel's parameters for one step: how the beam is pruned, and when a sentence is done."""

    width: int  # hypotheses that continue; only the best `width` continuations may end
    n_best: int  # finished hypotheses that must be final before a sentence is done
    stop: Literal["safe", "size", "heuristic", "limit"]
    factor: float | Tensor  # turns a log-probability into a score; may be on the device alone
    eos: int
    pad: int


class UpdatedBeam(NamedTuple):
    """The hypotheses of B sentences after a step."""

    tokens: Tensor  # (B, K', 2 + t)
    log_probs: Tensor  # (B, K')
    parents: Tensor | None  # (B, K')
    finished: NBest  # (B, N), with tokens (B, N, 1 + t)
    done: Tensor  # (B,)


def update_beam(
    candidates: Candidates,
    live: tuple[Tensor, Tensor, Tensor],
    finished: NBest,
    already_done: Tensor | None,
    config: BeamUpdateConfig,
) -> UpdatedBeam:
    """Extend live hypotheses by `candidates` (B, C), and add those that end to `finished` (B, N).

    `live` are the tokens (B, K, 1 + t) of the hypotheses, the index (B,) of each sentence in the
    batch that the search began with, and for each sentence of that batch the factor that bounds the
    scores of all descendants of a hypothesis. Nothing is added to sentences that are `already_done`
    (B,).
    """
    (log_probs, next_tokens, parents), (tokens, *_) = candidates, live
    (sentences, num_candidates), length = log_probs.shape, tokens.shape[2]
    width, capacity = min(config.width, num_candidates), finished.scores.shape[1]
    out = UpdatedBeam(
        tokens.new_empty(sentences, width, length + 1),
        log_probs.new_empty(sentences, width),
        None if parents is None else parents.new_empty(sentences, width),
        NBest(
            torch.empty_like(finished.scores),
            torch.empty_like(finished.log_probs),
            finished.tokens.new_empty(sentences, capacity, length),
            torch.empty_like(finished.ended),
        ),
        torch.empty(sentences, dtype=torch.bool, device=tokens.device),
    )
    # In place of None, the kernel gets an arbitrary tensor, which it does not read.
    done = out.done if already_done is None else already_done
    inputs = log_probs, next_tokens, next_tokens if parents is None else parents, done
    outputs = out.tokens, out.log_probs, out.tokens if out.parents is None else out.parents
    launch(
        "beam_update", "update_beam", (sentences,),
        *(x.contiguous() for x in (*inputs, *live, *finished)), *outputs, *out.finished, out.done,
        num_candidates, tokens.shape[1], width, capacity, config.n_best, length,
        finished.tokens.shape[2], config.factor, config.eos, config.pad,
        ALREADY_DONE=already_done is not None, PARENTS=parents is not None, STOP=config.stop,
        FACTOR_IS_NUMBER=not isinstance(config.factor, Tensor),
        CANDIDATES=next_power_of_two(num_candidates), FINISHED=next_power_of_two(capacity),
        TOKEN_BLOCK=TOKEN_BLOCK, num_warps=2, on=tokens,
    )  # fmt: skip
    return out
