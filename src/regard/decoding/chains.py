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

from regard.batching.buckets import round_up
from regard.batching.collate import pad_source
from regard.decoding.finished import Finished
from regard.decoding.many import Found, Job, as_one, read, search_each
from regard.decoding.moves import Plan, Stand, conclude, weigh
from regard.decoding.posting import Reports, lateness, post
from regard.decoding.search import make_plan
from regard.decoding.settings import DecodingSettings
from regard.kernels.graphs import CaptureError, Recorder, Run, bring
from regard.models.contracts import AnyModel
from regard.types import Padded

ROWS = 1280
"""Hypotheses of a batch up to which its search is recorded: 256 sentences with a beam of 5.

Up to there a step of 4+4 layers of 256 takes an H200 less than 1 ms, going by the 0.2 µs that a
hypothesis takes in large batches, and its host 4 to 6 ms to ask for.
"""
SHORTEST = 16
"""Source tokens that all shorter sentences are filled up to."""
MOST = 32
"""Shapes of which records are kept; of more, those that were not used for the longest time are
dropped. What a graph itself takes is not in the memory that torch counts."""
CPU = torch.device("cpu")


class Shape(NamedTuple):
    """What a search is recorded for: it is the same work for all batches of it."""

    sentences: int
    lengths: tuple[int, ...]  # S of each model's source
    prefix: int  # tokens of the longest
    settings: DecodingSettings
    forbidden: tuple[tuple[int, ...], ...]


class Inputs(NamedTuple):
    """The sentences of a batch in its shape."""

    sources: Sequence[Padded]  # (B, S) for each model
    limits: Tensor  # (B,) tokens that each answer may have; 0: it is over from the beginning
    plan: Plan

    @classmethod
    def of(cls, job: Job, shape: Shape, where: device) -> "Inputs":
        """Those of a job, which are as many as there are or fewer."""
        missing = [()] * (shape.sentences - len(job.sources[0]))
        sources = [
            pad_source([*own, *missing], least=length).to(where)
            for own, length in zip(job.sources, shape.lengths, strict=True)
        ]
        prefixes = job.wording.prefixes
        filled = None if prefixes is None else [*prefixes, *missing]
        lengths = torch.tensor([len(ids) + 1 for ids in [*job.sources[0], *missing]], device=where)
        wording = job.wording._replace(prefixes=filled)
        plan = make_plan(job.settings, lengths, wording, range(shape.sentences))
        limits = [*plan.rules.limits[: len(job.sources[0])], *[0 for _ in missing]]
        return cls(sources, torch.tensor(limits, device=where), plan)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that differs from batch to batch."""
        return *(x for source in self.sources for x in source), self.limits, *self.plan.inputs


class Mark(NamedTuple):
    """What the host asks for behind a step."""

    finished: Finished  # (B, N)
    over: Tensor  # (B,)


class Chain:
    """The search for batches of one shape, as far as it was recorded."""

    def __init__(
        self,
        models: Sequence[AnyModel],
        vocabulary: int,
        recorder: Recorder,
        shape: Shape,
        job: Job,
    ) -> None:
        """`job` is any one of that shape."""
        self.models, self.decoder, self.recorder = models, as_one(models), recorder
        self.vocabulary, self.shape = vocabulary, shape
        self.where = next(models[0].parameters()).device
        self.inputs = Inputs.of(job, shape, self.where)
        self.shortest = job.settings.rules.limit(1)
        self.done = 0
        """Steps that were done at least once."""
        self.runs: list[Run] = []
        """Those that were recorded."""
        self.held = 0
        """Bytes of the device's memory in which they leave what they find."""
        self._marks: dict[int, Mark] = {}
        self._stand: Stand[Any] | None = None  # behind the last of them

    @torch.inference_mode()
    def search(self, job: Job, room: int) -> Found:
        """What is found for a job of this shape; its record may grow by so many bytes, or a bit."""
        given = Inputs.of(job, self.shape, CPU)
        given.plan.rules.check_ids(self.vocabulary)  # who replays asks for nothing
        longest, count = int(given.limits.max()), len(job.sources[0])
        reports = Reports(lateness(self.where))
        with self.recorder.apart():
            bring(given.tensors, self.inputs.tensors)
            for number, mark in enumerate(self._steps(self.held + room), 1):
                over = reports.hear(mark.over)
                if number == longest or (over is not None and bool(over.all())):
                    break
            num = job.settings.n_best
            answers = post(*(x[:count, :num] for x in mark.finished))
        return Finished(*answers.open()).hypotheses(num)

    def _steps(self, most: int) -> Iterator[Mark]:
        """Replay what was recorded, record what was done before, do the rest; one step at a time.

        Nothing is recorded where `most` bytes are held.
        """
        number = 0
        while number < len(self.runs) or (number < self.done and self.held < most):
            if number == len(self.runs):
                self._record(number)
            self.runs[number]()
            yield self._marks[number]
            number += 1
        stand = None if self._stand is None else self._copy(self._stand)
        while True:
            stand, mark = self._step(stand)
            number += 1
            self.done = max(self.done, number)
            yield mark

    def _record(self, number: int) -> None:
        def work() -> None:
            self._stand, self._marks[number] = self._step(self._stand if number else None)

        before = self.recorder.in_use()
        self.runs.append(self.recorder.capture(work))
        self.held += max(0, self.recorder.in_use() - before)  # others may have freed some meanwhile

    def _step(self, stand: Stand[Any] | None) -> tuple[Stand[Any], Mark]:
        """The next step; None: the first one, with all that goes before it."""
        inputs = self.inputs
        if stand is None:
            stand = Stand.start(read(self.models, inputs.sources), inputs.plan)
            stand = replace(stand, over=inputs.limits == 0)
        move = weigh(self.decoder, stand, inputs.plan, None)
        length = move.grid.length
        cut = None if length < self.shortest else inputs.limits == length  # (B,)
        stand = conclude(move, inputs.plan, cut)
        assert stand.over is not None  # as a step leaves it
        return stand, Mark(stand.finished, stand.over)

    def _copy(self, stand: Stand[Any]) -> Stand[Any]:
        """The same elsewhere: what a step that is not recorded adds must not be in the way."""
        return stand.keep(torch.arange(self.shape.sentences, device=self.where))


