"""Whole searches of small batches whose shape recurs, captured step by step as CUDA graphs.

For few sentences the host launches the kernels of a step more slowly than the GPU runs them. A done
sentence never leaves such a batch early. Larger batches are searched by `batch_search`, which drops
done sentences; of those, `static_graph.py` captures the last steps alone.

Each step is captured once for each shape (`kernels/cuda_graphs.py`), and each graph reads the
tensors that the one before it wrote. The first batch of a shape is searched without capturing,
which compiles and loads all kernels; with later ones, each step that was run before is captured
when it is needed. A batch is padded to its shape by sentences that are done from the beginning.
Replays read the weights in place; if these are moved, all graphs are dropped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.batching.collate import pad_source
from regard.batching.shape_buckets import round_up_to_bucket
from regard.decoding.batch_search import (
    SearchJob,
    SearchResults,
    as_decoder,
    initial_state,
    search_batch,
    search_with_oom_retry,
)
from regard.decoding.gpu.static_graph import StepOutputs, run_until_done
from regard.decoding.search.hypotheses import to_lists
from regard.decoding.search.step import SearchConfig, SearchState, advance, truncate
from regard.decoding.settings import DecodingSettings
from regard.kernels.beam_update import NBest
from regard.kernels.cuda_graphs import CaptureError, CudaGraphs, Replay, copy_to_static
from regard.models.contracts import AnyGenerator
from regard.types import Padded

MAX_CAPTURED_HYPOTHESES = 1280
"""The most hypotheses of a captured search: up to there a step of 4+4 layers of width 256 takes an
H200 less than 1 ms, and its host 4 to 6 ms to launch."""
MIN_SOURCE_LENGTH = 16  # shorter sources are padded to this length
MAX_SHAPES = 32  # shapes to keep graphs of; torch does not count the graphs' own memory


class SearchShape(NamedTuple):
    """What determines the kernels of a search: graphs serve all batches of one shape."""

    sentences: int
    lengths: tuple[int, ...]  # S of each model's source
    prefix: int  # tokens of the longest
    opening: int  # tokens of it that cost nothing
    settings: DecodingSettings
    forbidden: tuple[tuple[int, ...], ...]


class StaticInputs(NamedTuple):
    """The inputs of a search, padded to its shape."""

    sources: Sequence[Padded]  # (B, S) for each model
    limits: Tensor  # (B,) the most tokens of each result; 0: padding, done from the beginning
    config: SearchConfig

    @classmethod
    def from_job(cls, job: SearchJob, shape: SearchShape, device: torch.device) -> "StaticInputs":
        """The inputs of a job that has at most the sentences of the shape."""
        padding = [()] * (shape.sentences - len(job.sources[0]))
        sources = [
            pad_source([*sentences, *padding], least=length).to(device)
            for sentences, length in zip(job.sources, shape.lengths, strict=True)
        ]
        lengths = torch.tensor([len(ids) + 1 for ids in (*job.sources[0], *padding)], device=device)
        constraints = job.constraints
        if constraints.prefixes is not None:
            constraints = constraints._replace(prefixes=[*constraints.prefixes, *padding])
        config = SearchConfig.build(job.settings, lengths, constraints, range(shape.sentences))
        limits = [*config.rules.limits[: len(job.sources[0])], *[0 for _ in padding]]
        return cls(sources, torch.tensor(limits, device=device), config)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors that differ from batch to batch."""
        rules, penalties = self.config.rules, self.config.penalties
        by_sentence = rules.prefixes, penalties.lengths, penalties.min_factors
        return *(x for source in self.sources for x in source.tensors()), self.limits, *by_sentence


class CapturedSearch:
    """The search of batches of one shape, and the steps of it that are captured."""

    def __init__(
        self,
        models: Sequence[AnyGenerator],
        vocabulary: int,
        capturer: CudaGraphs,
        shape: SearchShape,
        job: SearchJob,
    ) -> None:
        """`job` is any job of the shape."""
        self.models, self.decoder, self.capturer = models, as_decoder(models), capturer
        self.vocabulary, self.shape = vocabulary, shape
        self.device = next(models[0].parameters()).device
        self.inputs = StaticInputs.from_job(job, shape, self.device)
        self.shortest_limit = job.settings.rules.limit(1)
        self.steps_seen = 0  # run at least once, captured or not
        self.replays: list[Replay] = []
        self.bytes_held = 0  # of the device's memory, by the captured steps
        self._outputs: dict[int, StepOutputs] = {}
        self._search_state: SearchState[Any] | None = None  # after the last captured step

    @torch.inference_mode()
    def search(self, job: SearchJob, max_bytes: int) -> SearchResults:
        """The results of a job of this shape; graphs may grow by about `max_bytes`."""
        inputs = StaticInputs.from_job(job, self.shape, torch.device("cpu"))
        inputs.config.rules.check_ids(self.vocabulary)  # replays do not check it
        with self.capturer.side_stream():
            copy_to_static(inputs.tensors, self.inputs.tensors)
            steps = self._steps(self.bytes_held + max_bytes)
            (finished, _), _ = run_until_done(steps, int(inputs.limits.max()))
            count, n_best = len(job.sources[0]), job.settings.n_best
            finished = NBest(*(x[:count, :n_best].cpu() for x in finished))
        return to_lists(finished, n_best)

    def _steps(self, byte_limit: int) -> Iterator[StepOutputs]:
        """Replay captured steps, capture those run before up to `byte_limit`, and run the rest."""
        number = 0
        while number < len(self.replays) or (
            number < self.steps_seen and self.bytes_held < byte_limit
        ):
            if number == len(self.replays):
                self._capture_step(number)
            self.replays[number]()
            yield self._outputs[number]
            number += 1
        search_state = self._search_state
        if search_state is not None:  # a copy: steps that are not captured may write into it
            everything = torch.arange(self.shape.sentences, device=self.device)
            search_state = search_state.select_sentences(everything)
        while True:
            search_state = self._step(search_state)
            number += 1
            self.steps_seen = max(self.steps_seen, number)
            yield StepOutputs.from_state(search_state)

    def _capture_step(self, number: int) -> None:
        def work() -> None:
            self._search_state = self._step(self._search_state if number else None)
            self._outputs[number] = StepOutputs.from_state(self._search_state)

        before = self.capturer.memory_in_use()
        self.replays.append(self.capturer.capture(work))
        self.bytes_held += max(0, self.capturer.memory_in_use() - before)  # others may free memory

    def _step(self, search_state: SearchState[Any] | None) -> SearchState[Any]:
        """The next step; None: encode the sources and take the first one."""
        config, limits = self.inputs.config, self.inputs.limits
        if search_state is None:
            encoded = initial_state(self.models, self.inputs.sources)
            search_state = replace(SearchState.start(encoded, config), is_done=limits == 0)
        was_done = search_state.is_done
        search_state = advance(self.decoder, search_state, config, None).search_state
        length = search_state.hypotheses.length
        if length < self.shortest_limit:
            return search_state
        return truncate(search_state, limits == length, config, was_done)


