"""Streams, some items at a time."""

import random
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def chunked(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`; the last may be shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def reservoir_sample(items: Iterable[T], limit: int) -> list[T]:
    """At most `limit` of the items, each as likely as any other; the same ones every time."""
    picked: list[T] = []
    rng = random.Random(0)
    for num_seen, item in enumerate(items):
        if num_seen < limit:
            picked.append(item)
        elif (slot := rng.randrange(num_seen + 1)) < limit:
            picked[slot] = item
    return picked
