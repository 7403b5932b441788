"""Who is told of a search while it runs: for pictures of it, and for answers shown as they grow."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from regard.decoding.search.hypotheses import Candidates, Hypotheses
from regard.decoding.search.n_best import NBest
from regard.models.contracts import gather_parents
from regard.text.special_tokens import PAD
from regard.types import Hypothesis


class SearchStep(NamedTuple):
    """What one step of a search made of the B sentences that are still in the batch.

    Cells that `parents` name are those of the grid before this step. The tensors stay where the
    search runs: who reads them waits for the device.
    """

    numbers: Sequence[int]  # B, which sentences these are
    candidates: Candidates  # (B, C) all that were weighed, the best first
    ending: Candidates  # (B, <= C) those of them that end and count; the others are at -inf
    continuing: (
        Candidates  # (B, K') those of them that fill the grid; too few: the rest are at -inf
    )
    hypotheses: Hypotheses  # (B, K') after the step
    scores: Tensor  # (B, K') of its cells, as if they were cut short here
    finished: NBest  # (B, N) the best answers so far


class SearchObserver(Protocol):
    """Told of what a search does; each method of it may be left as it is, which does nothing.

    A sentence is known by its number, as the caller of the search gave it. Giving no observer
    costs nothing, and no observer changes an answer but by asking that its sentence be given up.
    """

    def on_start(self, numbers: Sequence[int], lengths: Sequence[int], /) -> None:
        """A batch begins: sentences and the length of each source, EOS counted."""
        return  # said, so that it is no abstract method

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        """A step is over; the answer names sentences to give up, with what was found so far."""
        return ()

    def on_result(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        """A sentence leaves the search, with the 1 to n best `answers`, the best first."""
        return


class ObserverGroup(SearchObserver):
    """Several observers as one."""

    def __init__(self, *observers: SearchObserver) -> None:
        self._observers = observers

    def on_start(self, numbers: Sequence[int], lengths: Sequence[int], /) -> None:
        for one in self._observers:
            one.on_start(numbers, lengths)

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        return {number for one in self._observers for number in one.on_step(step)}

    def on_result(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        for one in self._observers:
            one.on_result(number, answers)


def best_so_far(step: SearchStep) -> list[tuple[int, ...]]:
    """The tokens, without BOS and EOS, of each sentence's hypothesis of the highest score.

    It may have ended or still grow; so from one step to the next it may take back what it said.
    """
    growing = step.scores.max(1, keepdim=True)  # (B, 1), of equal ones the first
    tokens = gather_parents(step.hypotheses.tokens, growing.indices)[:, 0]  # (B, 2 + t)
    ended = step.finished.scores[:, 0] >= growing.values[:, 0]  # (B,)
    rows = zip(ended.tolist(), step.finished.tokens[:, 0].tolist(), tokens.tolist(), strict=True)
    return [
        tuple(token for token in (done if over else grown)[1:] if token != PAD)
        for over, done, grown in rows
    ]
