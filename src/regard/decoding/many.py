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
from regard.batching.memory import kept_memory
from regard.decoding.batches import plan_batches
from regard.decoding.ensemble import Ensemble, EnsembleState, watch_member
from regard.decoding.loop import explore
from regard.decoding.observe import Observe
from regard.decoding.rules import FREE, Wording
from regard.decoding.search import make_plan
from regard.decoding.settings import DecodingSettings
from regard.errors import SearchError
from regard.kernels.graphs import Graphs, Recorder
from regard.models.contracts import AnyModel, Decoder, State
from regard.nouns import Hypothesis
from regard.types import Padded, Watch


class Job(NamedTuple):
    """A batch of sentences to search for, with no model: it may go to another process."""

    sources: Sequence[Sequence[Sequence[int]]]
    """Of each model the sentences, in its own tokens."""
    settings: DecodingSettings
    wording: Wording
    numbers: Sequence[int]

    def halves(self) -> "tuple[Job, Job]":
        """The first and the second half of the sentences, as jobs of their own."""
        middle = len(self.numbers) // 2
        return self._part(slice(middle)), self._part(slice(middle, None))

    def _part(self, some: slice) -> "Job":
        places = range(len(self.numbers))[some]
        sources = [sentences[some] for sentences in self.sources]
        return Job(sources, self.settings, self.wording.of(places), self.numbers[some])


Found = list[list[Hypothesis]]
"""The n best answers to each sentence of a job."""


class Sharing(Protocol):
    """Whoever takes over jobs: helpers in other processes, or who has done their like before."""

    def share(self, jobs: Sequence[Job], here: Callable[[Job], Found], /) -> list[Found]:
        """What is found for all jobs, in order, some of them maybe in parts; `here` does one."""
        ...


class Member(NamedTuple):
    """A model, and the sentences to translate in its own tokens."""

    model: AnyModel
    sources: Sequence[Sequence[int]]


def search_many(
    members: Sequence[Member],
    settings: DecodingSettings,
    *,
    budget: int,
    wording: Wording = FREE,
    numbers: Sequence[int] | None = None,
    watch: Watch | None = None,
    observe: Observe | None = None,
    crew: Sharing | None = None,
) -> Found:
    """The n best answers to each sentence, in the order given, by one model or several together.

    At most `budget` positions, counted once for each hypothesis, are searched at a time, and no
    answer is longer than the models can write. `wording` says what they must and must not say of
    all sentences. `numbers`, by default the sentences' places, tell them
    apart for sampling and for `observe`.

    A `crew`, which must have the same models, shares the batches where nobody looks on; they are
    the same ones with it and without.
    """
    settings = _within_limits(settings, members)
    _check_coverage(settings, members)
    models = [model for model, _ in members]
    lengths = [len(ids) + 1 for ids in members[0].sources]  # with EOS
    width = settings.n_best if settings.sampling else settings.beam.size
    batches = plan_batches(lengths, budget, width)
    jobs = [
        Job(
            [[sources[place] for place in places] for _, sources in members],
            settings,
            wording.of(places),
            places if numbers is None else [numbers[place] for place in places],
        )
        for places in batches
    ]
    with kept_memory() if len(jobs) > 1 else nullcontext():
        looked_on = watch is not None or observe is not None
        if crew is None or looked_on:
            here = partial(search_batch, models, watch=watch, observe=observe)
            found = search_each(jobs, here, once=looked_on)
        else:
            found = crew.share(jobs, partial(_search_alone, models))
    answers = dict(zip(chain(*batches), chain(*found), strict=True))
    return [answers[place] for place in range(len(lengths))]


def search_each(
    jobs: Sequence[Job], search: Callable[[Job], Found], *, once: bool = False
) -> list[Found]:
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
            if once or len(waiting[0].numbers) == 1:
                raise SearchError(
                    f"a search of {len(waiting[0].numbers)} sentences does not fit into the "
                    f"device's memory: {error}; try a smaller beam, shorter lines, or --device cpu"
                ) from None
        torch.cuda.empty_cache()  # out of the handler, which holds all that the search had
        halved = chain(*(job.halves() for job in waiting))
        waiting = deque(job for job in halved if job.numbers)
    return found


def search_batch(
    models: Sequence[AnyModel],
    job: Job,
    *,
    watch: Watch | None = None,
    observe: Observe | None = None,
) -> Found:
    """The n best answers to each sentence of a batch."""
    where = next(models[0].parameters()).device
    sources = [pad_source(own).to(where) for own in job.sources]
    lengths = [len(ids) + 1 for ids in job.sources[0]]  # with EOS
    with torch.inference_mode():
        # First, as a device that has work already would have to do all of it before it answers.
        real = torch.tensor(lengths, device=where)  # (B,)
        plan = make_plan(job.settings, real, job.wording, job.numbers)
        state = read(models, sources, watch)
        if observe is not None:
            observe.begun(job.numbers, lengths)
        recorder = _recorder(job.settings, where)
        return explore(as_one(models), state, plan, watch, observe, job.numbers, recorder)


def _recorder(settings: DecodingSettings, where: device) -> Recorder | None:
    """What may record steps of a search; None: they are not to be recorded, or cannot be.

    Samples are drawn by how long they are, as the host knows it: that is not in a record.
    """
    may = settings.capture and settings.sampling is None
    return Graphs(where) if may and where.type == "cuda" else None


def _search_alone(models: Sequence[AnyModel], job: Job) -> Found:
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


def _within_limits(settings: DecodingSettings, members: Sequence[Member]) -> DecodingSettings:
    limits = [model.limit for model, _ in members if model.limit is not None]
    longest = min([settings.rules.max_length, *limits])
    rules = settings.rules.model_copy(update={"max_length": longest})
    return settings.model_copy(update={"rules": rules})


def _check_coverage(settings: DecodingSettings, members: Sequence[Member]) -> None:
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


def as_one(models: Sequence[AnyModel]) -> Decoder[Any]:
    """The decoder that they are together."""
    return models[0] if len(models) == 1 else Ensemble(models)


@torch.inference_mode()
def read(
    models: Sequence[AnyModel], sources: Sequence[Padded], watch: Watch | None = None
) -> State:
    """The state of that decoder before the first token, where each model reads its own source."""
    states = []
    for number, (model, source) in enumerate(zip(models, sources, strict=True)):
        memory = model.encode(source, watch=watch_member(watch, number))
        states.append(model.start(memory))
    return states[0] if len(models) == 1 else EnsembleState(tuple(states))
