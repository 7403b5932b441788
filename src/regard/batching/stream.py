"""An endless stream of training batches that can be taken up again at any point."""

import itertools
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.batching.collate import collate
from regard.batching.plan import plan_epoch, plan_once
from regard.corpora.pairs import Pair
from regard.corpora.store import Lengths, TokenPair, TokenStore
from regard.types import Batch

T = TypeVar("T")

SampleTokens = Callable[[Sequence[Pair], int], Sequence[TokenPair]]
"""Texts and a seed -> their tokens, cut at random."""


class Position(NamedTuple):
    """A place in the stream: what comes next is batch `batch` of epoch `epoch`, from 0."""

    epoch: int
    batch: int


class Turn(NamedTuple):
    """Which batches one of several makers makes: of each `of`, the one numbered `number`."""

    number: int
    of: int


EVERY = Turn(0, 1)


class Placed(NamedTuple):
    """A batch, and the position behind it."""

    batch: Batch
    after: Position


def training_batches(
    store: TokenStore,
    start: Position,
    *,
    budget: int,
    seed: int,
    max_tokens: int,
    sample: SampleTokens | None = None,
    turn: Turn = EVERY,
) -> Iterator[Placed]:
    """Batches from `start` on, for ever: the same ones whenever it is asked with the same seed.

    Pairs with a side of more than `max_tokens` tokens are left out. With `sample`, the tokens of
    each batch are cut afresh from the stored text; the batch's place in the stream is the seed of
    that too. With a `turn`, the batches that come at these turns alone.
    """
    lengths = store.lengths()
    fitting = np.flatnonzero(fits(lengths, max_tokens))
    source, target = lengths.source[fitting] + 1, lengths.target[fitting] + 1  # with EOS or BOS
    epoch, first = start
    turns = itertools.count()
    while True:
        plan = plan_epoch(source, target, budget=budget, seed=seed, epoch=epoch)
        for number in range(first, len(plan)):
            if next(turns) % turn.of != turn.number:
                continue
            rows = fitting[plan[number]]
            if sample is None:
                pairs: Sequence[TokenPair] = store.take(rows)
            else:
                draw = np.random.default_rng([seed, epoch, number]).integers(1 << 30)
                pairs = sample(store.texts(rows), int(draw))
            last = number + 1 == len(plan)
            after = Position(epoch + 1, 0) if last else Position(epoch, number + 1)
            yield Placed(collate(*zip(*pairs, strict=True)), after)
        epoch, first = epoch + 1, 0


def fits(lengths: Lengths, max_tokens: int) -> NDArray[np.bool_]:
    """Which pairs have no side of more than `max_tokens` tokens, EOS or BOS not counted."""
    return np.maximum(lengths.source, lengths.target) <= max_tokens


def held_out_batches(store: TokenStore, *, budget: int) -> Iterator[Batch]:
    """Every pair of a store once, shortest first."""
    lengths = store.lengths()
    for rows in plan_once(lengths.source + 1, lengths.target + 1, budget=budget):
        yield collate(*zip(*store.take(rows), strict=True))


def ahead(items: Iterator[T], depth: int) -> Generator[T, None, None]:
    """The same items, up to `depth` of them made by a thread before they are asked for."""
    ready: queue.Queue[T | _End] = queue.Queue(depth)
    stop = threading.Event()
    worker = threading.Thread(target=_fill, args=(ready, items, stop), daemon=True)
    worker.start()
    try:
        while not isinstance(item := ready.get(), _End):
            yield item
        if item.reason is not None:
            raise item.reason
    finally:
        stop.set()
        worker.join()


class _End(NamedTuple):
    """Behind the last item: why there is none, if it is an error."""

    reason: BaseException | None


def _fill(ready: "queue.Queue[T | _End]", items: Iterator[T], stop: threading.Event) -> None:
    """Put `items` and an end into the queue, waiting while it is full, until told to stop."""
    end = _End(None)
    try:
        for item in items:
            if not _put(ready, item, stop):
                return
    except BaseException as error:  # it is for whoever waits for the next item
        end = _End(error)
    _put(ready, end, stop)


def _put(ready: "queue.Queue[T | _End]", item: T | _End, stop: threading.Event) -> bool:
    """Whether the item went in before `stop` was set."""
    while not stop.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
