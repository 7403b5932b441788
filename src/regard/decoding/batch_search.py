"""Searches of any number of sentences: batched by length, results in order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.batching.collate import pad_source
from regard.batching.malloc_tuning import keep_freed_memory
from regard.decoding.constraints.rules import NO_CONSTRAINTS, Constraints
from regard.decoding.ensemble import Ensemble, EnsembleState, hook_for_member
from regard.decoding.length_batches import plan_batches
from regard.decoding.search.loop import run_search
from regard.decoding.search.step import SearchConfig
from regard.decoding.settings import DecodingSettings
from regard.decoding.tracing.observer import SearchObserver
from regard.errors import SearchError
from regard.kernels.cuda_graphs import CudaGraphs
from regard.models.contracts import AnyModel, Decoder, State, StateT
from regard.types import AttentionHook, Hypothesis, Padded


class SearchJob(NamedTuple):
    """A batch of sentences to search, without the models: it can be sent to another process."""

    sources: Sequence[Sequence[Sequence[int]]]
    """For each model, the sentences in its own tokens."""
    settings: DecodingSettings
    constraints: Constraints
    numbers: Sequence[int]

    def split(self) -> "tuple[SearchJob, SearchJob]":
        """The first and the second half of the sentences as two jobs."""
        middle = len(self.numbers) // 2
        return self._slice(slice(middle)), self._slice(slice(middle, None))

    def _slice(self, part: slice) -> "SearchJob":
        sources = [sentences[part] for sentences in self.sources]
        constraints = self.constraints.select(range(len(self.numbers))[part])
        return SearchJob(sources, self.settings, constraints, self.numbers[part])


SearchResults = list[list[Hypothesis]]
"""The n best hypotheses of each sentence of a job."""
RunJobs = Callable[[Sequence[SearchJob]], list[SearchResults]]
"""Searches several jobs; results in order, but a job may be split into parts."""


class SearchMember(NamedTuple):
    """A model, and the sentences to translate in its own tokens."""

    model: AnyModel
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

    A batch has at most `budget` positions, counted once for each hypothesis, and no result is
    longer than the models' limits. `numbers`, by default the indices of the sentences, identify
    them for sampling and for `observe`. `run_jobs` searches the batches, with the same models, in
    place of this process; it is not used with a hook or an observer.
    """
    settings = _cap_max_length(settings, members)
    _check_coverage(settings, members)
    models = [model for model, _ in members]
    lengths = [len(ids) + 1 for ids in members[0].sources]  # with EOS
    width = settings.n_best if settings.sampling else settings.beam.size
    batches = plan_batches(lengths, budget, width)
    jobs = [
        SearchJob(
            [[sources[i] for i in batch] for _, sources in members],
            settings,
            constraints.select(batch),
            batch if numbers is None else [numbers[i] for i in batch],
        )
        for batch in batches
    ]
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

    The memory that a search takes is not known before; results do not depend on the split. With
    `no_retry` (an observer would see a search twice) running out of memory is an error.
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
        halves = chain(*(job.split() for job in waiting))
        waiting = deque(job for job in halves if job.numbers)
    return found


@torch.inference_mode()
def search_batch(
    models: Sequence[AnyModel],
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
    # First, as it reads `lengths` back from the device: encoding need not be waited for.
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
    sentences for sampling, so that no result depends on the batch, and for `observe`.

    There are fewer than n_best hypotheses only where no more exist. The decoder is given at most
    `max_length` tokens, BOS included.
    """
    if not len(lengths):
        return []
    numbers = range(len(lengths)) if numbers is None else numbers
    if len(numbers) != len(lengths):
        raise ValueError(f"expected a number for each of {len(lengths)} sentences, got {numbers}")
    config = SearchConfig.build(settings, lengths, constraints, numbers)
    return run_search(decoder, state, config, numbers=numbers, hook=hook, observe=observe)


def _make_capturer(settings: DecodingSettings, device: torch.device) -> CudaGraphs | None:
    """A capturer for the last steps of a search; None: they are not to be captured, or cannot be.

    Sampling cannot: the numbers it draws depend on a length that the host knows.
    """
    may_capture = settings.capture and settings.sampling is None and device.type == "cuda"
    return CudaGraphs(device) if may_capture else None


def search_single_threaded(models: Sequence[AnyModel], job: SearchJob) -> SearchResults:
    """`search_batch` on one thread, for when worker processes use the other cores."""
    with one_thread():
        return search_batch(models, job)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread.

    While other cores are busy, synchronizing with a second thread after each of many short
    operations costs far more than the thread gains.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _cap_max_length(
    settings: DecodingSettings, members: Sequence[SearchMember]
) -> DecodingSettings:
    limits = [model.max_length for model, _ in members if model.max_length is not None]
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
            "a coverage penalty counts how often each token of the source was looked at, and these "
            "models read it in unlike tokens: set coverage_penalty to 0, or choose models that "
            "share a source vocabulary"
        )


def as_decoder(models: Sequence[AnyModel]) -> Decoder[Any]:
    """The model itself, or the ensemble of several."""
    return models[0] if len(models) == 1 else Ensemble(models)


@torch.inference_mode()
def initial_state(
    models: Sequence[AnyModel], sources: Sequence[Padded], hook: AttentionHook | None = None
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
