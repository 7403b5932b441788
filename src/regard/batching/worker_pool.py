"""Work shared with other processes, each with what it needs loaded once.

Two processes with a thread each do more than one with two threads, where operations are short: the
threads would wait for each other behind every one of them. The helpers answer one job after
another, and end when nobody asks them any more.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from regard.batching.subprocess_rpc import ParentPipe, WorkerDiedError, WorkerProcess

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

MIN_SECONDS = 3.0
"""Seconds of work, ahead or in all that was asked so far, from which helpers are started; until one
is ready takes about two."""
WORKER_ENV = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Memory that was given back is asked for again at the next step: keep it.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
"""The surroundings of a helper."""


class PoolWorker(Generic[JobT, ResultT]):
    """Another process that answers jobs, as the function does that `make()` gives there."""

    def __init__(self, factory: Callable[[], Callable[[JobT], ResultT]]) -> None:
        self._process = WorkerProcess(__name__, WORKER_ENV)
        self._process.send(factory)

    def request(self, job: JobT) -> ResultT:
        """What it makes of the job; an error of its own is raised here, or a GoneError."""
        self._process.send(job)
        answer = self._process.receive()
        if isinstance(answer, Exception):
            raise answer
        done: ResultT = answer
        return done

    def close(self) -> None:
        """End it."""
        self._process.close()


def answer() -> None:
    """Be a helper: answer jobs until there are no more; one that cannot get ready ends."""
    parent = ParentPipe()
    work = parent.receive()()
    while True:
        job = parent.receive()
        try:
            done = work(job)
        except Exception as error:  # it is for whoever asked
            done = error
        parent.send(done)


class WorkerPool(Generic[JobT, ResultT]):
    """This process and some helpers, who do the same with a job; they stay ready for more."""

    def __init__(self, factory: Callable[[], Callable[[JobT], ResultT]], num_workers: int) -> None:
        self._factory, self._size = factory, num_workers
        self._workers: list[PoolWorker[JobT, ResultT]] = []
        self._in_use = threading.Lock()
        self._seconds_here = 0.0  # seconds, on jobs that could have been shared

    @property
    def started(self) -> bool:
        """Whether there are helpers by now."""
        return bool(self._workers)

    def close(self) -> None:
        """End all helpers."""
        for worker in self._workers:
            worker.close()
        self._workers.clear()

    def map_jobs(self, jobs: Sequence[JobT], run_here: Callable[[JobT], ResultT]) -> list[ResultT]:
        """What becomes of each job, in order; `here` is what helpers are to do, done here.

        Who does what depends on how fast each is; the first error ends it all. Helpers that are
        not there yet are started as soon as the jobs done here show that it pays, or behind them,
        for next time, once all that was ever asked for shows it.
        """
        if not self._in_use.acquire(blocking=False):  # another thread has the helpers
            return [run_here(job) for job in jobs]
        try:
            return self._map_with_workers(jobs, run_here)
        except BaseException:  # Ctrl-C too: nobody must go on with what is left
            self.close()
            raise
        finally:
            self._in_use.release()

    def _start(self) -> None:
        self._workers = [PoolWorker(self._factory) for _ in range(self._size)]

    def _map_with_workers(
        self, jobs: Sequence[JobT], run_here: Callable[[JobT], ResultT]
    ) -> list[ResultT]:
        work: _JobQueue[JobT, ResultT] = _JobQueue(jobs)
        threads = [work.start_feeder(worker) for worker in self._workers]
        began = time.monotonic()
        while (index := work.take()) is not None:
            work.done[index] = run_here(jobs[index])
            seconds_left = (time.monotonic() - began) * len(work.pending) / len(work.done)
            if not self._workers and seconds_left > MIN_SECONDS:
                self._start()
                threads = [work.start_feeder(worker) for worker in self._workers]
        for thread in threads:
            thread.join()
        self._workers = [one for one in self._workers if one not in work.dead_workers]
        self._seconds_here += time.monotonic() - began if len(jobs) > 1 else 0.0
        if not self._workers and not work.dead_workers and self._seconds_here > MIN_SECONDS:
            self._start()
        if work.failures:
            raise work.failures[0]
        for index in work.jobs_of_dead:  # by helpers that were lost
            work.done[index] = run_here(jobs[index])
        return [work.done[index] for index in range(len(jobs))]


class _JobQueue(Generic[JobT, ResultT]):
    """Jobs that several take from."""

    def __init__(self, jobs: Sequence[JobT]) -> None:
        self.jobs = jobs
        self.pending = deque(range(len(jobs)))
        self.done: dict[int, ResultT] = {}
        self.failures: list[Exception] = []
        self.dead_workers: list[PoolWorker[JobT, ResultT]] = []
        self.jobs_of_dead: list[int] = []

    def take(self) -> int | None:
        """The next job's place; None: there is none, or one has failed."""
        try:
            return None if self.failures else self.pending.popleft()
        except IndexError:
            return None

    def start_feeder(self, worker: PoolWorker[JobT, ResultT]) -> threading.Thread:
        """A thread in which the helper is asked for one job after another."""

        def request() -> None:
            while (index := self.take()) is not None:
                try:
                    self.done[index] = worker.request(self.jobs[index])
                except WorkerDiedError:
                    self.dead_workers.append(worker)
                    self.jobs_of_dead.append(index)
                    return
                except Exception as error:
                    self.failures.append(error)
                    return

        thread = threading.Thread(target=request, daemon=True)
        thread.start()
        return thread
