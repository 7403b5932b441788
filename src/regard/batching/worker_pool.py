"""Worker processes: a single one, and a pool that shares jobs with this process.

A worker is a subprocess that reads jobs and writes results as pickles through stdin and stdout.
Unlike multiprocessing it never imports the caller's main script, and it ends with its parent.
"""

import contextlib
import operator
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import IO, Any, Generic, TypeVar

T = TypeVar("T")
JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

SAME_ENV: Mapping[str, str] = MappingProxyType({})
COMMAND = f"from {__name__} import worker_main; worker_main()"
MIN_SECONDS = 3.0  # of work left in a call, or done in all calls, that justify workers
WORKER_ENV = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Keep freed memory, which the next step allocates again.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}


class WorkerDiedError(Exception):
    """A worker process has ended unexpectedly, with this exit `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with status {status}")
        self.status = status


class Worker(Generic[JobT, ResultT]):
    """Another process, which does jobs with the function that `factory()` returns there."""

    def __init__(
        self,
        factory: Callable[[], Callable[[JobT], ResultT]],
        extra_env: Mapping[str, str] = SAME_ENV,
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | dict(extra_env),
        )
        self._terminate = weakref.finalize(self, _terminate, self._process)
        self._is_ready = False
        self._send(factory)

    def wait_until_ready(self) -> None:
        """Wait until `factory()` has returned there, which may involve many imports."""
        if not self._is_ready:
            self._receive()
            self._is_ready = True

    def request(self, job: JobT) -> ResultT:
        """The result of a job; raises the job's own error, or a WorkerDiedError."""
        self.wait_until_ready()
        self._send(job)
        result: ResultT | Exception = self._receive()
        if isinstance(result, Exception):
            raise result
        return result

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the process."""
        self._terminate()

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # the worker has ended, which `_receive` reports next
            _send(message, self._process.stdin)

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        try:
            return pickle.load(self._process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):  # ValueError: it was closed
            raise WorkerDiedError(self._process.wait()) from None


def _terminate(process: "subprocess.Popen[bytes]") -> None:
    process.kill()  # a thread that waits for a result then gets a WorkerDiedError
    process.wait()
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(BrokenPipeError):  # of a message that was not read
            if stream is not None:
                stream.close()


def run_in_worker(function: Callable[[], T]) -> T:
    """The result of `function()` in a new process; raises its error, or a WorkerDiedError."""
    with contextlib.closing(Worker(_call_jobs)) as worker:
        result: T = worker.request(function)
        return result


def _call_jobs() -> Callable[[Callable[[], Any]], Any]:
    return operator.call


def worker_main() -> None:
    """Run in the worker process: do jobs until the parent ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # of its process group; the parent ends it
        signal.signal(number, signal.SIG_IGN)
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keeps jobs' prints out of results
    try:
        work = pickle.load(sys.stdin.buffer)()
        _send(None, results)
        while True:
            job = pickle.load(sys.stdin.buffer)
            try:
                result = work(job)
            except Exception as error:
                result = error
            _send(result, results)
    except (EOFError, BrokenPipeError):  # the parent has ended
        os._exit(0)  # without flushing `results`, which would fail


def _send(message: object, stream: IO[bytes]) -> None:
    pickle.dump(message, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


class WorkerPool(Generic[JobT, ResultT]):
    """Shares jobs between this process and worker processes, which stay for later calls.

    For short operations, two processes are faster than two threads, which would wait for each
    other.
    """

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
        """The result of each job, in order; `run_here` does a job in this process.

        Workers are started as soon as the time of the jobs done here shows that it is worthwhile,
        or after a call, for the next one. The first error ends the call; jobs of workers that die
        are done here.
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
        feeders = [queue.start_feeder(worker) for worker in self._workers]
        began = time.monotonic()
        while (index := queue.take()) is not None:
            queue.results[index] = run_here(jobs[index])
            seconds_left = (time.monotonic() - began) * len(queue.pending) / len(queue.results)
            if not self._workers and seconds_left > MIN_SECONDS:
                self._start()
                feeders = [queue.start_feeder(worker) for worker in self._workers]
        for feeder in feeders:
            feeder.join()
        had_workers = self.started
        self._workers = [worker for worker in self._workers if worker.is_alive]
        self._seconds_here += time.monotonic() - began if len(jobs) > 1 else 0.0
        if not had_workers and self._seconds_here > MIN_SECONDS:
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
                self.pending.append(index)
                return
            except Exception as error:
                self.errors.append(error)
                return
