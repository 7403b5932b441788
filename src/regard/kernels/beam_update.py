"""What becomes of each sentence of a search once its ways to go on are known, in one kernel.

Its numbers are few, but to sort out what ends and what goes on takes some fifty operations, each
of which a host has to start: as many as all layers of a model. Its plain twin are the methods of
`Candidates`, `Finished` and `Grid`.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from regard.kernels.dispatch import disabled, runs_on
from regard.kernels.launch import LAUNCH_OPTIONS, device_of, next_power_of_two, triton_module

MAX_CANDIDATES = 256
"""The most ways, or places for answers, that it is for."""


class Tiles(NamedTuple):
    """How the work is cut."""

    places: int = 32
    """Tokens of each text that are copied at a time."""
    warps: int = 2


tiles = Tiles()
"""What is used; whoever has measured others puts them here."""


class Continuations(NamedTuple):
    """To go on with each sentence, the best first."""

    log_probs: Tensor  # (B, C) -inf: there is no such way
    tokens: Tensor  # (B, C)
    parents: Tensor | None  # (B, C) the cell that each continues; None: cell c


class FinishedHypotheses(NamedTuple):
    """Answers to each sentence, the best first."""

    scores: Tensor  # (B, N) -inf: the place is free
    log_probs: Tensor  # (B, N)
    texts: Tensor  # (B, N, u)
    ended: Tensor  # (B, N)


class LiveHypotheses(NamedTuple):
    """Hypotheses that grow."""

    texts: Tensor  # (B, K, 1 + t) what they have said
    rows: Tensor  # (B,) the number of each sentence
    least: Tensor  # (sentences,) by number, the factor with which the log-probability of a cell is
    # multiplied to bound the scores of all that grows out of it


class BeamUpdateConfig(NamedTuple):
    """What is asked for, of all sentences."""

    width: int
    """Cells that go on; what is not among the best so many ways cannot end."""
    wanted: int
    """Answers that must be safe."""
    stop: Literal["safe", "size", "limit"]
    factor: float | Tensor
    """What a log-probability is multiplied with to be a score; the host need not know it."""
    last: int
    """The token that ends an answer."""
    filler: int
    """The token behind what is shorter."""


class BeamUpdate(NamedTuple):
    """What became of them."""

    texts: Tensor  # (B, K', 2 + t)
    log_probs: Tensor  # (B, K')
    parents: Tensor | None  # (B, K')
    finished: FinishedHypotheses  # (B, N), of texts as long as those of cells were
    done: Tensor  # (B,)


def use_beam_update(continuations: Tensor, places: int) -> bool:
    """Whether the kernel is for log-probabilities of `ways` (B, C) and so many answers."""
    if "beam_update" in disabled or not runs_on(continuations) or torch.is_grad_enabled():
        return False
    return (
        continuations.dtype == torch.float32
        and max(continuations.shape[1], places) <= MAX_CANDIDATES
        and len(continuations) > 0
    )


def update_beam(
    continuations: Continuations,
    live: LiveHypotheses,
    finished: FinishedHypotheses,
    already_done: Tensor | None,
    config: BeamUpdateConfig,
) -> BeamUpdate:
    """What becomes of `cells`; of sentences that are `over` (B,) no more answers are found."""
    sentences, num_candidates = continuations.log_probs.shape
    texts, length = live.texts, live.texts.shape[2]
    width, places = min(config.width, num_candidates), finished.scores.shape[1]
    out = BeamUpdate(
        texts.new_empty(sentences, width, length + 1),
        continuations.log_probs.new_empty(sentences, width),
        None if continuations.parents is None else continuations.parents.new_empty(sentences,
        width),
        FinishedHypotheses(
            torch.empty_like(finished.scores), torch.empty_like(finished.log_probs),
            finished.texts.new_empty(sentences, places, length), torch.empty_like(finished.ended),
        ),
        torch.empty(sentences, dtype=torch.bool, device=texts.device),
    )  # fmt: skip
    parents = (
        continuations.tokens if continuations.parents is None else continuations.parents
    )  # whatever is not looked at
    in_pointers = (
        *continuations[:2],
        parents,
        out.done if already_done is None else already_done,
        *live,
        *finished,
    )
    out_pointers = (out.texts, out.log_probs, out.texts if out.parents is None else out.parents)
    with device_of(texts):
        triton_module("beam_update").update_beam[(sentences,)](
            *(x.contiguous() for x in in_pointers), *out_pointers, *out.finished, out.done,
            num_candidates, texts.shape[1], width, places, config.wanted, length,
            finished.texts.shape[2],
            config.factor, config.last, config.filler,
            ALREADY_DONE=already_done is not None, PARENTS=continuations.parents is not None,
            STOP=config.stop,
            FACTOR_IS_NUMBER=not isinstance(config.factor, Tensor),
            CANDIDATES=next_power_of_two(num_candidates), FINISHED=next_power_of_two(places),
            TOKEN_BLOCK=tiles.places,
            num_warps=tiles.warps, **LAUNCH_OPTIONS,
        )  # fmt: skip
    return out
