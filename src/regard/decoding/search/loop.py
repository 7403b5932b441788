"""The one search loop: a step, and who is done leaves; until nobody is there."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from regard.decoding.gpu.async_copy import host_lag, is_on_cpu
from regard.decoding.gpu.static_graph import fits_static_graph, fits_static_steps, replay_to_end
from regard.decoding.search.active_batch import ActiveBatch
from regard.decoding.search.hypotheses import Hypotheses
from regard.decoding.search.result_reader import ResultReader
from regard.decoding.search.step import (
    SearchConfig,
    SearchState,
    StepResult,
    advance,
    ending,
    finalize,
)
from regard.decoding.tracing.observer import SearchObserver, SearchStep
from regard.kernels.cuda_graphs import CudaGraphs
from regard.models.contracts import Decoder, StateT
from regard.types import AttentionHook, Hypothesis

COMPACT_BELOW, COMPACT_BELOW_SMALL = 7 / 8, 1 / 2
"""Of the sentences of a batch; when no more than these go on, the others leave it.

To leave costs a copy of all that stay, and to stay a step of each that could have left. The second
is for a GPU that has few hypotheses: it waits for its host then, who takes a third of a step to ask
for the copies.
"""
SMALL_BATCH = 16_384
"""Hypotheses of which that is so: a step of them takes an H200 2.5 ms and its host 4.2, with 4
layers of 256."""


def run_search(
    decoder: Decoder[StateT],
    state: StateT,
    config: SearchConfig,
    hook: AttentionHook | None,
    observe: SearchObserver | None = None,
    numbers: Sequence[int] | None = None,
    capturer: CudaGraphs | None = None,
) -> list[list[Hypothesis]]:
    """The n best answers to each sentence of `state`, a grid (B, 1), in order.

    `numbers`, by default 0, 1, ..., are what `observe` knows the sentences by. Where nobody looks
    on, a `recorder` does away with the host when few of them are left: see `steady`.
    """
    limits, where = config.rules.limits, config.penalties.lengths.device
    numbers = range(len(limits)) if numbers is None else numbers
    is_observed = observe is not None or hook is not None
    active_batch = ActiveBatch(limits, where, 0 if is_observed else host_lag(where))
    answers = ResultReader(config.n_best, observe, numbers)
    search_state = SearchState.start(state, config)
    while True:
        result = advance(decoder, search_state, config, hook)
        abandoned: Collection[int] = ()
        if observe is not None:
            abandoned_ids = observe.on_step(
                _observed_step(result, config, [numbers[row] for row in active_batch.rows])
            )
            abandoned = [row for row in active_batch.rows if numbers[row] in abandoned_ids]
        search_state = finalize(
            result, config, active_batch.truncated(result.hypotheses.length, abandoned)
        )
        search_state = replace(search_state, is_done=active_batch.poll(search_state.is_done))
        # Who looks on sees nobody done.
        compaction = active_batch.compact(
            1.0 if is_observed else _compaction_threshold(search_state.hypotheses)
        )
        if compaction is not None:
            answers.collect(
                compaction.rows, search_state.finished.select_sentences(compaction.removed)
            )
            if not active_batch.rows:
                return answers.all()
            search_state = search_state.select_sentences(compaction.kept)
        if (
            capturer is not None
            and not is_observed
            and fits_static_graph(search_state.hypotheses, config)
        ):
            steps_left = [limits[row] - search_state.hypotheses.length for row in active_batch.rows]
            if fits_static_steps(steps_left):
                rest = replay_to_end(decoder, search_state, config, steps_left, capturer)
                if rest is not None:
                    answers.collect(active_batch.rows, rest)
                    return answers.all()
                capturer = None


def _compaction_threshold(hypotheses: Hypotheses) -> float:
    """The share of a batch that goes on when the others leave it."""
    few = hypotheses.log_probs.numel() <= SMALL_BATCH and not is_on_cpu(hypotheses.log_probs)
    return COMPACT_BELOW_SMALL if few else COMPACT_BELOW


def _observed_step(
    result: StepResult[Any], config: SearchConfig, numbers: Sequence[int]
) -> SearchStep:
    """A move as those who look on see it."""
    candidates, hypotheses = result.candidates, result.hypotheses
    ends, continuing = (
        ending(candidates, result.is_done, config),
        candidates.continuing(config.selector.width),
    )
    scores = config.penalties.unfinished_scores(hypotheses)  # (B, K')
    return SearchStep(numbers, candidates, ends, continuing, hypotheses, scores, result.finished)
