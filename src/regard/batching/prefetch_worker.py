"""Iterators that run in worker processes, where they do not hold up the threads of this one."""

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

from regard.batching.worker_process import Worker, WorkerDiedError

S = TypeVar("S")
T = TypeVar("T")

ExitErrorFactory = Callable[[int], Exception]
"""Makes an error of the exit status of a worker that ended before its time."""
ITEMS_AHEAD = 4
"""Items that a worker makes before they are needed."""


def iterate_in_workers(
    factories: Sequence[Callable[[], Iterator[T]]], exit_error: ExitErrorFactory
) -> Generator[T, None, None]:
    """The items of each `factory()` in turn, each in a worker of its own, until one has no more.

    Factories and items must be picklable. All workers are started with the first item.
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
    """The items of `make_here(start)`, the first of which are made in this process.

    Meanwhile workers start. When they are ready they continue, in turn, from the position after the
    last item: together they make the items that `make_here` would.
    """
    with _start_workers(make_in_worker, exit_error) as workers:
        for item in make_here(start):
            yield item
            start = position_after(item)
            if workers.ready():
                yield from workers.items(start)
                return


class _EndOfItems:
    """A worker's result behind its last item."""


class _ItemMaker(Generic[T]):
    """In a worker: the items of an iterator, one for each job."""

    def __init__(self, factory: Callable[..., Iterator[T]]) -> None:
        self._factory = factory

    def __call__(self, start: tuple[Any, ...] | None) -> T | _EndOfItems:
        """The next item; the first job has the arguments of the factory."""
        if start is not None:
            self._items = self._factory(*start)
        return next(self._items, _EndOfItems())


class _Workers(Generic[T]):
    """Workers that take turns, each with a thread that waits for its results."""

    def __init__(
        self,
        workers: Sequence[Worker[tuple[Any, ...] | None, T | _EndOfItems]],
        threads: Sequence[ThreadPoolExecutor],
        exit_error: ExitErrorFactory,
    ) -> None:
        self._workers, self._threads, self._exit_error = workers, threads, exit_error
        both = zip(workers, threads, strict=True)
        self._ready = [thread.submit(worker.wait_until_ready) for worker, thread in both]

    def ready(self) -> bool:
        """Whether all could begin at once, or one has failed."""
        return all(future.done() for future in self._ready)

    def items(self, *start: Any) -> Iterator[T]:
        """The items of all workers in turn, each started with `start`, until one has no more."""
        pending: deque[Future[T | _EndOfItems]] = deque()
        both = list(zip(self._workers, self._threads, strict=True))
        pending.extend(thread.submit(worker.request, start) for worker, thread in both)
        for _ in range(ITEMS_AHEAD):
            pending.extend(thread.submit(worker.request, None) for worker, thread in both)
        for worker, thread in itertools.cycle(both):
            try:
                item = pending.popleft().result()
            except WorkerDiedError as error:
                raise self._exit_error(error.status) from None
            if isinstance(item, _EndOfItems):
                return
            pending.append(thread.submit(worker.request, None))
            yield item


@contextlib.contextmanager
def _start_workers(
    factories: Sequence[Callable[..., Iterator[T]]], exit_error: ExitErrorFactory
) -> Iterator[_Workers[T]]:
    """Workers that get ready; they are ended with the context."""
    with contextlib.ExitStack() as stack:
        threads = [stack.enter_context(ThreadPoolExecutor(1)) for _ in factories]
        makers = (partial(_ItemMaker, factory) for factory in factories)
        workers = [stack.enter_context(contextlib.closing(Worker(maker))) for maker in makers]
        yield _Workers(workers, threads, exit_error)
