"""Streams, some items at a time."""

import random
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def chunked(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`; the last may be shorter."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def pick(items: Iterable[T], limit: int) -> list[T]:
    """At most `limit` of the items, each as likely as any other; the same ones every time."""
    picked: list[T] = []
    chance = random.Random(0)
    for before, item in enumerate(items):
        if before < limit:
            picked.append(item)
        elif (place := chance.randrange(before + 1)) < limit:
            picked[place] = item
    return picked