class CudaGraphCache:
    """Captured searches of some models, by shape, which hold about `max_bytes` of the device's
    memory. If a step cannot be captured, `failed` has the reason, and all searches run without
    graphs.
    """

    def __init__(
        self, models: Sequence[AnyGenerator], vocabulary: int, capturer: CudaGraphs, max_bytes: int
    ) -> None:
        self.failed: str | None = None
        self._models, self._vocabulary = models, vocabulary
        self._capturer, self.max_bytes = capturer, max_bytes
        self._searches: dict[SearchShape, CapturedSearch] = {}  # the most recently used is last
        self._weight_pointers: list[int] = []
        self._lock = Lock()  # graphs share their memory: one is replayed at a time

    @property
    def steps(self) -> int:
        """The number of captured steps."""
        return sum(len(captured.replays) for captured in self._searches.values())

    @property
    def bytes_held(self) -> int:
        """Bytes of the device's memory that captured steps hold."""
        return sum(captured.bytes_held for captured in self._searches.values())

    def run_jobs(self, jobs: Sequence[SearchJob]) -> list[SearchResults]:
        """The results of all jobs, in order; a job may be split into parts."""
        return search_with_oom_retry(jobs, self._search)

    def shape(self, job: SearchJob) -> SearchShape | None:
        """The shape of a job; None: do not capture it."""
        settings, count = job.settings, len(job.sources[0])
        if not settings.capture or settings.sampling or settings.beam.coverage_penalty or not count:
            return None
        if job.constraints.room is not None or job.constraints.first is not None:
            return None  # `StaticInputs` does not hold these
        sentences = round_up_to_bucket(count, 1)
        if sentences * settings.beam.size > MAX_CAPTURED_HYPOTHESES:
            return None
        lengths = []
        for model, sources in zip(self._models, job.sources, strict=True):
            length = max(map(len, sources)) + 1  # with EOS
            padded = round_up_to_bucket(max(length, MIN_SOURCE_LENGTH), 2)
            if model.max_length is not None:
                if length > model.max_length:
                    return None
                padded = min(padded, model.max_length)
            lengths.append(padded)
        prefix = max(map(len, job.constraints.prefixes or [()]))
        forbidden = tuple(map(tuple, job.constraints.forbidden))
        opening = job.constraints.opening
        return SearchShape(sentences, tuple(lengths), prefix, opening, settings, forbidden)

    def _search(self, job: SearchJob) -> SearchResults:
        """The results of a job; if memory runs out, all graphs are dropped first."""
        try:
            shape = self.shape(job) if self.failed is None else None
            results = None if shape is None else self._search_captured(shape, job)
            return search_batch(self._models, job) if results is None else results
        except torch.OutOfMemoryError:
            with self._lock:
                if not self._searches:
                    raise
                self._searches.clear()
        torch.cuda.empty_cache()  # outside the handler, whose traceback holds the tensors
        return search_batch(self._models, job)

    def _search_captured(self, shape: SearchShape, job: SearchJob) -> SearchResults | None:
        """The results of a job of that shape; None: it could not be captured."""
        with self._lock:
            try:
                captured = self._captured_search(shape, job)
                return captured.search(job, self.max_bytes - self.bytes_held)
            except CaptureError as error:
                self.failed = str(error)
                self._searches.clear()
                return None
            except BaseException:  # Ctrl-C too: a step may be half captured
                self._searches.pop(shape, None)
                raise

    def _captured_search(self, shape: SearchShape, job: SearchJob) -> CapturedSearch:
        """The search of that shape; the least recently used are dropped to make room."""
        tensors = (x for model in self._models for x in (*model.parameters(), *model.buffers()))
        weight_pointers = [x.data_ptr() for x in tensors]
        if weight_pointers != self._weight_pointers:  # the weights have been moved
            self._searches.clear()
            self._weight_pointers = weight_pointers
        captured = self._searches.pop(shape, None)
        if captured is None:
            captured = CapturedSearch(self._models, self._vocabulary, self._capturer, shape, job)
        self._searches[shape] = captured
        while len(self._searches) > MAX_SHAPES or (
            self.bytes_held >= self.max_bytes and len(self._searches) > 1
        ):
            del self._searches[next(iter(self._searches))]
        return captured
