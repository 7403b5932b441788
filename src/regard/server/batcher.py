"""Dynamic batching: concurrent requests -> batches for one model.

All state belongs to the event loop; only whole batches go to the model's threads, one for each
worker. Requests that arrive while all threads are busy form the next batch; a request that finds a
free thread waits a short window for others. Clients answered together tend to ask again at nearly
the same time, so after a batch of n requests the window is n times as long, and ends early when n
are queued.

A request is admitted if it can be answered in time after all that was admitted before, by the time
that recent batches took; otherwise it is refused at once, before work is spent on it. Admitted
requests are served in the order of their arrival, long ones later, in proportion to their length,
so that they do not delay short ones; and by their deadlines as soon as one of these is near.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from regard.errors import RegardError
from regard.server.errors import RequestError
from regard.server.settings import ServerSettings
from regard.server.telemetry import ServerMetrics, log_error
from regard.server.throughput import Throughput
from regard.tasks.translation.pipeline import Translator

MAX_WINDOWS = 20  # windows that a request waits for others, at most
SAFETY = 1.25  # an answer is expected after so many times the estimated seconds
BATCH_SHARE = 1 / 2  # of the time limit that one batch may take
STRETCH = 10.0  # a request lets pass what arrives within so many times its own duration


@dataclass(frozen=True)
class BatchFunction(ABC):
    """The computation on items; items of equal functions may be in one batch."""

    translator: Translator  # the one that tokenized the items, even if the model was reloaded

    @property
    def kind(self) -> Hashable:
        """Equal for functions that take about as long for a token."""
        return type(self)

    @abstractmethod
    def __call__(self, items: Sequence[Any], slots: "Sequence[BatchSlot]", /) -> list[Any]:
        """The answer to each item, in order; any value if its client has disconnected."""


@dataclass(eq=False)
class PendingRequest:
    """The items of one request and their answers so far."""

    function: BatchFunction
    items: Sequence[Any]
    costs: Sequence[int]  # of each item, in tokens
    future: "asyncio.Future[list[Any]]"  # of all answers; cancelling it dequeues the request
    arrival_time: float
    deadline: float
    order: float  # place in the queue, as a time
    on_trial: bool  # it seems too long, and is tried only as long as nothing else waits
    num_batched: int = 0  # items that were put into a batch
    answers: dict[int, Any] = field(default_factory=dict)
    partial_texts: dict[int, str] = field(default_factory=dict)  # by item, if streamed
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # set when a partial text changes

    def __post_init__(self) -> None:
        self.tokens_left = sum(self.costs)  # that were not put into a batch

    def set_partial(self, index: int, text: str) -> None:
        self.partial_texts[index] = text
        self.changed.set()

    def set_answer(self, index: int, answer: Any) -> None:
        """Store an answer; an exception, or the last answer, completes the request."""
        self.answers[index] = answer
        if self.future.done():
            return
        if isinstance(answer, Exception):
            self.future.set_exception(answer)
        elif len(self.answers) == len(self.items):
            self.future.set_result([self.answers[number] for number in range(len(self.items))])


class BatchSlot(NamedTuple):
    """An item of a batch: its request and its index there."""

    pending: PendingRequest
    item_index: int

    def is_waiting(self) -> bool:
        """Whether the client still waits: it may have disconnected, or the request timed out."""
        return not self.pending.future.done()

    def send_partial(self, text: str) -> bool:
        """Send a partial translation to the client; returns whether it still waits."""
        loop = self.pending.future.get_loop()
        loop.call_soon_threadsafe(self.pending.set_partial, self.item_index, text)
        return self.is_waiting()


class Batcher:
    """The queue of one model and the threads that run its batches."""

    def __init__(
        self,
        name: str,
        settings: ServerSettings,
        metrics: ServerMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._settings, self._metrics, self._clock = settings, metrics, clock
        self._queue: dict[PendingRequest, None] = {}
        self._queued_tokens: Counter[Hashable] = Counter()  # by kind
        self._batch_ends: list[float] = []  # when the batches of the threads are expected to end
        self._reserved = 0.0  # seconds of requests that are being prepared
        self._throughput = Throughput(settings.batch_tokens, settings.timeout * BATCH_SHARE)
        metrics.queued.labels(name).set_function(lambda: len(self._queue))
        metrics.backlog.labels(name).set_function(self.backlog)
        self._arrival = asyncio.Event()
        self._threads = ThreadPoolExecutor(settings.workers, thread_name_prefix=f"regard-{name}")
        self.stopped = False  # whether no further batch is run
        self._last_batch_requests = 1
        self._last_kind: Hashable = None

    def __len__(self) -> int:
        return len(self._queue)

    def backlog(self) -> float:
        """Seconds that all admitted requests are expected to take."""
        queued = sum(self._throughput.seconds(*one) for one in self._queued_tokens.items())
        return self._running() + (queued + self._reserved) / self._settings.workers

    def _running(self) -> float:
        """Seconds until a thread is free, on average."""
        now = self._clock()
        return sum(max(0.0, end - now) for end in self._batch_ends) / self._settings.workers

    def check(self, seconds: float, deadline: float) -> None:
        """Raise an error with status 503 if so many seconds of work cannot be done by a deadline.

        What finds nothing before it is admitted, until others come: an estimate may be wrong.
        """
        backlog = self.backlog()
        last_batch = self._throughput.batch_seconds(self._last_kind)  # it is answered at its end
        late = (backlog + seconds) * SAFETY + last_batch - (deadline - self._clock())
        if backlog and late > 0:
            raise overloaded(min(late, backlog))
        if len(self._queue) >= self._settings.queue:
            message = f"the queue is full: {len(self._queue)} requests wait; try again soon"
            raise RequestError(503, message, retry_after=backlog)

    @contextmanager
    def reserve(self, seconds: float) -> Iterator[None]:
        """Counts work that is being prepared as admitted."""
        self._reserved += seconds
        try:
            yield
        finally:
            self._reserved -= seconds

    def submit(
        self, function: BatchFunction, items: Sequence[Any], costs: Sequence[int], deadline: float
    ) -> PendingRequest:
        """Queue a request; an error with status 503 if it cannot be answered by its deadline."""
        seconds, now = self.seconds(function, costs), self._clock()
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        order, too_long = now + STRETCH * seconds, now + seconds / self._settings.workers > deadline
        pending = PendingRequest(function, items, costs, future, now, deadline, order, too_long)
        if not items:
            future.set_result([])
            return pending
        self.check(seconds, deadline)
        future.add_done_callback(lambda _: self._remove(pending))
        self._queue[pending] = None
        self._count(pending, pending.tokens_left)
        self._arrival.set()
        return pending

    def seconds(self, function: BatchFunction, costs: Sequence[int]) -> float:
        """How long these items are expected to take; 0 if nothing is known."""
        return self._throughput.seconds(function.kind, sum(costs))

    async def run(self) -> None:
        """Run batches until cancelled, as many at a time as there are workers."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._settings.workers):
                    group.create_task(self._run_batches())
        finally:
            self.stopped = True

    async def _run_batches(self) -> None:
        while True:
            await self._wait_for_requests()
            if batch := self._next_batch():
                await self._run_batch(batch)

    def close(self) -> None:
        """Let the threads end after their current batches."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _remove(self, pending: PendingRequest) -> None:
        if pending in self._queue:
            del self._queue[pending]
            self._count(pending, -pending.tokens_left)

    def _count(self, pending: PendingRequest, tokens: int) -> None:
        """Count tokens that are queued, or no longer, as work that others wait for."""
        if not pending.on_trial:
            self._queued_tokens[pending.function.kind] += tokens

    async def _wait_for_requests(self) -> None:
        """Wait for a first request and, within its window, for a full batch."""
        while not self._queue:
            self._arrival.clear()
            await self._arrival.wait()
        num_windows = min(self._last_batch_requests, MAX_WINDOWS)
        deadline = next(iter(self._queue)).arrival_time + num_windows * self._settings.window
        while self._queue and not self._batch_is_full():
            remaining = deadline - self._clock()
            if remaining <= 0:
                return
            self._arrival.clear()
            try:
                await asyncio.wait_for(self._arrival.wait(), remaining)
            except TimeoutError:
                return

    def _batch_is_full(self) -> bool:
        """Whether as many requests are queued as the last batch had, or as many tokens as fit."""
        if len(self._queue) >= self._last_batch_requests > 1:
            return True
        return self._queued_tokens.total() >= self._settings.batch_tokens

    def _next_batch(self) -> list[BatchSlot]:
        """The next batch: the items of the first request and of others with the same function, in
        order, until it is full.
        """
        by_deadline, spare = self._in_time()
        if not by_deadline:
            return []
        ordered = sorted(by_deadline, key=lambda one: one.order)
        if spare < self._throughput.batch_seconds(ordered[0].function.kind):
            ordered = by_deadline
        function, batch = ordered[0].function, list[BatchSlot]()
        tokens_left = self._throughput.batch_limit(function.kind)
        for pending in ordered:
            if pending.function != function:
                continue
            while pending.num_batched < len(pending.items) and (tokens_left > 0 or not batch):
                batch.append(BatchSlot(pending, pending.num_batched))
                cost = pending.costs[pending.num_batched]
                tokens_left -= cost
                pending.num_batched += 1
                pending.tokens_left -= cost
                self._count(pending, -cost)
            if pending.num_batched == len(pending.items):
                self._remove(pending)
            if tokens_left <= 0:
                break
        return batch

    def _in_time(self) -> tuple[list[PendingRequest], float]:
        """The requests by deadline, and the least seconds that one has to spare; those that can no
        longer be answered in time are refused, unless nothing else waits.
        """
        now, begin, all_end = self._clock(), self._running(), self.backlog()
        kept, spare = list[PendingRequest](), self._settings.timeout
        for pending in sorted(self._queue, key=lambda one: one.deadline):
            kind, workers = pending.function.kind, self._settings.workers
            end = begin + self._throughput.seconds(kind, pending.tokens_left) / workers
            batch_end = min(end + self._throughput.batch_seconds(kind), max(end, all_end))
            late = now + batch_end - pending.deadline
            if late > 0 and len(self._queue) > 1:
                self._remove(pending)
                pending.future.set_exception(overloaded(min(late, all_end)))
            else:
                kept.append(pending)
                begin, spare = end, min(spare, -late)
        return kept, spare

    async def _run_batch(self, batch: list[BatchSlot]) -> None:
        """Run a batch in a thread and hand out its answers."""
        started = self._clock()
        kind = self._last_kind = batch[0].pending.function.kind
        self._metrics.batches.labels(self.name).observe(len(batch))
        num_tokens = sum(pending.costs[index] for pending, index in batch)
        expected_end = started + self._throughput.seconds(kind, num_tokens)
        self._batch_ends.append(expected_end)
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._threads, answer_batch, batch)
        finally:
            self._batch_ends.remove(expected_end)
        elapsed = self._clock() - started
        self._throughput.observe(kind, num_tokens, elapsed)
        self._metrics.batch_seconds.labels(self.name).observe(elapsed)
        self._metrics.tokens.labels(self.name).inc(num_tokens)
        self._last_batch_requests = len({slot.pending for slot in batch})
        for (pending, index), answer in zip(batch, answers, strict=True):
            failed = isinstance(answer, Exception)
            answer = self._client_error(answer, pending.function) if failed else answer
            pending.set_answer(index, answer)

    def _client_error(self, error: Exception, function: BatchFunction) -> RequestError:
        """An error as the client sees it, without the paths of the model's files."""
        if not isinstance(error, RegardError):
            log_error("a batch failed", error, model=self.name)
            return RequestError(500, "internal error; see the server's log")
        message = str(error)
        for folder in function.translator.folders:
            message = message.replace(str(folder), self.name)
        return RequestError(400, message)


def overloaded(seconds: float) -> RequestError:
    """The error of a request that has a chance in so many seconds."""
    message = "more is asked of the model than it can answer in time; try again later, or send less"
    return RequestError(503, message, retry_after=seconds)


def answer_batch(batch: Sequence[BatchSlot]) -> list[Any]:
    """The answer to each item of a batch, or the exception that it raised.

    If the batch fails, each request is run alone, so that only the faulty ones get an error.
    """
    items = [pending.items[index] for pending, index in batch]
    try:
        answers = batch[0].pending.function(items, batch)
        if len(answers) != len(batch):
            raise ValueError(f"{len(answers)} answers to {len(batch)} items")
        return answers
    except Exception as error:
        requests = {slot.pending for slot in batch}
        if len(requests) == 1:
            return [error] * len(batch)
        by_slot: dict[BatchSlot, Any] = {}
        for pending in requests:
            own = [slot for slot in batch if slot.pending is pending]
            by_slot |= dict(zip(own, answer_batch(own), strict=True))
        return [by_slot[slot] for slot in batch]
