"""Searches of few sentences, recorded step by step and replayed: their host is never in the way.

A step of a search is some eighty kernels. For few sentences a GPU has done each of them sooner
than its host has asked for the next. But nothing in a step waits for the host, and what grows from
step to step (tokens, cells, trails) does so in the same way each time. So a search is a chain of
steps that can be recorded once for each shape (`kernels.graphs`), where each one reads what the one
before it has written.

The first batch of a shape is searched for as it would be without a record, which readies all
kernels; with the second each step is recorded when it is needed, and then replayed, as far as the
first one went; and so on. A batch is filled up to its shape by sentences that are over from the
beginning, and is together until all are. A replay reads the models' weights where they lie: they
may change there; where they are laid elsewhere, all records are dropped.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor, device

from regard.batching.collate import pad_source
from regard.batching.shape_buckets import round_up_to_bucket
from regard.decoding.batch_search import (
    SearchJob,
    SearchResults,
    as_decoder,
    initial_state,
    search_with_oom_retry,
)
from regard.decoding.gpu.async_copy import LaggedReader, async_to_host, host_lag
from regard.decoding.search.config import make_config
from regard.decoding.search.n_best import NBest
from regard.decoding.search.step import SearchConfig, SearchState, advance, finalize
from regard.decoding.settings import DecodingSettings
from regard.kernels.cuda_graphs import CaptureError, CudaGraphs, Replay, copy_to_static
from regard.models.contracts import AnyModel
from regard.types import Padded

MAX_CAPTURED_HYPOTHESES = 1280
"""Hypotheses of a batch up to which its search is recorded: 256 sentences with a beam of 5.

Up to there a step of 4+4 layers of 256 takes an H200 less than 1 ms, going by the 0.2 µs that a
hypothesis takes in large batches, and its host 4 to 6 ms to ask for.
"""
MIN_SOURCE_LENGTH = 16
"""Source tokens that all shorter sentences are filled up to."""
MAX_SHAPES = 32
"""Shapes of which records are kept; of more, those that were not used for the longest time are
dropped. What a graph itself takes is not in the memory that torch counts."""
CPU = torch.device("cpu")


class SearchShape(NamedTuple):
    """What a search is recorded for: it is the same work for all batches of it."""

    sentences: int
    lengths: tuple[int, ...]  # S of each model's source
    prefix: int  # tokens of the longest
    settings: DecodingSettings
    forbidden: tuple[tuple[int, ...], ...]


class StaticInputs(NamedTuple):
    """The sentences of a batch in its shape."""

    sources: Sequence[Padded]  # (B, S) for each model
    limits: Tensor  # (B,) tokens that each answer may have; 0: it is over from the beginning
    config: SearchConfig

    @classmethod
    def of(cls, job: SearchJob, shape: SearchShape, where: device) -> "StaticInputs":
        """Those of a job, which are as many as there are or fewer."""
        missing = [()] * (shape.sentences - len(job.sources[0]))
        sources = [
            pad_source([*own, *missing], least=length).to(where)
            for own, length in zip(job.sources, shape.lengths, strict=True)
        ]
        prefixes = job.constraints.prefixes
        filled = None if prefixes is None else [*prefixes, *missing]
        lengths = torch.tensor([len(ids) + 1 for ids in [*job.sources[0], *missing]], device=where)
        constraints = job.constraints._replace(prefixes=filled)
        config = make_config(job.settings, lengths, constraints, range(shape.sentences))
        limits = [*config.rules.limits[: len(job.sources[0])], *[0 for _ in missing]]
        return cls(sources, torch.tensor(limits, device=where), config)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that differs from batch to batch."""
        return *(x for source in self.sources for x in source), self.limits, *self.config.inputs


class StepOutputs(NamedTuple):
    """What the host asks for behind a step."""

    finished: NBest  # (B, N)
    is_done: Tensor  # (B,)


