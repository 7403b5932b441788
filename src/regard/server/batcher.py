"""Dynamic batching: concurrent requests -> batches for one model.

All state belongs to the event loop; only whole batches go to the model's threads, one for each
worker. Requests that arrive while all threads are busy form the next batch; a request that finds a
free thread waits a short window for others. Clients answered together tend to ask again at nearly
the same time, so after a batch of n requests the window is n times as long, and ends early when n
are queued.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from regard.errors import RegardError
from regard.pipelines.translator import Translator
from regard.server.errors import RequestError
from regard.server.settings import ServerSettings
from regard.server.telemetry import ServerMetrics, log_error

MAX_WINDOWS = 20  # windows that a request waits for others, at most
SMOOTHING = 0.2  # weight of the last batch in the moving average of seconds per request


@dataclass(frozen=True)
class BatchFunction(ABC):
    """The computation on items; items of equal functions may be in one batch."""

    translator: Translator  # the one that tokenized the items, even if the model was reloaded

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
    num_batched: int = 0  # items that were put into a batch
    answers: dict[int, Any] = field(default_factory=dict)
    partial_texts: dict[int, str] = field(default_factory=dict)  # by item, if streamed
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # set when a partial text changes

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
        self._queue: deque[PendingRequest] = deque()
        metrics.queued.labels(name).set_function(lambda: len(self._queue))
        self._arrival = asyncio.Event()
        self._threads = ThreadPoolExecutor(settings.workers, thread_name_prefix=f"regard-{name}")
        self.stopped = False  # whether no further batch is run
        self._last_batch_requests = 1
        self._seconds_per_request = 0.0

    def __len__(self) -> int:
        return len(self._queue)

    def submit(
        self, function: BatchFunction, items: Sequence[Any], costs: Sequence[int]
    ) -> PendingRequest:
        """Queue a request; an error with status 503 if the queue is full."""
        if len(self._queue) >= self._settings.queue:
            raise RequestError(
                503,
                f"the queue is full: {len(self._queue)} requests wait; try again soon",
                retry_after=self._seconds_per_request * len(self._queue),
            )
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        pending = PendingRequest(function, items, costs, future, self._clock())
        if not items:
            future.set_result([])
            return pending
        future.add_done_callback(lambda _: self._remove(pending))
        self._queue.append(pending)
        self._arrival.set()
        return pending

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
            self._queue.remove(pending)

    async def _wait_for_requests(self) -> None:
        """Wait for a first request and, within its window, for a full batch."""
        while not self._queue:
            self._arrival.clear()
            await self._arrival.wait()
        num_windows = min(self._last_batch_requests, MAX_WINDOWS)
        deadline = self._queue[0].arrival_time + num_windows * self._settings.window
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
        queued = sum(sum(pending.costs[pending.num_batched :]) for pending in self._queue)
        return queued >= self._settings.batch_tokens

    def _next_batch(self) -> list[BatchSlot]:
        """The next batch: one item of each request with the first one's function, in turn, until it
        is full, so that long requests do not delay short ones; unfinished ones are requeued.
        """
        tokens_left, batch = self._settings.batch_tokens, []
        compatible = [one for one in self._queue if one.function == self._queue[0].function]
        while compatible and tokens_left > 0:
            for pending in compatible:
                if tokens_left > 0:
                    batch.append(BatchSlot(pending, pending.num_batched))
                    tokens_left -= pending.costs[pending.num_batched]
                    pending.num_batched += 1
            compatible = [one for one in compatible if one.num_batched < len(one.items)]
        for pending in dict.fromkeys(slot.pending for slot in batch):
            self._queue.remove(pending)
            if pending.num_batched < len(pending.items):
                self._queue.append(pending)
        return batch

    async def _run_batch(self, batch: list[BatchSlot]) -> None:
        """Run a batch in a thread and hand out its answers."""
        started = self._clock()
        self._metrics.batches.labels(self.name).observe(len(batch))
        loop = asyncio.get_running_loop()
        answers = await loop.run_in_executor(self._threads, answer_batch, batch)
        elapsed = self._clock() - started
        self._metrics.batch_seconds.labels(self.name).observe(elapsed)
        num_tokens = sum(pending.costs[index] for pending, index in batch)
        self._metrics.tokens.labels(self.name).inc(num_tokens)
        self._last_batch_requests = len({slot.pending for slot in batch})
        per_request = elapsed / self._last_batch_requests
        self._seconds_per_request += SMOOTHING * (per_request - self._seconds_per_request)
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
