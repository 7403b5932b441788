"""The one search loop: a step, and who is done leaves; until nobody is there."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from regard.decoding.answers import Answers
from regard.decoding.attendance import Attendance
from regard.decoding.grid import Grid
from regard.decoding.moves import Move, Plan, Stand, conclude, ending, weigh
from regard.decoding.observe import Observe, Step
from regard.decoding.posting import is_near, lateness
from regard.decoding.steady import finish, is_short, is_small
from regard.kernels.graphs import Recorder
from regard.models.contracts import Decoder, StateT
from regard.nouns import Hypothesis
from regard.types import Watch

CROWDED, SPARSE = 7 / 8, 1 / 2
"""Of the sentences of a batch; when no more than these go on, the others leave it.

To leave costs a copy of all that stay, and to stay a step of each that could have left. The second
is for a GPU that has few hypotheses: it waits for its host then, who takes a third of a step to ask
for the copies.
"""
FEW = 16_384
"""Hypotheses of which that is so: a step of them takes an H200 2.5 ms and its host 4.2, with 4
layers of 256."""


def explore(
    decoder: Decoder[StateT],
    state: StateT,
    plan: Plan,
    watch: Watch | None,
    observe: Observe | None = None,
    numbers: Sequence[int] | None = None,
    recorder: Recorder | None = None,
) -> list[list[Hypothesis]]:
    """The n best answers to each sentence of `state`, a grid (B, 1), in order.

    `numbers`, by default 0, 1, ..., are what `observe` knows the sentences by. Where nobody looks
    on, a `recorder` does away with the host when few of them are left: see `steady`.
    """
    limits, where = plan.rules.limits, plan.penalties.lengths.device
    numbers = range(len(limits)) if numbers is None else numbers
    looked_on = observe is not None or watch is not None
    present = Attendance(limits, where, 0 if looked_on else lateness(where))
    answers = Answers(plan.n_best, observe, numbers)
    stand = Stand.start(state, plan)
    while True:
        move = weigh(decoder, stand, plan, watch)
        unwanted: Collection[int] = ()
        if observe is not None:
            given_up = observe.stepped(_told(move, plan, [numbers[row] for row in present.rows]))
            unwanted = [row for row in present.rows if numbers[row] in given_up]
        stand = conclude(move, plan, present.cut(move.grid.length, unwanted))
        stand = replace(stand, over=present.hear(stand.over))
        # Who looks on sees nobody done.
        leaving = present.leave(1.0 if looked_on else _crowded(stand.grid))
        if leaving is not None:
            answers.take(leaving.rows, stand.finished.keep(leaving.gone))
            if not present.rows:
                return answers.all()
            stand = stand.keep(leaving.kept)
        if recorder is not None and not looked_on and is_small(stand.grid, plan):
            left = [limits[row] - stand.grid.length for row in present.rows]
            if is_short(left):
                rest = finish(decoder, stand, plan, left, recorder)
                if rest is not None:
                    answers.take(present.rows, rest)
                    return answers.all()
                recorder = None


def _crowded(grid: Grid) -> float:
    """The share of a batch that goes on when the others leave it."""
    few = grid.log_probs.numel() <= FEW and not is_near(grid.log_probs)
    return SPARSE if few else CROWDED


def _told(move: Move[Any], plan: Plan, numbers: Sequence[int]) -> Step:
    """A move as those who look on see it."""
    ways, grid = move.ways, move.grid
    ends, going_on = ending(ways, move.over, plan), ways.going_on(plan.choose.width)
    scores = plan.penalties.cut_short(grid)  # (B, K')
    return Step(numbers, ways, ends, going_on, grid, scores, move.finished)
