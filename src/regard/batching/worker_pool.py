"""Jobs shared with worker processes, which load what they need once.

Two processes with a thread each do more than one with two threads where operations are short: the
threads would wait for each other after every operation.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic

from regard.batching.worker_process import JobT, ResultT, Worker, WorkerDiedError

MIN_SECONDS = 3.0
"""Seconds of work, ahead or in all calls so far, from which workers are started; one is ready after
about two."""
WORKER_ENV = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Keep freed memory, which the next step asks for again.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}


class WorkerPool(Generic[JobT, ResultT]):
    """This process and some workers, which do the same with a job; they stay for later calls."""

    def __init__(self, factory: Callable[[], Callable[[JobT], ResultT]], num_workers: int) -> None:
        self._factory, self._size = factory, num_workers
        self._workers: list[Worker[JobT, ResultT]] = []
        self._in_use = threading.Lock()
        self._seconds_here = 0.0  # spent on jobs that could have been shared

    @property
    def started(self) -> bool:
        """Whether there are workers."""
        return bool(self._workers)

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.close()
        self._workers.clear()

    def map_jobs(self, jobs: Sequence[JobT], run_here: Callable[[JobT], ResultT]) -> list[ResultT]:
        """The result of each job, in order; `run_here` does in this process what workers do.

        A job goes to whichever process is free; the first error ends the call. Workers are started
        as soon as the jobs done here show that it pays, or after a call, for the next one, once all
        calls so far show it. The jobs of workers that die are done here.
        """
        if not self._in_use.acquire(blocking=False):  # another thread uses the workers
            return [run_here(job) for job in jobs]
        try:
            return self._map_with_workers(jobs, run_here)
        except BaseException:  # Ctrl-C too: workers must not continue with other jobs
            self.close()
            raise
        finally:
            self._in_use.release()

    def _start(self) -> None:
        self._workers = [Worker(self._factory, WORKER_ENV) for _ in range(self._size)]

    def _map_with_workers(
        self, jobs: Sequence[JobT], run_here: Callable[[JobT], ResultT]
    ) -> list[ResultT]:
        queue: _JobQueue[JobT, ResultT] = _JobQueue(jobs)
        threads = [queue.start_feeder(worker) for worker in self._workers]
        began = time.monotonic()
        while (index := queue.take()) is not None:
            queue.results[index] = run_here(jobs[index])
            seconds_left = (time.monotonic() - began) * len(queue.pending) / len(queue.results)
            if not self._workers and seconds_left > MIN_SECONDS:
                self._start()
                threads = [queue.start_feeder(worker) for worker in self._workers]
        for thread in threads:
            thread.join()
        self._workers = [worker for worker in self._workers if worker not in queue.dead_workers]
        self._seconds_here += time.monotonic() - began if len(jobs) > 1 else 0.0
        if not self._workers and not queue.dead_workers and self._seconds_here > MIN_SECONDS:
            self._start()
        if queue.errors:
            raise queue.errors[0]
        while (index := queue.take()) is not None:  # what dead workers have left
            queue.results[index] = run_here(jobs[index])
        return [queue.results[index] for index in range(len(jobs))]


class _JobQueue(Generic[JobT, ResultT]):
    """Jobs that several processes take from."""

    def __init__(self, jobs: Sequence[JobT]) -> None:
        self.jobs = jobs
        self.pending = deque(range(len(jobs)))
        self.results: dict[int, ResultT] = {}
        self.errors: list[Exception] = []
        self.dead_workers: list[Worker[JobT, ResultT]] = []

    def take(self) -> int | None:
        """The index of the next job; None if there is none, or one has failed."""
        try:
            return None if self.errors else self.pending.popleft()
        except IndexError:
            return None

    def start_feeder(self, worker: Worker[JobT, ResultT]) -> threading.Thread:
        """Start a thread that gives the worker one job after another."""
        thread = threading.Thread(target=self._feed, args=(worker,), daemon=True)
        thread.start()
        return thread

    def _feed(self, worker: Worker[JobT, ResultT]) -> None:
        while (index := self.take()) is not None:
            try:
                self.results[index] = worker.request(self.jobs[index])
            except WorkerDiedError:
                self.dead_workers.append(worker)
                self.pending.append(index)
                return
            except Exception as error:
                self.errors.append(error)
                return
