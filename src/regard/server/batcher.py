"""Requests of many users -> batches for one model.

All state lives on the event loop; only whole batches go to the model's one thread. While a batch
is being translated requests pile up, and together they are the next one: the busier the server,
the larger its batches. Clients that were answered together ask again nearly together, one after
the other; so after a batch of several the window is as many times as long, and ends when as many
are there. Who is alone waits for one window only.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from regard.errors import RegardError
from regard.pipelines.translator import Translator
from regard.server.errors import RequestError, service_unavailable
from regard.server.logs import log_error
from regard.server.metrics import ServerMetrics
from regard.server.settings import ServerSettings

MAX_WINDOWS = 20
"""Windows that a request waits for others, at most."""
PartialCallback = Callable[[int, str], None]
"""Told the place of an item in its request, and its translation so far; called by the worker."""


class Waiters(Protocol):
    """Those who wait for the items of a batch, by the items' numbers in it."""

    def is_waiting(self, number: int, /) -> bool:
        """Whether anyone still waits for an item: who leaves, leaves the batch."""
        ...

    def send_partial(self, number: int, text: str, /) -> bool:
        """Say what there is of an answer so far; whether anyone still waits for it."""
        ...


class BatchFunction(Protocol):
    """What is to be done with items; items of equal tasks may be done together."""

    def __call__(
        self, translator: Translator, items: Sequence[Any], waiters: Waiters, /
    ) -> list[Any]:
        """The answer to each item, in order; any for one that nobody waits for."""
        ...

    def __hash__(self) -> int: ...


@dataclass(eq=False)
class PendingRequest:
    """The items of one request, and what has become of them."""

    function: BatchFunction
    items: Sequence[Any]
    costs: Sequence[int]
    """Of each item, in tokens."""
    done: "asyncio.Future[list[Any]]"
    """The answers to all items; cancelling it takes the job out of the queue."""
    on_partial: PartialCallback | None = None
    arrival_time: float = 0.0
    """When, by the gatherer's clock."""
    num_batched: int = 0
    """Items that a batch has been made of."""
    answers: dict[int, Any] = field(default_factory=dict)

    def set_answer(self, index: int, answer: Any) -> None:
        """Keep an answer; the last one settles the job."""
        self.answers[index] = answer
        if len(self.answers) == len(self.items) and not self.done.done():
            self.done.set_result([self.answers[number] for number in range(len(self.items))])


class BatchSlot(NamedTuple):
    """An item in a batch, and whose it is."""

    pending: PendingRequest
    position: int

    @property
    def item(self) -> Any:
        return self.pending.items[self.position]


class BatchWaiters:
    """The crowd that waits for some shares."""

    def __init__(self, slots: Sequence[BatchSlot]) -> None:
        self._slots = slots

    def is_waiting(self, number: int, /) -> bool:
        return not self._slots[number].pending.done.done()

    def send_partial(self, number: int, text: str, /) -> bool:
        pending, index = self._slots[number]
        if pending.on_partial is not None:
            pending.on_partial(index, text)
        return self.is_waiting(number)


