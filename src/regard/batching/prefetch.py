"""An endless stream of training batches that can be taken up again at any point."""

import queue
import threading
from collections.abc import Generator, Iterator
from typing import NamedTuple, TypeVar

from regard.batching.batch_sampler import length_sorted_batches
from regard.batching.collate import collate
from regard.batching.prefetch_worker import EndOfItems
from regard.batching.sampler import SampledPairs, StreamPosition
from regard.corpora.token_store import TokenStore
from regard.types import Batch

T = TypeVar("T")


class PositionedBatch(NamedTuple):
    """A batch, and the position behind it."""

    batch: Batch
    next_position: StreamPosition


def collate_stream(stream: Iterator[SampledPairs]) -> Iterator[PositionedBatch]:
    """A stream of pairs as batches."""
    for drawn in stream:
        yield PositionedBatch(collate(*drawn.pairs), drawn.next_position)


def held_out_batches(store: TokenStore, *, budget: int) -> Iterator[Batch]:
    """Every pair of a store once, shortest first."""
    lengths = store.lengths()
    for rows in length_sorted_batches(lengths.source + 1, lengths.target + 1, budget=budget):
        yield collate(*store.take(rows))


def prefetch(items: Iterator[T], depth: int) -> Generator[T, None, None]:
    """The same items, up to `depth` of them made by a thread before they are asked for."""
    queued: queue.Queue[T | EndOfItems] = queue.Queue(depth)
    stop = threading.Event()
    worker = threading.Thread(target=_produce, args=(queued, items, stop), daemon=True)
    worker.start()
    try:
        while not isinstance(item := queued.get(), EndOfItems):
            yield item
        if item.error_if_any is not None:
            raise item.error_if_any
    finally:
        stop.set()
        worker.join()


def _produce(
    queued: "queue.Queue[T | EndOfItems]", items: Iterator[T], stop: threading.Event
) -> None:
    """Put `items` and an end into the queue, waiting while it is full, until told to stop."""
    end = EndOfItems(None)
    try:
        for item in items:
            if not _put(queued, item, stop):
                return
    except BaseException as error:  # it is for whoever waits for the next item
        end = EndOfItems(error)
    _put(queued, end, stop)


def _put(
    queued: "queue.Queue[T | EndOfItems]", item: T | EndOfItems, stop: threading.Event
) -> bool:
    """Whether the item went in before `stop` was set."""
    while not stop.is_set():
        try:
            queued.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
