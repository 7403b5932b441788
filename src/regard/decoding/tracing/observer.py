"""Observers of a running search: for plots of it, and for partial translations."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from regard.decoding.search.hypotheses import Hypotheses
from regard.kernels.beam_update import Candidates, NBest
from regard.models.contracts import gather_parents
from regard.text.special_tokens import PAD
from regard.types import Hypothesis


class SearchStep(NamedTuple):
    """One step of a search of the B sentences still in the batch; `parents` are indices of the
    hypotheses before the step. Reading the tensors waits for the device.
    """

    numbers: Sequence[int]  # of the B sentences
    candidates: Candidates  # (B, C) all candidates, the best first
    ending: Candidates  # (B, <= C) those that end; the log-probability of others is -inf
    continuing: Candidates  # (B, K') those that continue; missing ones are at -inf
    hypotheses: Hypotheses  # (B, K') after the step
    scores: Tensor  # (B, K') of the hypotheses, as if they were truncated here
    finished: NBest  # (B, N) the best finished hypotheses so far


class SearchObserver(Protocol):
    """Callbacks of a search, empty by default; they get the sentence numbers given to the search.
    They change no result except by abandoning a sentence.
    """

    def on_start(self, numbers: Sequence[int], lengths: Sequence[int], /) -> None:
        """A batch begins: sentences and the length of each source, EOS counted."""
        return  # with a body the method is not abstract

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        """After each step; returns the numbers of sentences to end with the results so far."""
        return ()

    def on_result(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        """A sentence is done, with its 1 to n best `answers`, the best first."""
        return


class ObserverGroup(SearchObserver):
    """Several observers as one."""

    def __init__(self, *observers: SearchObserver) -> None:
        self._observers = observers

    def on_start(self, numbers: Sequence[int], lengths: Sequence[int], /) -> None:
        for observer in self._observers:
            observer.on_start(numbers, lengths)

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        return {number for observer in self._observers for number in observer.on_step(step)}

    def on_result(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        for observer in self._observers:
            observer.on_result(number, answers)


def best_so_far(step: SearchStep) -> list[tuple[int, ...]]:
    """The tokens, without BOS and EOS, of the best hypothesis of each sentence, finished or
    growing: a later step may change any of them.
    """
    growing = step.scores.max(1, keepdim=True)  # (B, 1), the first of equal ones
    tokens = gather_parents(step.hypotheses.tokens, growing.indices)[:, 0]  # (B, 2 + t)
    ended = step.finished.scores[:, 0] >= growing.values[:, 0]  # (B,)
    rows = zip(ended.tolist(), step.finished.tokens[:, 0].tolist(), tokens.tolist(), strict=True)
    return [
        tuple(token for token in (done if over else grown)[1:] if token != PAD)
        for over, done, grown in rows
    ]