class Chains:
    """The recorded searches of some models together, for as long as this lives.

    They hold about `room` bytes of the device's memory at the most. Whatever cannot be recorded is
    searched for plainly: then nothing is from there on, and `failed` says why.
    """

    def __init__(
        self, models: Sequence[AnyModel], vocabulary: int, recorder: Recorder, room: int
    ) -> None:
        self.failed: str | None = None
        self._models, self._vocabulary = models, vocabulary
        self._recorder, self.room = recorder, room
        self._chains: dict[Shape, Chain] = {}  # the one that was used last is the last
        self._places: list[int] = []
        self._lock = Lock()  # of records that share their memory, one is replayed at a time

    @property
    def steps(self) -> int:
        """How many are recorded."""
        return sum(len(chain.runs) for chain in self._chains.values())

    @property
    def held(self) -> int:
        """Bytes of the device's memory in which records leave what they find."""
        return sum(chain.held for chain in self._chains.values())

    def share(self, jobs: Sequence[Job], here: Callable[[Job], Found], /) -> list[Found]:
        """What is found for all jobs, in order, some of them maybe in parts; `here` does one."""
        return search_each(jobs, partial(self._search, here))

    def shape(self, job: Job) -> Shape | None:
        """That of a job's record; None: it is to have none."""
        settings, count = job.settings, len(job.sources[0])
        if not settings.capture or settings.sampling or settings.beam.coverage_penalty or not count:
            return None
        sentences = round_up(count, 1)
        lengths = [
            _length(max(map(len, own)) + 1, model.limit)
            for model, own in zip(self._models, job.sources, strict=True)
        ]
        if sentences * settings.beam.size > ROWS or None in lengths:
            return None
        prefix = max(map(len, job.wording.prefixes or [()]))
        forbidden = tuple(map(tuple, job.wording.forbidden))
        found = tuple(length for length in lengths if length is not None)
        return Shape(sentences, found, prefix, settings, forbidden)

    def _search(self, here: Callable[[Job], Found], job: Job) -> Found:
        """What is found for a job; all records give way where memory does not suffice."""
        try:
            shape = self.shape(job) if self.failed is None else None
            found = None if shape is None else self._replay(shape, job)
            return here(job) if found is None else found
        except torch.OutOfMemoryError:
            with self._lock:
                if not self._chains:
                    raise
                self._chains.clear()
        torch.cuda.empty_cache()  # out of the handler, which holds all that the search had
        return here(job)

    def _replay(self, shape: Shape, job: Job) -> Found | None:
        """What a chain finds for a job of its shape; None: it could not be recorded."""
        with self._lock:
            try:
                chain = self._chain(shape, job)
                return chain.search(job, self.room - self.held)
            except CaptureError as error:
                self.failed = str(error)
                self._chains.clear()
                return None
            except BaseException:  # Ctrl-C too: who knows how far the record is
                self._chains.pop(shape, None)
                raise

    def _chain(self, shape: Shape, job: Job) -> Chain:
        """The chain of that shape; others are dropped where there are too many, or no room."""
        self._forget_moved()
        chain = self._chains.pop(shape, None)
        if chain is None:
            chain = Chain(self._models, self._vocabulary, self._recorder, shape, job)
        self._chains[shape] = chain
        while len(self._chains) > MOST or (self.held >= self.room and len(self._chains) > 1):
            del self._chains[next(iter(self._chains))]
        return chain

    def _forget_moved(self) -> None:
        """Drop all records if weights lie elsewhere than they did."""
        places = [
            x.data_ptr() for model in self._models for x in (*model.parameters(), *model.buffers())
        ]
        if places != self._places:
            self._chains.clear()
            self._places = places


def _length(length: int, limit: int | None) -> int | None:
    """What a source of that length is filled up to; None: it is longer than its model can read."""
    rounded = round_up(max(length, SHORTEST), 2)
    if limit is None:
        return rounded
    return min(rounded, limit) if length <= limit else None
