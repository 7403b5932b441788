"""What becomes of each sentence of a search once its ways to go on are known, in one kernel.

Its numbers are few, but to sort out what ends and what goes on takes some fifty operations, each
of which a host has to start: as many as all layers of a model. Its plain twin are the methods of
`Candidates`, `Finished` and `Grid`.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from regard.kernels.available import disabled, runs_on
from regard.kernels.launching import COMPILED, device_of, kernels_of, power_of_two

MOST = 256
"""The most ways, or places for answers, that it is for."""


class Tiles(NamedTuple):
    """How the work is cut."""

    places: int = 32
    """Tokens of each text that are copied at a time."""
    warps: int = 2


tiles = Tiles()
"""What is used; whoever has measured others puts them here."""


class Ways(NamedTuple):
    """To go on with each sentence, the best first."""

    log_probs: Tensor  # (B, C) -inf: there is no such way
    tokens: Tensor  # (B, C)
    parents: Tensor | None  # (B, C) the cell that each continues; None: cell c


class Known(NamedTuple):
    """Answers to each sentence, the best first."""

    scores: Tensor  # (B, N) -inf: the place is free
    log_probs: Tensor  # (B, N)
    texts: Tensor  # (B, N, u)
    ended: Tensor  # (B, N)


class Cells(NamedTuple):
    """Hypotheses that grow."""

    texts: Tensor  # (B, K, 1 + t) what they have said
    rows: Tensor  # (B,) the number of each sentence
    least: Tensor  # (sentences,) by number, the factor with which the log-probability of a cell is
    # multiplied to bound the scores of all that grows out of it


class Task(NamedTuple):
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


class Onward(NamedTuple):
    """What became of them."""

    texts: Tensor  # (B, K', 2 + t)
    log_probs: Tensor  # (B, K')
    parents: Tensor | None  # (B, K')
    known: Known  # (B, N), of texts as long as those of cells were
    done: Tensor  # (B,)


def suits_onward(ways: Tensor, places: int) -> bool:
    """Whether the kernel is for log-probabilities of `ways` (B, C) and so many answers."""
    if "onward" in disabled or not runs_on(ways) or torch.is_grad_enabled():
        return False
    return ways.dtype == torch.float32 and max(ways.shape[1], places) <= MOST and len(ways) > 0


def go_on(ways: Ways, cells: Cells, known: Known, over: Tensor | None, task: Task) -> Onward:
    """What becomes of `cells`; of sentences that are `over` (B,) no more answers are found."""
    sentences, num_ways = ways.log_probs.shape
    texts, said = cells.texts, cells.texts.shape[2]
    width, places = min(task.width, num_ways), known.scores.shape[1]
    room = Onward(
        texts.new_empty(sentences, width, said + 1),
        ways.log_probs.new_empty(sentences, width),
        None if ways.parents is None else ways.parents.new_empty(sentences, width),
        Known(
            torch.empty_like(known.scores), torch.empty_like(known.log_probs),
            known.texts.new_empty(sentences, places, said), torch.empty_like(known.ended),
        ),
        torch.empty(sentences, dtype=torch.bool, device=texts.device),
    )  # fmt: skip
    parents = ways.tokens if ways.parents is None else ways.parents  # whatever is not looked at
    given = (*ways[:2], parents, room.done if over is None else over, *cells, *known)
    made = (room.texts, room.log_probs, room.texts if room.parents is None else room.parents)
    with device_of(texts):
        kernels_of("onward").go_on[(sentences,)](
            *(x.contiguous() for x in given), *made, *room.known, room.done,
            num_ways, texts.shape[1], width, places, task.wanted, said, known.texts.shape[2],
            task.factor, task.last, task.filler,
            OVER=over is not None, PARENTS=ways.parents is not None, STOP=task.stop,
            KNOWN_FACTOR=not isinstance(task.factor, Tensor),
            WAYS=power_of_two(num_ways), KNOWN=power_of_two(places), PLACES=tiles.places,
            num_warps=tiles.warps, **COMPILED,
        )  # fmt: skip
    return room
