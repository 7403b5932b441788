"""Any number of sentences -> hypotheses: batched by length, answered in order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Protocol

import torch
from torch import device

from regard.batching.collate import pad_source
from regard.batching.malloc_tuning import keep_freed_memory
from regard.decoding.constraints.rules import NO_CONSTRAINTS, Constraints
from regard.decoding.ensemble import Ensemble, EnsembleState, hook_for_member
from regard.decoding.length_batches import plan_batches
from regard.decoding.search.config import make_config
from regard.decoding.search.loop import run_search
from regard.decoding.settings import DecodingSettings
from regard.decoding.tracing.observer import SearchObserver
from regard.errors import SearchError
from regard.kernels.cuda_graphs import CudaGraphs
from regard.models.contracts import AnyModel, Decoder, State
from regard.types import AttentionHook, Hypothesis, Padded


class SearchJob(NamedTuple):
    """A batch of sentences to search for, with no model: it may go to another process."""

    sources: Sequence[Sequence[Sequence[int]]]
    """Of each model the sentences, in its own tokens."""
    settings: DecodingSettings
    constraints: Constraints
    numbers: Sequence[int]

    def split(self) -> "tuple[SearchJob, SearchJob]":
        """The first and the second half of the sentences, as jobs of their own."""
        middle = len(self.numbers) // 2
        return self._slice(slice(middle)), self._slice(slice(middle, None))

    def _slice(self, some: slice) -> "SearchJob":
        places = range(len(self.numbers))[some]
        sources = [sentences[some] for sentences in self.sources]
        return SearchJob(sources, self.settings, self.constraints.of(places), self.numbers[some])


SearchResults = list[list[Hypothesis]]
"""The n best answers to each sentence of a job."""


class SearchPool(Protocol):
    """Whoever takes over jobs: helpers in other processes, or who has done their like before."""

    def map_jobs(
        self, jobs: Sequence[SearchJob], run_locally: Callable[[SearchJob], SearchResults], /
    ) -> list[SearchResults]:
        """What is found for all jobs, in order, some of them maybe in parts; `here` does one."""
        ...


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
    pool: SearchPool | None = None,
) -> SearchResults:
    """The n best answers to each sentence, in the order given, by one model or several together.

    At most `budget` positions, counted once for each hypothesis, are searched at a time, and no
    answer is longer than the models can write. `wording` says what they must and must not say of
    all sentences. `numbers`, by default the sentences' places, tell them
    apart for sampling and for `observe`.

    A `crew`, which must have the same models, shares the batches where nobody looks on; they are
    the same ones with it and without.
    """
    settings = _cap_max_length(settings, members)
    _check_coverage(settings, members)
    models = [model for model, _ in members]
    lengths = [len(ids) + 1 for ids in members[0].sources]  # with EOS
    width = settings.n_best if settings.sampling else settings.beam.size
    batches = plan_batches(lengths, budget, width)
    jobs = [
        SearchJob(
            [[sources[place] for place in places] for _, sources in members],
            settings,
            constraints.of(places),
            places if numbers is None else [numbers[place] for place in places],
        )
        for places in batches
    ]
    with keep_freed_memory() if len(jobs) > 1 else nullcontext():
        is_observed = hook is not None or observe is not None
        if pool is None or is_observed:
            run_locally = partial(search_batch, models, hook=hook, observe=observe)
            found = search_with_oom_retry(jobs, run_locally, no_retry=is_observed)
        else:
            found = pool.map_jobs(jobs, partial(_search_single_threaded, models))
    answers = dict(zip(chain(*batches), chain(*found), strict=True))
    return [answers[place] for place in range(len(lengths))]


def search_with_oom_retry(
    jobs: Sequence[SearchJob],
    search: Callable[[SearchJob], SearchResults],
    *,
    no_retry: bool = False,
) -> list[SearchResults]:
    """What `search` finds for some jobs, one after another, or for parts of them.

    How much memory a search takes is known only afterwards. Where a GPU has not enough for one, it
    and all that follow are searched in halves; answers do not depend on it. Only who looks on would
    see a search twice: `once` forbids that.
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
        torch.cuda.empty_cache()  # out of the handler, which holds all that the search had
        halved = chain(*(job.split() for job in waiting))
        waiting = deque(job for job in halved if job.numbers)
    return found


def search_batch(
    models: Sequence[AnyModel],
    job: SearchJob,
    *,
    hook: AttentionHook | None = None,
    observe: SearchObserver | None = None,
) -> SearchResults:
    """The n best answers to each sentence of a batch."""
    where = next(models[0].parameters()).device
    sources = [pad_source(own).to(where) for own in job.sources]
    lengths = [len(ids) + 1 for ids in job.sources[0]]  # with EOS
    with torch.inference_mode():
        # First, as a device that has work already would have to do all of it before it answers.
        real = torch.tensor(lengths, device=where)  # (B,)
        config = make_config(job.settings, real, job.constraints, job.numbers)
        state = initial_state(models, sources, hook)
        if observe is not None:
            observe.on_start(job.numbers, lengths)
        capturer = _make_capturer(job.settings, where)
        return run_search(as_decoder(models), state, config, hook, observe, job.numbers, capturer)


def _make_capturer(settings: DecodingSettings, where: device) -> CudaGraphs | None:
    """What may record steps of a search; None: they are not to be recorded, or cannot be.

    Samples are drawn by how long they are, as the host knows it: that is not in a record.
    """
    may = settings.capture and settings.sampling is None
    return CudaGraphs(where) if may and where.type == "cuda" else None


def _search_single_threaded(models: Sequence[AnyModel], job: SearchJob) -> SearchResults:
    """`search_batch` on one thread: other cores are for helpers."""
    with one_thread():
        return search_batch(models, job)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread.

    Where other cores are busy otherwise, a second thread that this one has to wait for behind each
    of many short operations costs far more than it brings.
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
    """An error if looks at the source are to be counted and the models read unlike tokens."""
    if not settings.beam.coverage_penalty:
        return
    readings = [[tuple(ids) for ids in sources] for _, sources in members]
    if any(reading != readings[0] for reading in readings):
        raise SearchError(
            "a coverage penalty counts how often each token of the source was looked at, and these "
            "models read it in unlike tokens: set coverage_penalty to 0, or choose models that "
            "share a source vocabulary"
        )


def as_decoder(models: Sequence[AnyModel]) -> Decoder[Any]:
    """The decoder that they are together."""
    return models[0] if len(models) == 1 else Ensemble(models)


@torch.inference_mode()
def initial_state(
    models: Sequence[AnyModel], sources: Sequence[Padded], hook: AttentionHook | None = None
) -> State:
    """The state of that decoder before the first token, where each model reads its own source."""
    states = []
    for number, (model, source) in enumerate(zip(models, sources, strict=True)):
        memory = model.encode(source, hook=hook_for_member(hook, number))
        states.append(model.start(memory))
    return states[0] if len(models) == 1 else EnsembleState(tuple(states))
