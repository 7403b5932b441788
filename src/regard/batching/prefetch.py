"""Streams of collated batches, made by a thread before they are needed."""

import queue
import threading
from collections.abc import Generator, Iterator
from typing import NamedTuple, TypeVar

from regard.batching.collate import collate
from regard.batching.sampler import SampledPairs, StreamPosition, length_sorted_batches
from regard.corpora.token_store import TokenStore
from regard.types import Batch

T = TypeVar("T")


class PositionedBatch(NamedTuple):
    """A batch, and the position behind it."""

    batch: Batch
    next_position: StreamPosition


def collate_stream(stream: Iterator[SampledPairs]) -> Iterator[PositionedBatch]:
    """The batches of a stream of pairs."""
    for pairs, next_position in stream:
        yield PositionedBatch(collate(*pairs), next_position)


def held_out_batches(store: TokenStore, *, budget: int) -> Iterator[Batch]:
    """Every pair of a store once, shortest first."""
    lengths = store.lengths()
    for rows in length_sorted_batches(lengths.source + 1, lengths.target + 1, budget=budget):
        yield collate(*store.take(rows))


class _End(NamedTuple):
    """Behind the last item: the error of the iterator, if it failed."""

    error: BaseException | None


def prefetch(items: Iterator[T], depth: int) -> Generator[T, None, None]:
    """The same items, up to `depth` of them made by a thread before they are needed."""
    queued: queue.Queue[T | _End] = queue.Queue(depth)
    stop = threading.Event()

    def put(item: T | _End) -> bool:
        """Whether the item was queued before `stop` was set."""
        while not stop.is_set():
            try:
                queued.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def produce() -> None:
        try:
            stopped = not all(map(put, items))
            error = None
        except BaseException as raised:  # the consumer raises it
            stopped, error = False, raised
        if not stopped:
            put(_End(error))

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        while not isinstance(item := queued.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        thread.join()
