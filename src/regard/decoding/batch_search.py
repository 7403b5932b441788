"""Searches of any number of sentences, batched by length, and the search loop of a batch."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.batching.collate import pad_source
from regard.batching.malloc_tuning import keep_freed_memory
from regard.decoding.constraints.rules import NO_CONSTRAINTS, Constraints
from regard.decoding.ensemble import Ensemble, EnsembleState, hook_for_member
from regard.decoding.gpu.static_graph import fits_static_graph, replay_to_end
from regard.decoding.search.hypotheses import (
    continuing_candidates,
    ending_candidates,
    select_n_best,
    to_lists,
)
from regard.decoding.search.step import SearchConfig, SearchState, StepResult, advance, truncate
from regard.decoding.settings import DecodingSettings, plan_batches
from regard.decoding.tracing.observer import SearchObserver, SearchStep
from regard.errors import SearchError
from regard.kernels.beam_update import NBest
from regard.kernels.cuda_graphs import CudaGraphs
from regard.models.contracts import AnyGenerator, Decoder, State, StateT
from regard.types import AttentionHook, Hypothesis, Padded

COMPACT_BELOW = 7 / 8
"""Drop done sentences (this copies the state) once at most this share is unfinished."""


class SearchJob(NamedTuple):
    """A batch of sentences to search, without the models: it can be sent to another process."""

    sources: Sequence[Sequence[Sequence[int]]]  # for each model, the sentences in its own tokens
    settings: DecodingSettings
    constraints: Constraints
    numbers: Sequence[int]  # ids of the sentences, for sampling and observers

    def select(self, sentences: Sequence[int]) -> "SearchJob":
        """The job of some sentences only."""
        return SearchJob(
            [[source[i] for i in sentences] for source in self.sources],
            self.settings,
            self.constraints.select(sentences),
            [self.numbers[i] for i in sentences],
        )

    def halves(self) -> "list[SearchJob]":
        """The job in two parts, or itself if it has one sentence."""
        indices, middle = range(len(self.numbers)), len(self.numbers) // 2
        return [self.select(part) for part in (indices[:middle], indices[middle:]) if part]


SearchResults = list[list[Hypothesis]]  # the n best hypotheses of each sentence of a job
RunJobs = Callable[[Sequence[SearchJob]], list[SearchResults]]
"""Searches several jobs; results in order, but a job may be split into parts."""


class SearchMember(NamedTuple):
    """A model, and the sentences to translate in its own tokens."""

    model: AnyGenerator
    sources: Sequence[Sequence[int]]


def search_many(
    members: Sequence[SearchMember],
    settings: DecodingSettings,
    *,
    budget: int,
    constraints: Constraints = NO_CONSTRAINTS,
    numbers: Sequence[int] | None = None,
    hook: AttentionHook | None = None,
    observe: SearchObserver | None = None,
    run_jobs: RunJobs | None = None,
) -> SearchResults:
    """The n best hypotheses of each sentence, in order, by one model or an ensemble.

    A batch has at most `budget` positions, counted once for each hypothesis. `numbers`, by default
    0, 1, ..., identify the sentences for sampling and for `observe`. `run_jobs` searches the
    batches in place of this process, unless there is a hook or an observer.
    """
    settings = cap_max_length(settings, [model.max_length for model, _ in members])
    _check_coverage(settings, members)
    models, sources = [model for model, _ in members], [sources for _, sources in members]
    lengths = [len(ids) + 1 for ids in sources[0]]  # with EOS
    width = settings.n_best if settings.sampling else settings.beam.size
    batches = plan_batches(lengths, budget, width)
    numbers = range(len(lengths)) if numbers is None else numbers
    job = SearchJob(sources, settings, constraints, numbers)
    jobs = [job.select(batch) for batch in batches]
    with keep_freed_memory() if len(jobs) > 1 else nullcontext():
        is_observed = hook is not None or observe is not None
        if run_jobs is None or is_observed:
            run_batch = partial(search_batch, models, hook=hook, observe=observe)
            found = search_with_oom_retry(jobs, run_batch, no_retry=is_observed)
        else:
            found = run_jobs(jobs)
    results = dict(zip(chain(*batches), chain(*found), strict=True))
    return [results[i] for i in range(len(lengths))]


def search_with_oom_retry(
    jobs: Sequence[SearchJob],
    search: Callable[[SearchJob], SearchResults],
    *,
    no_retry: bool = False,
) -> list[SearchResults]:
    """Search one job after another; after a GPU ran out of memory, all further jobs in halves.

    With `no_retry` (an observer would see a search twice) running out of memory is an error.
    """
    found, waiting = [], deque(jobs)
    while waiting:
        try:
            found.append(search(waiting[0]))
            waiting.popleft()
            continue
        except torch.OutOfMemoryError as error:
            if no_retry or len(waiting[0].numbers) == 1:
                raise SearchError(
                    f"a search of {len(waiting[0].numbers)} sentences does not fit into the "
                    f"device's memory: {error}; try a smaller beam, shorter lines, or --device cpu"
                ) from None
        torch.cuda.empty_cache()  # outside the handler, whose traceback holds the tensors
        waiting = deque(chain(*(job.halves() for job in waiting)))
    return found


@torch.inference_mode()
def search_batch(
    models: Sequence[AnyGenerator],
    job: SearchJob,
    *,
    hook: AttentionHook | None = None,
    observe: SearchObserver | None = None,
) -> SearchResults:
    """The n best hypotheses of each sentence of a job."""
    device = next(models[0].parameters()).device
    sources = [pad_source(sentences) for sentences in job.sources]
    if device.type != "cpu":
        sources = [source.to(device) for source in sources]
    lengths = torch.tensor([len(ids) + 1 for ids in job.sources[0]], device=device)  # with EOS
    # Built before encoding: it reads `lengths` back from the device, and would wait for that.
    config = SearchConfig.build(job.settings, lengths, job.constraints, job.numbers)
    return run_search(
        as_decoder(models),
        initial_state(models, sources, hook),
        config,
        numbers=job.numbers,
        hook=hook,
        observe=observe,
        capturer=_make_capturer(job.settings, device),
    )


@torch.inference_mode()
def search(
    decoder: Decoder[StateT],
    state: StateT,
    lengths: Tensor,
    settings: DecodingSettings,
    *,
    constraints: Constraints = NO_CONSTRAINTS,
    numbers: Sequence[int] | None = None,
    hook: AttentionHook | None = None,
    observe: SearchObserver | None = None,
) -> SearchResults:
    """The 1 to n_best hypotheses of each sentence of one batch, the best first.

    `state` (B, 1) is the decoder's before the first token, `lengths` (B,) the real positions of
    each source, on the device of the search. `numbers`, by default 0, 1, ..., identify the
    sentences for sampling and for `observe`. The decoder is given at most `max_length` tokens, BOS
    included.
    """
    if not len(lengths):
        return []
    numbers = range(len(lengths)) if numbers is None else numbers
    if len(numbers) != len(lengths):
        raise ValueError(f"expected a number for each of {len(lengths)} sentences, got {numbers}")
    config = SearchConfig.build(settings, lengths, constraints, numbers)
    return run_search(
        decoder,
        state,
        config,
        numbers=numbers,
        hook=hook,
        observe=observe,
        capturer=_make_capturer(settings, lengths.device),
    )


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
    """The n best hypotheses of each sentence of `state` (B, 1), known to `observe` by its number.

    A `capturer` replays the last steps as a CUDA graph, unless there is a hook or an observer.
    """
    limits, device = config.rules.limits, config.penalties.lengths.device
    numbers = range(len(limits)) if numbers is None else numbers
    if observe is not None:
        observe.on_start(numbers, config.penalties.lengths.tolist())
    # Observers must not see done sentences, so with one they are dropped at every step.
    is_observed = hook is not None or observe is not None
    threshold = 1.0 if is_observed else COMPACT_BELOW
    results = _Results(config.n_best, numbers, observe)
    search_state = SearchState.start(state, config)
    active = list(range(len(limits)))  # indices of the sentences that are in the batch
    while active:
        was_done = search_state.is_done
        step = advance(decoder, search_state, config, hook)
        results.convert()  # those of earlier steps, while a GPU computes this one

        search_state, length = step.search_state, step.search_state.hypotheses.length
        abandoned = _notify(observe, step, config, [numbers[i] for i in active])
        truncated = [limits[i] == length or numbers[i] in abandoned for i in active]
        if any(truncated):
            mask = torch.tensor(truncated, device=device)
            search_state = truncate(search_state, mask, config, was_done)

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
        self._pending: list[tuple[Sequence[int], NBest]] = []

    def add(self, sentences: Sequence[int], finished: NBest) -> None:
        """Copy the results (B, N) of `sentences` to the host; `convert` makes lists of them."""
        on_host = NBest(*(x[:, : self._n_best].cpu() for x in finished))
        self._pending.append((sentences, on_host))
        if self._observe is not None:
            self.convert()
            for i in sentences:
                self._observe.on_result(self._numbers[i], self._hypotheses[i])

    def convert(self) -> None:
        """Make Python objects of the added results."""
        for sentences, finished in self._pending:
            lists = to_lists(finished, self._n_best)
            self._hypotheses.update(zip(sentences, lists, strict=True))
        self._pending.clear()

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
    (search_state, candidates), width = step, config.selector.width
    ending = ending_candidates(candidates, width)
    continuing = continuing_candidates(candidates, width)
    hypotheses, finished = search_state.hypotheses, search_state.finished
    scores = config.penalties.unfinished_scores(hypotheses)  # (B, K')
    return observe.on_step(
        SearchStep(numbers, candidates, ending, continuing, hypotheses, scores, finished)
    )


def _make_capturer(settings: DecodingSettings, device: torch.device) -> CudaGraphs | None:
    """A capturer for the last steps of a search, or None.

    Sampling cannot be captured: the host indexes its random numbers by the length.
    """
    may_capture = settings.capture and settings.sampling is None and device.type == "cuda"
    return CudaGraphs(device) if may_capture else None


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it torch uses one thread: faster for short operations while other cores are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def cap_max_length(
    settings: DecodingSettings, max_lengths: Sequence[int | None]
) -> DecodingSettings:
    """The settings for models that take at most `max_lengths` tokens; None: any number."""
    # One position is left for BOS, so that a truncated answer can still be scored and recorded.
    limits = [limit - 1 for limit in max_lengths if limit is not None]
    longest = min([settings.rules.max_length, *limits])
    rules = settings.rules.model_copy(update={"max_length": longest})
    return settings.model_copy(update={"rules": rules})


def _check_coverage(settings: DecodingSettings, members: Sequence[SearchMember]) -> None:
    """Raise an error for a coverage penalty if the models read different source tokens."""
    if not settings.beam.coverage_penalty:
        return
    token_lists = [[tuple(ids) for ids in sources] for _, sources in members]
    if any(tokens != token_lists[0] for tokens in token_lists):
        raise SearchError(
            "a coverage penalty sums the attention to each token of the source, and these models "
            "tokenize it differently: set coverage_penalty to 0, or choose models that share a "
            "source vocabulary"
        )


def as_decoder(models: Sequence[AnyGenerator]) -> Decoder[Any]:
    """The model itself, or the ensemble of several."""
    return models[0] if len(models) == 1 else Ensemble(models)


@torch.inference_mode()
def initial_state(
    models: Sequence[AnyGenerator], sources: Sequence[Padded], hook: AttentionHook | None = None
) -> State:
    """The state of `as_decoder(models)` before the first token; each model has its own source."""
    if len(models) == 1:
        state: State = models[0].start(models[0].encode(sources[0], hook=hook))
        return state
    states = []
    for number, (model, source) in enumerate(zip(models, sources, strict=True)):
        memory = model.encode(source, hook=hook_for_member(hook, number))
        states.append(model.start(memory))
    return EnsembleState(tuple(states))
