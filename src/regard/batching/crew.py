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

from regard.batching.processes import Caller, GoneError, Process

JobT = TypeVar("JobT")
DoneT = TypeVar("DoneT")

PAYS = 3.0
"""Seconds of work, ahead or in all that was asked so far, from which helpers are started; until one
is ready takes about two."""
QUIETLY = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Memory that was given back is asked for again at the next step: keep it.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
"""The surroundings of a helper."""


class Helper(Generic[JobT, DoneT]):
    """Another process that answers jobs, as the function does that `make()` gives there."""

    def __init__(self, make: Callable[[], Callable[[JobT], DoneT]]) -> None:
        self._process = Process(__name__, QUIETLY)
        self._process.tell(make)

    def ask(self, job: JobT) -> DoneT:
        """What it makes of the job; an error of its own is raised here, or a GoneError."""
        self._process.tell(job)
        answer = self._process.hear()
        if isinstance(answer, Exception):
            raise answer
        done: DoneT = answer
        return done

    def close(self) -> None:
        """End it."""
        self._process.close()


def answer() -> None:
    """Be a helper: answer jobs until there are no more; one that cannot get ready ends."""
    caller = Caller()
    work = caller.hear()()
    while True:
        job = caller.hear()
        try:
            done = work(job)
        except Exception as error:  # it is for whoever asked
            done = error
        caller.tell(done)


class Crew(Generic[JobT, DoneT]):
    """This process and some helpers, who do the same with a job; they stay ready for more."""

    def __init__(self, make: Callable[[], Callable[[JobT], DoneT]], helpers: int) -> None:
        self._make, self._size = make, helpers
        self._helpers: list[Helper[JobT, DoneT]] = []
        self._busy = threading.Lock()
        self._spent = 0.0  # seconds, on jobs that could have been shared

    @property
    def started(self) -> bool:
        """Whether there are helpers by now."""
        return bool(self._helpers)

    def close(self) -> None:
        """End all helpers."""
        for helper in self._helpers:
            helper.close()
        self._helpers.clear()

    def share(self, jobs: Sequence[JobT], here: Callable[[JobT], DoneT]) -> list[DoneT]:
        """What becomes of each job, in order; `here` is what helpers are to do, done here.

        Who does what depends on how fast each is; the first error ends it all. Helpers that are
        not there yet are started as soon as the jobs done here show that it pays, or behind them,
        for next time, once all that was ever asked for shows it.
        """
        if not self._busy.acquire(blocking=False):  # another thread has the helpers
            return [here(job) for job in jobs]
        try:
            return self._share(jobs, here)
        except BaseException:  # Ctrl-C too: nobody must go on with what is left
            self.close()
            raise
        finally:
            self._busy.release()

    def _start(self) -> None:
        self._helpers = [Helper(self._make) for _ in range(self._size)]

    def _share(self, jobs: Sequence[JobT], here: Callable[[JobT], DoneT]) -> list[DoneT]:
        work: _Shared[JobT, DoneT] = _Shared(jobs)
        threads = [work.follow(helper) for helper in self._helpers]
        began = time.monotonic()
        while (place := work.take()) is not None:
            work.done[place] = here(jobs[place])
            ahead = (time.monotonic() - began) * len(work.waiting) / len(work.done)
            if not self._helpers and ahead > PAYS:
                self._start()
                threads = [work.follow(helper) for helper in self._helpers]
        for thread in threads:
            thread.join()
        self._helpers = [one for one in self._helpers if one not in work.lost]
        self._spent += time.monotonic() - began if len(jobs) > 1 else 0.0
        if not self._helpers and not work.lost and self._spent > PAYS:
            self._start()
        if work.failures:
            raise work.failures[0]
        for place in work.returned:  # by helpers that were lost
            work.done[place] = here(jobs[place])
        return [work.done[place] for place in range(len(jobs))]


class _Shared(Generic[JobT, DoneT]):
    """Jobs that several take from."""

    def __init__(self, jobs: Sequence[JobT]) -> None:
        self.jobs = jobs
        self.waiting = deque(range(len(jobs)))
        self.done: dict[int, DoneT] = {}
        self.failures: list[Exception] = []
        self.lost: list[Helper[JobT, DoneT]] = []
        self.returned: list[int] = []

    def take(self) -> int | None:
        """The next job's place; None: there is none, or one has failed."""
        try:
            return None if self.failures else self.waiting.popleft()
        except IndexError:
            return None

    def follow(self, helper: Helper[JobT, DoneT]) -> threading.Thread:
        """A thread in which the helper is asked for one job after another."""

        def ask() -> None:
            while (place := self.take()) is not None:
                try:
                    self.done[place] = helper.ask(self.jobs[place])
                except GoneError:
                    self.lost.append(helper)
                    self.returned.append(place)
                    return
                except Exception as error:
                    self.failures.append(error)
                    return

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        return thread
