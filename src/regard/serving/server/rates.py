"""How many requests a minute one client may send."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from regard.serving.server.refusals import RequestError, slow_down

MINUTE = 60.0
MOST_CLIENTS = 10_000
"""Clients that are remembered; those that were silent the longest are forgotten."""
MAX_NAME = 64
"""Characters of an address that is none, as a proxy may name one."""
NETWORK = 64
"""Bits of an IPv6 address that tell clients apart: one has all addresses that begin with them."""


class Bucket(NamedTuple):
    """The requests that a client may still send, and when that was counted."""

    left: float
    counted: float


class RateLimit:
    """Token buckets: `limit` requests at once, and again as many over each minute."""

    def __init__(self, limit: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._clients: OrderedDict[str, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    def count(self, client: str) -> None:
        """Count a request of a client; a refusal if it has sent too many."""
        if self._limit is None:
            return
        now, rate = self._clock(), self._limit / MINUTE
        known = self._clients.pop(client, Bucket(self._limit, now))
        left = min(self._limit, known.left + (now - known.counted) * rate)
        enough = left >= 1
        self._clients[client] = Bucket(left - enough, now)
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        if not enough:
            raise self._refusal((1 - left) / rate)

    def _refusal(self, seconds: float) -> RequestError:
        return slow_down(f"Slowdown: {self._limit} requests a minute are allowed", seconds)


def address_name(address: str) -> str:
    """What clients at an address are told apart by."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:MAX_NAME]
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped or ipaddress.ip_network((int(found), NETWORK), strict=False))
    return str(found)