class Batcher:
    """The queue of one model, and the thread that empties it."""

    def __init__(
        self,
        name: str,
        translator: Translator,
        settings: ServerSettings,
        metrics: ServerMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.translator = name, translator
        self._settings, self._metrics, self._clock = settings, metrics, clock
        self._queue: deque[PendingRequest] = deque()
        self._arrival = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"regard-{name}")
        self._last_batch_requests = 1
        """Jobs in the last batch."""
        self._seconds_per_request = 0.0
        """Seconds that a job took of late, for those who are told when to come again."""

    def __len__(self) -> int:
        return len(self._queue)

    def submit(
        self,
        function: BatchFunction,
        items: Sequence[Any],
        costs: Sequence[int],
        on_partial: PartialCallback | None = None,
    ) -> PendingRequest:
        """A job in the queue; an error if the queue is full."""
        if len(self._queue) >= self._settings.queue:
            raise service_unavailable(
                f"{len(self._queue)} requests wait already, and no more may; try again soon",
                self._seconds_per_request * len(self._queue),
            )
        done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        pending = PendingRequest(function, items, costs, done, on_partial, self._clock())
        if not items:
            done.set_result([])
            return pending
        done.add_done_callback(lambda _: self._remove(pending))
        self._queue.append(pending)
        self._update_queue_metric()
        self._arrival.set()
        return pending

    async def run(self) -> None:
        """Translate batch after batch, for ever."""
        while True:
            await self._wait_for_requests()
            batch = self._next_batch()
            if batch:
                await self._run_batch(batch)

    def close(self) -> None:
        """Let the thread end once it has done what it is doing."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _client_error(self, error: Exception) -> RequestError:
        """What a client is told of an error: its own fault, or ours; not where our files lie."""
        if not isinstance(error, RegardError):
            log_error("a batch failed", error, model=self.name)
            return RequestError(500, "the server made a mistake; its log says where")
        message = str(error)
        for folder in self.translator.folders:
            message = message.replace(str(folder), self.name)
        return RequestError(400, message)

    def _remove(self, pending: PendingRequest) -> None:
        if pending in self._queue:
            self._queue.remove(pending)
            self._update_queue_metric()

    def _update_queue_metric(self) -> None:
        self._metrics.queued.labels(self.name).set(len(self._queue))

    async def _wait_for_requests(self) -> None:
        """Wait for a first job and, within its window, for as many as a batch can hold."""
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
        """Whether all are there who came together the last time, or more than a batch can hold."""
        if len(self._queue) >= self._last_batch_requests > 1:
            return True
        queued = sum(sum(pending.costs[pending.num_batched :]) for pending in self._queue)
        return queued >= self._settings.batch_tokens

    def _next_batch(self) -> list[BatchSlot]:
        """The next batch: one item of each job with the first one's task, again and again.

        So a request of a thousand lines holds up none of a single one. Jobs that have items left
        go behind the others.
        """
        if not self._queue:
            return []
        tokens_left, batch = self._settings.batch_tokens, []
        compatible = [
            pending for pending in self._queue if pending.function == self._queue[0].function
        ]
        while compatible and tokens_left > 0:
            for pending in compatible:
                if tokens_left > 0:
                    batch.append(BatchSlot(pending, pending.num_batched))
                    tokens_left -= pending.costs[pending.num_batched]
                    pending.num_batched += 1
            compatible = [
                pending for pending in compatible if pending.num_batched < len(pending.items)
            ]
        for pending in dict.fromkeys(slot.pending for slot in batch):
            self._queue.remove(pending)
            if pending.num_batched < len(pending.items):
                self._queue.append(pending)
        self._update_queue_metric()
        return batch

    async def _run_batch(self, batch: list[BatchSlot]) -> None:
        """Hand a batch to the thread, and its answers to those who wait for them."""
        loop, started = asyncio.get_running_loop(), self._clock()
        self._metrics.batches.labels(self.name).observe(len(batch))
        answers = await loop.run_in_executor(self._thread, answer_batch, self.translator, batch)
        elapsed = self._clock() - started
        self._metrics.batch_seconds.labels(self.name).observe(elapsed)
        self._metrics.tokens.labels(self.name).inc(
            sum(slot.pending.costs[slot.position] for slot in batch)
        )
        self._last_batch_requests = len({id(slot.pending) for slot in batch})
        self._seconds_per_request += 0.2 * (
            elapsed / self._last_batch_requests - self._seconds_per_request
        )
        for slot, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                if not slot.pending.done.done():
                    slot.pending.done.set_exception(self._client_error(answer))
            else:
                slot.pending.set_answer(slot.position, answer)


def answer_batch(translator: Translator, batch: Sequence[BatchSlot]) -> list[Any]:
    """The answer to each item of a batch, or the error that it made.

    Where one fails, each request is tried alone, so that no one pays for another's.
    """
    try:
        answers = batch[0].pending.function(
            translator, [slot.item for slot in batch], BatchWaiters(batch)
        )
        if len(answers) != len(batch):
            raise ValueError(f"{len(answers)} answers to {len(batch)} items")
        return answers
    except Exception as error:
        by_request: dict[int, list[int]] = {}
        for number, slot in enumerate(batch):
            by_request.setdefault(id(slot.pending), []).append(number)
        if len(by_request) == 1:
            return [error] * len(batch)
        collected: list[Any] = [None] * len(batch)
        for numbers in by_request.values():
            found = answer_batch(translator, [batch[number] for number in numbers])
            for number, answer in zip(numbers, found, strict=True):
                collected[number] = answer
        return collected