class CapturedSearch:
    """The search for batches of one shape, as far as it was recorded."""

    def __init__(
        self,
        models: Sequence[AnyModel],
        vocabulary: int,
        capturer: CudaGraphs,
        shape: SearchShape,
        job: SearchJob,
    ) -> None:
        """`job` is any one of that shape."""
        self.models, self.decoder, self.capturer = models, as_decoder(models), capturer
        self.vocabulary, self.shape = vocabulary, shape
        self.where = next(models[0].parameters()).device
        self.inputs = StaticInputs.of(job, shape, self.where)
        self.shortest_limit = job.settings.rules.limit(1)
        self.steps_seen = 0
        """Steps that were done at least once."""
        self.replays: list[Replay] = []
        """Those that were recorded."""
        self.bytes_held = 0
        """Bytes of the device's memory in which they leave what they find."""
        self._outputs: dict[int, StepOutputs] = {}
        self._search_state: SearchState[Any] | None = None  # behind the last of them

    @torch.inference_mode()
    def search(self, job: SearchJob, max_bytes: int) -> SearchResults:
        """What is found for a job of this shape; its record may grow by so many bytes, or a bit."""
        given = StaticInputs.of(job, self.shape, CPU)
        given.config.rules.check_ids(self.vocabulary)  # who replays asks for nothing
        longest, count = int(given.limits.max()), len(job.sources[0])
        reports = LaggedReader(host_lag(self.where))
        with self.capturer.side_stream():
            copy_to_static(given.tensors, self.inputs.tensors)
            for number, mark in enumerate(self._steps(self.bytes_held + max_bytes), 1):
                is_done = reports.poll(mark.is_done)
                if number == longest or (is_done is not None and bool(is_done.all())):
                    break
            num = job.settings.n_best
            answers = async_to_host(*(x[:count, :num] for x in mark.finished))
        return NBest(*answers.wait()).to_lists(num)

    def _steps(self, byte_limit: int) -> Iterator[StepOutputs]:
        """Replay what was recorded, record what was done before, do the rest; one step at a time.

        Nothing is recorded where `most` bytes are held.
        """
        number = 0
        while number < len(self.replays) or (
            number < self.steps_seen and self.bytes_held < byte_limit
        ):
            if number == len(self.replays):
                self._capture_step(number)
            self.replays[number]()
            yield self._outputs[number]
            number += 1
        search_state = None if self._search_state is None else self._copy(self._search_state)
        while True:
            search_state, mark = self._step(search_state)
            number += 1
            self.steps_seen = max(self.steps_seen, number)
            yield mark

    def _capture_step(self, number: int) -> None:
        def work() -> None:
            self._search_state, self._outputs[number] = self._step(
                self._search_state if number else None
            )

        before = self.capturer.memory_in_use()
        self.replays.append(self.capturer.capture(work))
        self.bytes_held += max(
            0, self.capturer.memory_in_use() - before
        )  # others may have freed some meanwhile

    def _step(self, search_state: SearchState[Any] | None) -> tuple[SearchState[Any], StepOutputs]:
        """The next step; None: the first one, with all that goes before it."""
        inputs = self.inputs
        if search_state is None:
            search_state = SearchState.start(
                initial_state(self.models, inputs.sources), inputs.config
            )
            search_state = replace(search_state, is_done=inputs.limits == 0)
        result = advance(self.decoder, search_state, inputs.config, None)
        length = result.hypotheses.length
        truncated = None if length < self.shortest_limit else inputs.limits == length  # (B,)
        search_state = finalize(result, inputs.config, truncated)
        assert search_state.is_done is not None  # as a step leaves it
        return search_state, StepOutputs(search_state.finished, search_state.is_done)

    def _copy(self, search_state: SearchState[Any]) -> SearchState[Any]:
        """The same elsewhere: what a step that is not recorded adds must not be in the way."""
        return search_state.select_sentences(torch.arange(self.shape.sentences, device=self.where))


