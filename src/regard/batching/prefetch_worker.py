"""Work that goes on in a process of its own, where it does not hold up this one's threads."""

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

from regard.batching.subprocess_rpc import ParentPipe, WorkerDiedError, WorkerProcess

S = TypeVar("S")
T = TypeVar("T")

ExitErrorFactory = Callable[[int], Exception]
"""Makes an error of the status of a process that ended before its time."""


class EndOfItems(NamedTuple):
    """Behind the last item: why there is none, if it is an error."""

    error_if_any: BaseException | None


def iterate_in_workers(
    factories: Sequence[Callable[[], Iterator[T]]], exit_error: ExitErrorFactory
) -> Generator[T, None, None]:
    """The items of each `make()` in turn, each made by a process of its own, till one has no more.

    `makes` and the items must be picklable. All processes are started when the first item is asked
    for.
    """
    with _start_workers(factories, exit_error) as workers:
        yield from workers.items()


def start_then_hand_over(
    make_here: Callable[[S], Iterator[T]],
    make_in_worker: Sequence[Callable[[S], Iterator[T]]],
    start: S,
    position_after: Callable[[T], S],
    exit_error: ExitErrorFactory,
) -> Generator[T, None, None]:
    """The items of `here(start)`, of which this process makes only the first ones.

    Meanwhile others start, as by `apart`. When they are ready they are told what is `behind` the
    last item and go on from there, in turn: together they make what `here` would.
    """
    with _start_workers(make_in_worker, exit_error) as workers:
        for item in make_here(start):
            yield item
            start = position_after(item)
            if workers.ready():
                yield from workers.items(start)
                return


@contextlib.contextmanager
def _start_workers(
    factories: Sequence[Callable[..., Iterator[T]]], exit_error: ExitErrorFactory
) -> "Iterator[_RoundRobin[T]]":
    """Processes that get ready to make something; they are ended with the context."""
    with ThreadPoolExecutor(len(factories)) as pool, contextlib.ExitStack() as started:
        workers = [
            started.enter_context(contextlib.closing(_Worker[T](exit_error))) for _ in factories
        ]
        yield _RoundRobin(
            workers, [pool.submit(w.prepare, x) for w, x in zip(workers, factories, strict=True)]
        )


class _RoundRobin(NamedTuple, Generic[T]):
    """Processes that take turns."""

    workers_in_turn: "Sequence[_Worker[T]]"
    preparations: "Sequence[Future[None]]"

    def ready(self) -> bool:
        """Whether all could begin at once, or one never will."""
        return all(one.done() for one in self.preparations)

    def items(self, *start: Any) -> Iterator[T]:
        """What they make in turn from `start` on, till one has no more."""
        for one in self.preparations:
            one.result()
        for worker in self.workers_in_turn:
            worker.send(start)
        for worker in itertools.cycle(self.workers_in_turn):
            item = worker.receive()
            if isinstance(item, EndOfItems):
                if item.error_if_any is not None:
                    raise item.error_if_any
                return
            yield item


class _Worker(Generic[T]):
    """One other process."""

    def __init__(self, exit_error: ExitErrorFactory) -> None:
        self._process, self._exit_error = WorkerProcess(__name__), exit_error
        self.send, self.close = self._process.send, self._process.close

    def prepare(self, factory: Callable[..., Iterator[T]]) -> None:
        """Say what to make, and wait until that is understood: it may take many imports."""
        self.send(factory)
        end: EndOfItems = self.receive()
        if end.error_if_any is not None:
            raise end.error_if_any

    def receive(self) -> Any:
        """What it answers next."""
        try:
            return self._process.receive()
        except WorkerDiedError as error:
            raise self._exit_error(error.status) from None


def answer() -> None:
    """Be the other process: send what is asked for, until it ends or nobody hears it any more."""
    parent, end = ParentPipe(), EndOfItems(None)
    try:
        factory = parent.receive()
        parent.send(EndOfItems(None))  # of the preparations
        for item in factory(*parent.receive()):
            parent.send(item)
    except Exception as error:  # it is for whoever waits for the next item
        end = EndOfItems(error)
    parent.send(end)
