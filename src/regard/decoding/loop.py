"""The one search loop: step, narrow, choose, set aside what ended, go on with the rest."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regard.decoding.answers import Answers
from regard.decoding.attendance import Attendance
from regard.decoding.finished import Finished
from regard.decoding.grid import Candidates, Grid
from regard.decoding.observe import Observe, Step
from regard.decoding.penalties import MeanAttention, Penalties
from regard.decoding.posting import is_near, lateness
from regard.decoding.rules import Rules
from regard.decoding.settings import Stop
from regard.models.contracts import Decoder, StateT, take
from regard.nouns import Hypothesis
from regard.types import Watch

CROWDED = 7 / 8
"""Of the sentences of a batch; when no more than these go on, the others leave it.

To leave costs a copy of all that stay, and to stay a step of each that could have left.
"""


class Chooser(Protocol):
    """The part in which searches differ: how the hypotheses go on."""

    @property
    def start(self) -> int:
        """Cells for each sentence before the first step."""
        ...

    @property
    def width(self) -> int:
        """The most cells for each sentence after it."""
        ...

    def __call__(self, log_probs: Tensor, grid: Grid) -> Candidates:
        """Ways to go on, given the log-probabilities (B, K, V) of each next token.

        It may write into them. An EOS counts if it is among the first `width`; there are enough
        others behind it to fill the grid, or none that are possible.
        """
        ...


@dataclass(frozen=True)
class Plan:
    """How a batch is to be searched."""

    choose: Chooser
    rules: Rules
    penalties: Penalties
    n_best: int
    stop: Stop

    @property
    def places(self) -> int:
        """Answers to each sentence that are worth remembering."""
        return self.choose.width if self.stop == "size" else self.n_best

    def settled(self, finished: Finished, grid: Grid) -> Tensor:
        """Whether each sentence (B,) is done.

        Safe: nothing that grows out of the grid can score above the last of the n best answers, so
        none of these will ever be replaced: going on would not change the result. A grid whose
        cells are all empty is the case of a bound of -inf.
        """
        bound = self.penalties.bound(grid)  # (B,)
        if self.stop == "limit":
            return bound == float("-inf")
        safe = finished.scores[:, self.n_best - 1] >= bound  # (B,)
        return safe if self.stop == "safe" else safe | (finished.scores[:, -1] > float("-inf"))


def explore(
    decoder: Decoder[StateT],
    state: StateT,
    plan: Plan,
    watch: Watch | None,
    observe: Observe | None = None,
    numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """The n best answers to each sentence of `state`, a grid (B, 1), in order.

    `numbers`, by default 0, 1, ..., are what `observe` knows the sentences by.
    """
    limits, where = plan.rules.limits, plan.penalties.lengths.device
    numbers = range(len(limits)) if numbers is None else numbers
    looked_on = observe is not None or watch is not None
    present = Attendance(limits, where, 0 if looked_on else lateness(where))
    grid = Grid.start(len(limits), plan.choose.start, where)
    if plan.choose.start > 1:
        state = state.branch(torch.zeros_like(grid.tokens[..., 0]))
    finished = Finished.free(len(limits), plan.places, where)
    attention = MeanAttention(watch) if plan.penalties.beta else None
    answers = Answers(plan.n_best, observe, numbers)
    while True:
        logits, state = decoder.step(grid.tokens[..., -1], state, watch=attention or watch)
        log_probs = plan.rules.log_probs(logits, grid)  # (B, K, V)
        if attention is not None:
            grid = grid.cover(attention.collect())
        ways = plan.choose(log_probs, grid)  # (B, C)
        ending = present.heard(ways.ending(plan.choose.width))
        going_on = ways.going_on(plan.choose.width)
        finished = _set_aside(finished, ending, grid, plan.penalties)
        grid, parents = grid.grow(going_on), going_on.parents  # (B, K')
        unwanted: Collection[int] = ()
        if observe is not None:
            now, scores = [numbers[row] for row in present.rows], plan.penalties.cut_short(grid)
            step = Step(now, ways, ending, going_on, grid, scores, finished)
            given_up = observe.stepped(step)
            unwanted = [row for row in present.rows if numbers[row] in given_up]

        done = plan.settled(finished, grid)  # (B,)
        cut = present.cut(grid.length, unwanted)  # (B,)
        if cut is not None:
            finished, done = finished.fill(_cut_short(grid, cut, plan.penalties)), done | cut
        present.settle(done)
        leaving = present.leave(1.0 if looked_on else CROWDED)  # who looks on sees nobody done
        if leaving is not None:
            answers.take(leaving.rows, finished.keep(leaving.gone))
            if not present.rows:
                return answers.all()
            kept = leaving.kept
            state, grid, finished = state.keep(kept), grid.keep(kept), finished.keep(kept)
            parents = None if parents is None else parents[kept]
        if parents is not None:
            state = state.branch(parents)


def _set_aside(
    finished: Finished, ending: Candidates, grid: Grid, penalties: Penalties
) -> Finished:
    """`finished`, and what ends now where it is better.

    On a CPU it costs little to ask whether anything does, and saves the most part of a step's work
    beside the model.
    """
    ends = ending.log_probs != float("-inf")  # (B, C); what is not a number is to be reported
    if is_near(ends) and not bool(ends.any()):
        return finished
    return finished.add(_ended(ending, grid, penalties))


def _ended(ways: Candidates, grid: Grid, penalties: Penalties) -> Finished:
    """The hypotheses that `ways` (B, C) make: all that are possible end."""
    tokens, coverage = grid.tokens, penalties.coverage(grid)
    if ways.parents is not None:
        tokens = take(tokens, ways.parents)  # (B, C, 1 + t)
        coverage = None if coverage is None else take(coverage, ways.parents)  # (B, C)
    scores = penalties.score(ways.log_probs, grid.length + 1, coverage)  # (B, C)
    return Finished(scores, ways.log_probs, tokens, torch.ones_like(scores, dtype=torch.bool))


def _cut_short(grid: Grid, cut: Tensor, penalties: Penalties) -> Finished:
    """The hypotheses of the sentences to `cut` (B,) as they are, without EOS; none of others."""
    scores = penalties.cut_short(grid).masked_fill(~cut[:, None], float("-inf"))  # (B, K)
    return Finished(scores, grid.log_probs, grid.tokens, torch.zeros_like(scores, dtype=torch.bool))