class CudaGraphCache:
    """The recorded searches of some models together, for as long as this lives.

    They hold about `room` bytes of the device's memory at the most. Whatever cannot be recorded is
    searched for plainly: then nothing is from there on, and `failed` says why.
    """

    def __init__(
        self, models: Sequence[AnyModel], vocabulary: int, capturer: CudaGraphs, max_bytes: int
    ) -> None:
        self.failed: str | None = None
        self._models, self._vocabulary = models, vocabulary
        self._capturer, self.max_bytes = capturer, max_bytes
        self._searches: dict[
            SearchShape, CapturedSearch
        ] = {}  # the one that was used last is the last
        self._weight_pointers: list[int] = []
        self._lock = Lock()  # of records that share their memory, one is replayed at a time

    @property
    def steps(self) -> int:
        """How many are recorded."""
        return sum(len(captured.replays) for captured in self._searches.values())

    @property
    def bytes_held(self) -> int:
        """Bytes of the device's memory in which records leave what they find."""
        return sum(captured.bytes_held for captured in self._searches.values())

    def map_jobs(
        self, jobs: Sequence[SearchJob], run_locally: Callable[[SearchJob], SearchResults], /
    ) -> list[SearchResults]:
        """What is found for all jobs, in order, some of them maybe in parts; `here` does one."""
        return search_with_oom_retry(jobs, partial(self._search, run_locally))

    def shape(self, job: SearchJob) -> SearchShape | None:
        """That of a job's record; None: it is to have none."""
        settings, count = job.settings, len(job.sources[0])
        if not settings.capture or settings.sampling or settings.beam.coverage_penalty or not count:
            return None
        sentences = round_up_to_bucket(count, 1)
        lengths = [
            _padded_length(max(map(len, own)) + 1, model.max_length)
            for model, own in zip(self._models, job.sources, strict=True)
        ]
        if sentences * settings.beam.size > MAX_CAPTURED_HYPOTHESES or None in lengths:
            return None
        prefix = max(map(len, job.constraints.prefixes or [()]))
        forbidden = tuple(map(tuple, job.constraints.forbidden))
        found = tuple(length for length in lengths if length is not None)
        return SearchShape(sentences, found, prefix, settings, forbidden)

    def _search(
        self, run_locally: Callable[[SearchJob], SearchResults], job: SearchJob
    ) -> SearchResults:
        """What is found for a job; all records give way where memory does not suffice."""
        try:
            shape = self.shape(job) if self.failed is None else None
            found = None if shape is None else self._search_captured(shape, job)
            return run_locally(job) if found is None else found
        except torch.OutOfMemoryError:
            with self._lock:
                if not self._searches:
                    raise
                self._searches.clear()
        torch.cuda.empty_cache()  # out of the handler, which holds all that the search had
        return run_locally(job)

    def _search_captured(self, shape: SearchShape, job: SearchJob) -> SearchResults | None:
        """What a chain finds for a job of its shape; None: it could not be recorded."""
        with self._lock:
            try:
                captured = self._captured_search(shape, job)
                return captured.search(job, self.max_bytes - self.bytes_held)
            except CaptureError as error:
                self.failed = str(error)
                self._searches.clear()
                return None
            except BaseException:  # Ctrl-C too: who knows how far the record is
                self._searches.pop(shape, None)
                raise

    def _captured_search(self, shape: SearchShape, job: SearchJob) -> CapturedSearch:
        """The chain of that shape; others are dropped where there are too many, or no room."""
        self._drop_if_weights_moved()
        captured = self._searches.pop(shape, None)
        if captured is None:
            captured = CapturedSearch(self._models, self._vocabulary, self._capturer, shape, job)
        self._searches[shape] = captured
        while len(self._searches) > MAX_SHAPES or (
            self.bytes_held >= self.max_bytes and len(self._searches) > 1
        ):
            del self._searches[next(iter(self._searches))]
        return captured

    def _drop_if_weights_moved(self) -> None:
        """Drop all records if weights lie elsewhere than they did."""
        weight_pointers = [
            x.data_ptr() for model in self._models for x in (*model.parameters(), *model.buffers())
        ]
        if weight_pointers != self._weight_pointers:
            self._searches.clear()
            self._weight_pointers = weight_pointers


def _padded_length(length: int, limit: int | None) -> int | None:
    """What a source of that length is filled up to; None: it is longer than its model can read."""
    rounded = round_up_to_bucket(max(length, MIN_SOURCE_LENGTH), 2)
    if limit is None:
        return rounded
    return min(rounded, limit) if length <= limit else None
