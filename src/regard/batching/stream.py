"""An endless stream of training batches that can be taken up again at any point."""

import queue
import threading
from collections.abc import Generator, Iterator
from typing import NamedTuple, TypeVar

from regard.batching.apart import End
from regard.batching.collate import collate
from regard.batching.drawing import Drawn, Position
from regard.batching.plan import plan_once
from regard.corpora.store import TokenStore
from regard.types import Batch

T = TypeVar("T")


class Placed(NamedTuple):
    """A batch, and the position behind it."""

    batch: Batch
    after: Position


def collated(stream: Iterator[Drawn]) -> Iterator[Placed]:
    """A stream of pairs as batches."""
    for drawn in stream:
        yield Placed(collate(*drawn.pairs), drawn.after)


def held_out_batches(store: TokenStore, *, budget: int) -> Iterator[Batch]:
    """Every pair of a store once, shortest first."""
    lengths = store.lengths()
    for rows in plan_once(lengths.source + 1, lengths.target + 1, budget=budget):
        yield collate(*store.take(rows))


def ahead(items: Iterator[T], depth: int) -> Generator[T, None, None]:
    """The same items, up to `depth` of them made by a thread before they are asked for."""
    ready: queue.Queue[T | End] = queue.Queue(depth)
    stop = threading.Event()
    worker = threading.Thread(target=_fill, args=(ready, items, stop), daemon=True)
    worker.start()
    try:
        while not isinstance(item := ready.get(), End):
            yield item
        if item.reason is not None:
            raise item.reason
    finally:
        stop.set()
        worker.join()


def _fill(ready: "queue.Queue[T | End]", items: Iterator[T], stop: threading.Event) -> None:
    """Put `items` and an end into the queue, waiting while it is full, until told to stop."""
    end = End(None)
    try:
        for item in items:
            if not _put(ready, item, stop):
                return
    except BaseException as error:  # it is for whoever waits for the next item
        end = End(error)
    _put(ready, end, stop)


def _put(ready: "queue.Queue[T | End]", item: T | End, stop: threading.Event) -> bool:
    """Whether the item went in before `stop` was set."""
    while not stop.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
