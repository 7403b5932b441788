"""Prefetches the items of an iterator, by a thread or by worker processes."""

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

from regard.batching.worker_pool import Worker, WorkerDiedError

S = TypeVar("S")
T = TypeVar("T")

ITEMS_AHEAD = 4  # items that a worker makes before they are needed


class _EndOfItems:
    """Comes after the last item."""


def prefetch(items: Iterator[T], depth: int) -> Generator[T, None, None]:
    """The same items, up to `depth` of which are prefetched by a thread."""
    thread, end = ThreadPoolExecutor(1), _EndOfItems()
    try:
        pending = deque(thread.submit(next, items, end) for _ in range(depth))
        while not isinstance(item := pending.popleft().result(), _EndOfItems):
            pending.append(thread.submit(next, items, end))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)


def start_then_hand_over(
    make_here: Callable[[S], Iterator[T]],
    make_in_worker: Sequence[Callable[[S], Iterator[T]]],
    start: S,
    position_after: Callable[[T], S],
    exit_error: Callable[[int], Exception],
) -> Generator[T, None, None]:
    """The items of `make_here(start)`, the first of which are made in this process while workers
    start. When the workers are ready, they continue in turn from the position after the last item.
    Functions and items must be picklable. `exit_error` turns the exit status of a dead worker into
    an error.
    """
    with contextlib.ExitStack() as stack:
        threads = [stack.enter_context(ThreadPoolExecutor(1)) for _ in make_in_worker]
        makers = (partial(_ItemMaker, make) for make in make_in_worker)
        workers = [stack.enter_context(contextlib.closing(Worker(maker))) for maker in makers]
        turns = list(zip(workers, threads, strict=True))
        ready = [thread.submit(worker.wait_until_ready) for worker, thread in turns]
        for item in make_here(start):
            yield item
            start = position_after(item)
            if all(future.done() for future in ready):  # an error is raised with the next item
                break
        else:
            return
        pending: deque[Future[T | _EndOfItems]] = deque()
        pending.extend(thread.submit(worker.request, (start,)) for worker, thread in turns)
        for _ in range(ITEMS_AHEAD):
            pending.extend(thread.submit(worker.request, None) for worker, thread in turns)
        for worker, thread in itertools.cycle(turns):
            try:
                made = pending.popleft().result()
            except WorkerDiedError as error:
                raise exit_error(error.status) from None
            if isinstance(made, _EndOfItems):
                return
            pending.append(thread.submit(worker.request, None))
            yield made


class _ItemMaker(Generic[S, T]):
    """In a worker: the items of an iterator, one for each job."""

    def __init__(self, make: Callable[[S], Iterator[T]]) -> None:
        self._make = make

    def __call__(self, start: tuple[S] | None) -> T | _EndOfItems:
        """The next item; the first job has the position to start from."""
        if start is not None:
            self._items = self._make(*start)
        return next(self._items, _EndOfItems())
