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
from regard.serving.server.logs import log_error
from regard.serving.server.metrics import Metrics
from regard.serving.server.refusals import RequestError, busy
from regard.serving.server.settings import ServerSettings
from regard.serving.translator import Translator

MOST_WINDOWS = 20
"""Windows that a request waits for others, at most."""
Progress = Callable[[int, str], None]
"""Told the place of an item in its request, and its translation so far; called by the worker."""


class Crowd(Protocol):
    """Those who wait for the items of a batch, by the items' numbers in it."""

    def waits(self, number: int, /) -> bool:
        """Whether anyone still waits for an item: who leaves, leaves the batch."""
        ...

    def tell(self, number: int, text: str, /) -> bool:
        """Say what there is of an answer so far; whether anyone still waits for it."""
        ...


class Task(Protocol):
    """What is to be done with items; items of equal tasks may be done together."""

    def __call__(self, translator: Translator, items: Sequence[Any], crowd: Crowd, /) -> list[Any]:
        """The answer to each item, in order; any for one that nobody waits for."""
        ...

    def __hash__(self) -> int: ...


@dataclass(eq=False)
class Job:
    """The items of one request, and what has become of them."""

    task: Task
    items: Sequence[Any]
    costs: Sequence[int]
    """Of each item, in tokens."""
    done: "asyncio.Future[list[Any]]"
    """The answers to all items; cancelling it takes the job out of the queue."""
    progress: Progress | None = None
    arrived: float = 0.0
    """When, by the gatherer's clock."""
    taken: int = 0
    """Items that a batch has been made of."""
    answers: dict[int, Any] = field(default_factory=dict)

    def receive(self, place: int, answer: Any) -> None:
        """Keep an answer; the last one settles the job."""
        self.answers[place] = answer
        if len(self.answers) == len(self.items) and not self.done.done():
            self.done.set_result([self.answers[number] for number in range(len(self.items))])


class Share(NamedTuple):
    """An item in a batch, and whose it is."""

    job: Job
    place: int

    @property
    def item(self) -> Any:
        return self.job.items[self.place]


class Batch:
    """The crowd that waits for some shares."""

    def __init__(self, shares: Sequence[Share]) -> None:
        self._shares = shares

    def waits(self, number: int, /) -> bool:
        return not self._shares[number].job.done.done()

    def tell(self, number: int, text: str, /) -> bool:
        job, place = self._shares[number]
        if job.progress is not None:
            job.progress(place, text)
        return self.waits(number)


