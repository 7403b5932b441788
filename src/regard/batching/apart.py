"""Work that goes on in a process of its own, where it does not hold up this one's threads."""

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

from regard.batching.processes import Caller, GoneError, Process

S = TypeVar("S")
T = TypeVar("T")

Gone = Callable[[int], Exception]
"""Makes an error of the status of a process that ended before its time."""


class End(NamedTuple):
    """Behind the last item: why there is none, if it is an error."""

    reason: BaseException | None


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
        workers = [started.enter_context(contextlib.closing(_Worker[T](gone))) for _ in makes]
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
            if isinstance(item, End):
                if item.reason is not None:
                    raise item.reason
                return
            yield item


class _Worker(Generic[T]):
    """One other process."""

    def __init__(self, gone: Gone) -> None:
        self._process, self._gone = Process(__name__), gone
        self.tell, self.close = self._process.tell, self._process.close

    def prepare(self, make: Callable[..., Iterator[T]]) -> None:
        """Say what to make, and wait until that is understood: it may take many imports."""
        self.tell(make)
        end: End = self.receive()
        if end.reason is not None:
            raise end.reason

    def receive(self) -> Any:
        """What it answers next."""
        try:
            return self._process.hear()
        except GoneError as error:
            raise self._gone(error.status) from None


def answer() -> None:
    """Be the other process: send what is asked for, until it ends or nobody hears it any more."""
    caller, end = Caller(), End(None)
    try:
        make = caller.hear()
        caller.tell(End(None))  # of the preparations
        for item in make(*caller.hear()):
            caller.tell(item)
    except Exception as error:  # it is for whoever waits for the next item
        end = End(error)
    caller.tell(end)
