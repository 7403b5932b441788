"""Work that goes on in a process of its own, where it does not hold up this one's threads.

It is a plain subprocess, told by its standard input what to make and answering on its standard
output. Unlike multiprocessing it never runs the caller's own script again, and a caller that is
killed leaves nothing behind: it ends when nobody reads from it any more.
"""

import contextlib
import itertools
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, Generic, NamedTuple, Self, TypeVar

S = TypeVar("S")
T = TypeVar("T")

Gone = Callable[[int], Exception]
"""Makes an error of the status of a process that ended before its time."""


class _End(NamedTuple):
    """Behind the last item: why there is none, if it is an error."""

    reason: Exception | None


def apart(makes: Sequence[Callable[[], Iterator[T]]], gone: Gone) -> Generator[T, None, None]:
    """The items of each `make()` in turn, each made by a process of its own, till one has no more.

    `makes` and the items must be picklable. All processes are started when the first item is asked
    for.
    """
    with _started(makes, gone) as workers:
        yield from workers.items()


def relieved(
    here: Callable[[S], Iterator[T]],
    others: Sequence[Callable[[S], Iterator[T]]],
    start: S,
    behind: Callable[[T], S],
    gone: Gone,
) -> Generator[T, None, None]:
    """The items of `here(start)`, of which this process makes only the first ones.

    Meanwhile others start, as by `apart`. When they are ready they are told what is `behind` the
    last item and go on from there, in turn: together they make what `here` would.
    """
    with _started(others, gone) as workers:
        for item in here(start):
            yield item
            start = behind(item)
            if workers.ready():
                yield from workers.items(start)
                return


@contextlib.contextmanager
def _started(makes: Sequence[Callable[..., Iterator[T]]], gone: Gone) -> "Iterator[_Workers[T]]":
    """Processes that get ready to make something; they are ended with the context."""
    with ThreadPoolExecutor(len(makes)) as pool, contextlib.ExitStack() as started:
        workers = [started.enter_context(_Worker[T](gone)) for _ in makes]
        yield _Workers(
            workers, [pool.submit(w.prepare, x) for w, x in zip(workers, makes, strict=True)]
        )


class _Workers(NamedTuple, Generic[T]):
    """Processes that take turns."""

    each: "Sequence[_Worker[T]]"
    prepared: "Sequence[Future[None]]"

    def ready(self) -> bool:
        """Whether all could begin at once, or one never will."""
        return all(one.done() for one in self.prepared)

    def items(self, *start: Any) -> Iterator[T]:
        """What they make in turn from `start` on, till one has no more."""
        for one in self.prepared:
            one.result()
        for worker in self.each:
            worker.tell(start)
        for worker in itertools.cycle(self.each):
            item = worker.receive()
            if isinstance(item, _End):
                if item.reason is not None:
                    raise item.reason
                return
            yield item


class _Worker(Generic[T]):
    """One other process."""

    def __init__(self, gone: Gone) -> None:
        self._gone = gone
        command = [sys.executable, "-c", f"from {__name__} import answer; answer()"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None  # as asked for
        assert self._process.stdout is not None
        self._told, self._answers = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()  # before what a thread may wait for is closed
        self._process.wait()
        self._answers.close()
        with contextlib.suppress(BrokenPipeError):
            self._told.close()

    def prepare(self, make: Callable[..., Iterator[T]]) -> None:
        """Say what to make, and wait until that is understood: it may take many imports."""
        self.tell(make)
        end: _End = self.receive()
        if end.reason is not None:
            raise end.reason

    def tell(self, something: object) -> None:
        with contextlib.suppress(BrokenPipeError):  # it is gone, as will be found when it is asked
            _send(something, self._told)

    def receive(self) -> Any:
        """What it answers next."""
        try:
            return pickle.load(self._answers)
        except (EOFError, pickle.UnpicklingError):
            raise self._gone(self._process.wait()) from None


def answer() -> None:
    """Be the other process: send what is asked for, until it ends or nobody reads it any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it will end it
    answers, end = os.fdopen(os.dup(sys.stdout.fileno()), "wb"), _End(None)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else is printed is no answer
    try:
        make = pickle.load(sys.stdin.buffer)
        _send(_End(None), answers)  # of the preparations
        start = _hear()
        for item in make(*start):
            _send(item, answers)
    except BrokenPipeError:
        os._exit(0)  # no last flush, which would complain
    except Exception as error:  # it is for whoever waits for the next item
        end = _End(error)
    _send(end, answers)


def _hear() -> Any:
    """What comes next from whoever started this process; it ends if nobody is there any more."""
    try:
        return pickle.load(sys.stdin.buffer)
    except EOFError:
        os._exit(0)


def _send(something: object, where: IO[bytes]) -> None:
    pickle.dump(something, where, pickle.HIGHEST_PROTOCOL)
    where.flush()
