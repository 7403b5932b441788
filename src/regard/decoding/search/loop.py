"""The search loop: take a step, drop finished sentences, repeat until the batch is empty."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch

from regard.decoding.gpu.static_graph import fits_static_graph, replay_to_end
from regard.decoding.search.hypotheses import (
    continuing_candidates,
    ending_candidates,
    select_n_best,
    to_lists,
)
from regard.decoding.search.step import SearchConfig, SearchState, StepResult, advance, truncate
from regard.decoding.tracing.observer import SearchObserver, SearchStep
from regard.kernels.beam_update import NBest
from regard.kernels.cuda_graphs import CudaGraphs
from regard.models.contracts import Decoder, StateT
from regard.types import AttentionHook, Hypothesis

COMPACT_BELOW = 7 / 8
"""Finished sentences are dropped when at most this share of the batch is unfinished.

Dropping them copies the rest of the batch; keeping them costs a step of each.
"""


def run_search(
    decoder: Decoder[StateT],
    state: StateT,
    config: SearchConfig,
    *,
    numbers: Sequence[int] | None = None,
    hook: AttentionHook | None = None,
    observe: SearchObserver | None = None,
    capturer: CudaGraphs | None = None,
) -> list[list[Hypothesis]]:
    """The n best hypotheses of each sentence of `state` (B, 1), in order.

    `observe` knows the sentences by their `numbers`, by default 0, 1, ... With a `capturer`, the
    last steps of a search without hook and observer are replayed as a CUDA graph.
    """
    limits, device = config.rules.limits, config.penalties.lengths.device
    numbers = range(len(limits)) if numbers is None else numbers
    if observe is not None:
        observe.on_start(numbers, config.penalties.lengths.tolist())
    # Observers must not see finished sentences, so with one they are dropped at every step.
    is_observed = hook is not None or observe is not None
    threshold = 1.0 if is_observed else COMPACT_BELOW
    results = _Results(config.n_best, numbers, observe)
    search_state = SearchState.start(state, config)
    active = list(range(len(limits)))  # indices of the sentences that are in the batch
    while active:
        step = advance(decoder, search_state, config, hook)
        results.convert()  # those of earlier steps, while a GPU computes this one

        search_state, length = step.search_state, step.search_state.hypotheses.length
        abandoned = _notify(observe, step, config, [numbers[i] for i in active])
        truncated = [limits[i] == length or numbers[i] in abandoned for i in active]
        if any(truncated):
            search_state = truncate(search_state, torch.tensor(truncated, device=device), config)

        is_done = search_state.done_list()  # the host waits for the device
        if not any(is_done):
            search_state = replace(search_state, is_done=None)
        elif is_done.count(False) <= threshold * len(active):
            done = [row for row, flag in enumerate(is_done) if flag]
            kept = [row for row, flag in enumerate(is_done) if not flag]
            finished = select_n_best(search_state.finished, torch.tensor(done, device=device))
            results.add([active[row] for row in done], finished)
            active = [active[row] for row in kept]
            if active:
                search_state = search_state.select_sentences(torch.tensor(kept, device=device))

        if active and capturer is not None and not is_observed:
            steps_left = [limits[i] - length for i in active]
            if fits_static_graph(search_state.hypotheses, config, steps_left):
                rest = replay_to_end(decoder, search_state, config, steps_left, capturer)
                if rest is not None:
                    results.add(active, rest)
                    break
                capturer = None
    return results.all()


class _Results:
    """The results of the sentences that have left the batch."""

    def __init__(self, n_best: int, numbers: Sequence[int], observe: SearchObserver | None) -> None:
        self._n_best, self._numbers, self._observe = n_best, numbers, observe
        self._hypotheses: dict[int, list[Hypothesis]] = {}
        self._pending: tuple[Sequence[int], NBest] | None = None

    def add(self, sentences: Sequence[int], finished: NBest) -> None:
        """Copy the results (B, N) of `sentences` to the host; `convert` makes lists of them."""
        self.convert()
        self._pending = sentences, NBest(*(x[:, : self._n_best].cpu() for x in finished))
        if self._observe is not None:
            self.convert()
            for i in sentences:
                self._observe.on_result(self._numbers[i], self._hypotheses[i])

    def convert(self) -> None:
        """Make Python objects of the results that were added last."""
        if self._pending is not None:
            sentences, finished = self._pending
            lists = to_lists(finished, self._n_best)
            self._hypotheses.update(zip(sentences, lists, strict=True))
            self._pending = None

    def all(self) -> list[list[Hypothesis]]:
        """The results of all sentences, in order."""
        self.convert()
        return [self._hypotheses[i] for i in range(len(self._hypotheses))]


def _notify(
    observe: SearchObserver | None,
    step: StepResult[Any],
    config: SearchConfig,
    numbers: Sequence[int],
) -> Collection[int]:
    """Report a step to the observer; the numbers of the sentences that it abandons."""
    if observe is None:
        return ()
    search_state, width = step.search_state, config.selector.width
    return observe.on_step(
        SearchStep(
            numbers,
            step.candidates,
            ending_candidates(step.candidates, width),
            continuing_candidates(step.candidates, width),
            search_state.hypotheses,
            config.penalties.unfinished_scores(search_state.hypotheses),  # (B, K')
            search_state.finished,
        )
    )