class Gatherer:
    """The queue of one model, and the thread that empties it."""

    def __init__(
        self,
        name: str,
        translator: Translator,
        settings: ServerSettings,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.translator = name, translator
        self._settings, self._metrics, self._clock = settings, metrics, clock
        self._waiting: deque[Job] = deque()
        self._come = asyncio.Event()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"regard-{name}")
        self._company = 1
        """Jobs in the last batch."""
        self._rate = 0.0
        """Seconds that a job took of late, for those who are told when to come again."""

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(
        self,
        task: Task,
        items: Sequence[Any],
        costs: Sequence[int],
        progress: Progress | None = None,
    ) -> Job:
        """A job in the queue; an error if the queue is full."""
        if len(self._waiting) >= self._settings.queue:
            raise busy(
                f"{len(self._waiting)} requests wait already, and no more may; try again soon",
                self._rate * len(self._waiting),
            )
        done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        job = Job(task, items, costs, done, progress, self._clock())
        if not items:
            done.set_result([])
            return job
        done.add_done_callback(lambda _: self._leave(job))
        self._waiting.append(job)
        self._count()
        self._come.set()
        return job

    async def run(self) -> None:
        """Translate batch after batch, for ever."""
        while True:
            await self._gather()
            batch = self._take()
            if batch:
                await self._translate(batch)

    def close(self) -> None:
        """Let the thread end once it has done what it is doing."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _blame(self, error: Exception) -> RequestError:
        """What a client is told of an error: its own fault, or ours; not where our files lie."""
        if not isinstance(error, RegardError):
            log_error("a batch failed", error, model=self.name)
            return RequestError(500, "the server made a mistake; its log says where")
        message = str(error)
        for folder in self.translator.folders:
            message = message.replace(str(folder), self.name)
        return RequestError(400, message)

    def _leave(self, job: Job) -> None:
        if job in self._waiting:
            self._waiting.remove(job)
            self._count()

    def _count(self) -> None:
        self._metrics.waiting.labels(self.name).set(len(self._waiting))

    async def _gather(self) -> None:
        """Wait for a first job and, within its window, for as many as a batch can hold."""
        while not self._waiting:
            self._come.clear()
            await self._come.wait()
        windows = min(self._company, MOST_WINDOWS)
        closes = self._waiting[0].arrived + windows * self._settings.window
        while self._waiting and not self._full():
            left = closes - self._clock()
            if left <= 0:
                return
            self._come.clear()
            try:
                await asyncio.wait_for(self._come.wait(), left)
            except TimeoutError:
                return

    def _full(self) -> bool:
        """Whether all are there who came together the last time, or more than a batch can hold."""
        if len(self._waiting) >= self._company > 1:
            return True
        waiting = sum(sum(job.costs[job.taken :]) for job in self._waiting)
        return waiting >= self._settings.batch_tokens

    def _take(self) -> list[Share]:
        """The next batch: one item of each job with the first one's task, again and again.

        So a request of a thousand lines holds up none of a single one. Jobs that have items left
        go behind the others.
        """
        if not self._waiting:
            return []
        room, batch = self._settings.batch_tokens, []
        alike = [job for job in self._waiting if job.task == self._waiting[0].task]
        while alike and room > 0:
            for job in alike:
                if room > 0:
                    batch.append(Share(job, job.taken))
                    room -= job.costs[job.taken]
                    job.taken += 1
            alike = [job for job in alike if job.taken < len(job.items)]
        for job in dict.fromkeys(share.job for share in batch):
            self._waiting.remove(job)
            if job.taken < len(job.items):
                self._waiting.append(job)
        self._count()
        return batch

    async def _translate(self, batch: list[Share]) -> None:
        """Hand a batch to the thread, and its answers to those who wait for them."""
        loop, began = asyncio.get_running_loop(), self._clock()
        self._metrics.batches.labels(self.name).observe(len(batch))
        answers = await loop.run_in_executor(self._worker, answer_batch, self.translator, batch)
        took = self._clock() - began
        self._metrics.batch_seconds.labels(self.name).observe(took)
        self._metrics.tokens.labels(self.name).inc(
            sum(share.job.costs[share.place] for share in batch)
        )
        self._company = len({id(share.job) for share in batch})
        self._rate += 0.2 * (took / self._company - self._rate)
        for share, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                if not share.job.done.done():
                    share.job.done.set_exception(self._blame(answer))
            else:
                share.job.receive(share.place, answer)


def answer_batch(translator: Translator, batch: Sequence[Share]) -> list[Any]:
    """The answer to each item of a batch, or the error that it made.

    Where one fails, each request is tried alone, so that no one pays for another's.
    """
    try:
        answers = batch[0].job.task(translator, [share.item for share in batch], Batch(batch))
        if len(answers) != len(batch):
            raise ValueError(f"{len(answers)} answers to {len(batch)} items")
        return answers
    except Exception as error:
        alone: dict[int, list[int]] = {}
        for number, share in enumerate(batch):
            alone.setdefault(id(share.job), []).append(number)
        if len(alone) == 1:
            return [error] * len(batch)
        every: list[Any] = [None] * len(batch)
        for numbers in alone.values():
            found = answer_batch(translator, [batch[number] for number in numbers])
            for number, answer in zip(numbers, found, strict=True):
                every[number] = answer
        return every
