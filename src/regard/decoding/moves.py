"""A step of a search: all that the device does in it, and nothing that the host would wait for."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.decoding.finished import Finished
from regard.decoding.grid import Candidates, Grid
from regard.decoding.penalties import MeanAttention, Penalties
from regard.decoding.posting import is_near
from regard.decoding.rules import Rules
from regard.decoding.settings import Stop
from regard.kernels.choice import Sayable
from regard.kernels.onward import Cells, Known, Task, Ways, go_on, suits_onward
from regard.models.contracts import Decoder, StateT, take
from regard.text.special import EOS, PAD
from regard.types import Watch


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

    def at_once(self, logits: Tensor, grid: Grid, sayable: Sayable) -> Candidates | None:
        """The same straight from `logits`; None: there is no kernel for it."""
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

    def ways(self, logits: Tensor, grid: Grid) -> Candidates:
        """Ways (B, C) to go on, given logits (B, K, V), into which it may write."""
        sayable = self.rules.sayable(grid)
        best = None if sayable is None else self.choose.at_once(logits, grid, sayable)
        return self.choose(self.rules.log_probs(logits, grid), grid) if best is None else best

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What of it belongs to the sentences rather than to how they are searched for."""
        return self.rules.prefixes, self.penalties.lengths, self.penalties.least_factors

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


@dataclass(frozen=True)
class Stand(Generic[StateT]):
    """Where the search for the B sentences of a batch stands; a value."""

    state: StateT
    parents: Tensor | None  # (B, K) which cell of `state` each one of the grid continues; None: k
    grid: Grid  # (B, K)
    finished: Finished  # (B, N)
    over: Tensor | None = None  # (B,) who is done: what they say counts no more; None: nobody is

    @classmethod
    def start(cls, state: StateT, plan: Plan) -> "Stand[StateT]":
        """Before the first step, with the `state` of a grid (B, 1)."""
        sentences, where = len(plan.rules.limits), plan.penalties.lengths.device
        grid = Grid.start(sentences, plan.choose.start, where)
        parents = torch.zeros_like(grid.tokens[..., 0]) if plan.choose.start > 1 else None
        return cls(state, parents, grid, Finished.free(sentences, plan.places, where))

    def keep(self, sentences: Tensor) -> "Stand[StateT]":
        """That of `sentences` (B',) alone."""
        return Stand(
            self.state.keep(sentences),
            None if self.parents is None else self.parents[sentences],
            self.grid.keep(sentences),
            self.finished.keep(sentences),
            None if self.over is None else self.over[sentences],
        )


class Outcome(NamedTuple):
    """What becomes of the hypotheses and answers of each sentence."""

    grid: Grid  # (B, K')
    parents: Tensor | None  # (B, K') the cell that each one of it continues; None: cell k
    finished: Finished  # (B, N)
    done: Tensor  # (B,) whose answers are settled


@dataclass(frozen=True)
class Move(Generic[StateT]):
    """What a step has made of a stand, before any sentence is cut."""

    state: StateT
    ways: Candidates  # (B, C) all that were weighed, the best first
    over: Tensor | None  # (B,) who was done before
    grid: Grid  # this and all below as in `Outcome`
    parents: Tensor | None
    finished: Finished
    done: Tensor


def weigh(
    decoder: Decoder[StateT], stand: Stand[StateT], plan: Plan, watch: Watch | None
) -> Move[StateT]:
    """One more token of each hypothesis, and what ends with it set aside."""
    state, grid = stand.state, stand.grid
    if stand.parents is not None:
        state = state.branch(stand.parents)
    attention = MeanAttention(watch) if plan.penalties.beta else None
    logits, state = decoder.step(grid.tokens[..., -1], state, watch=attention or watch)
    if attention is not None:
        grid = grid.cover(attention.collect())
    ways = plan.ways(logits, grid)  # (B, C)
    at_once = grid.coverage is None and suits_onward(ways.log_probs, plan.places)
    follow = _follow_at_once if at_once else _follow
    return Move(state, ways, stand.over, *follow(ways, grid, stand, plan))


def conclude(move: Move[StateT], plan: Plan, cut: Tensor | None) -> Stand[StateT]:
    """The stand after a move, in which sentences to `cut` (B,) end with whatever they have."""
    grid, finished, done, over = move.grid, move.finished, move.done, move.over
    if cut is not None:
        cut = cut if over is None else cut & ~over
        finished, done = finished.fill(_cut_short(grid, cut, plan.penalties)), done | cut
    over = done if over is None else over | done
    return Stand(move.state, move.parents, grid, finished, over)


def ending(ways: Candidates, over: Tensor | None, plan: Plan) -> Candidates:
    """Those of `ways` (B, C) that end and count: the others are at -inf."""
    return _heard(ways.ending(plan.choose.width), over)


def _follow(ways: Candidates, grid: Grid, before: Stand[StateT], plan: Plan) -> Outcome:
    """What `ways` (B, C) to go on with a grid (B, K) lead to."""
    going_on = ways.going_on(plan.choose.width)
    ends = ending(ways, before.over, plan)
    finished = _set_aside(before.finished, ends, grid, plan.penalties)
    grid = grid.grow(going_on)
    return Outcome(grid, going_on.parents, finished, plan.settled(finished, grid))


def _follow_at_once(ways: Candidates, grid: Grid, before: Stand[StateT], plan: Plan) -> Outcome:
    """`_follow` by a kernel, which counts no attention."""
    factor = plan.penalties.factor(grid.length + 1)
    task = Task(plan.choose.width, plan.n_best, plan.stop, factor, EOS, PAD)
    cells = Cells(grid.tokens, grid.rows, plan.penalties.least_factors)
    texts, log_probs, parents, known, done = go_on(
        Ways(*ways), cells, Known(*before.finished), before.over, task
    )
    return Outcome(Grid(grid.rows, texts, log_probs), parents, Finished(*known), done)


def _heard(ways: Candidates, over: Tensor | None) -> Candidates:
    """`ways` (B, C) without those of sentences that are `over` (B,)."""
    if over is None:
        return ways
    return ways._replace(log_probs=ways.log_probs.masked_fill(over[:, None], float("-inf")))


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
