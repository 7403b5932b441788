"""Streams: chunks, random samples, progress."""

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Track(Protocol):
    """Yields the items of a list, and shows progress."""

    def __call__(self, items: Sequence[T], /) -> Iterable[T]: ...


def untracked(items: Sequence[T], /) -> Sequence[T]:
    """The items, without showing progress."""
    return items


def chunked(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`; the last may be shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def peek(items: Iterable[T], count: int) -> tuple[list[T], Iterator[T]]:
    """The first `count` items, and all of them."""
    iterator = iter(items)
    first = list(islice(iterator, count))
    return first, chain(first, iterator)


class Reservoir(Generic[T]):
    """A uniform random sample of `size` items of a stream (Vitter 1985, algorithm R)."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size, self.items = size, list[T]()
        self._rng, self._num_seen = random.Random(seed), 0

    def offer(self, item: T) -> None:
        """Add the next item of the stream."""
        self._num_seen += 1
        if len(self.items) < self.size:
            self.items.append(item)
        elif (slot := self._rng.randrange(self._num_seen)) < self.size:
            self.items[slot] = item


def reservoir_sample(items: Iterable[T], limit: int) -> list[T]:
    """A uniform sample of at most `limit` of the items, the same every time."""
    reservoir = Reservoir[T](limit)
    for item in items:
        reservoir.offer(item)
    return reservoir.items
