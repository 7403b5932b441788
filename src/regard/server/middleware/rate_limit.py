"""How many requests a minute one client may send."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from regard.server.errors import RequestError, too_many_requests

MINUTE = 60.0
MAX_CLIENTS = 10_000
"""Clients that are remembered; those that were silent the longest are forgotten."""
MAX_ADDRESS_CHARACTERS = 64
"""Characters of an address that is none, as a proxy may name one."""
IPV6_PREFIX_BITS = 64
"""Bits of an IPv6 address that tell clients apart: one has all addresses that begin with them."""


class TokenBucket(NamedTuple):
    """The requests that a client may still send, and when that was counted."""

    tokens: float
    updated: float


class RateLimit:
    """Token buckets: `limit` requests at once, and again as many over each minute."""

    def __init__(self, limit: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._clients: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    def consume(self, client: str) -> None:
        """Count a request of a client; a refusal if it has sent too many."""
        if self._limit is None:
            return
        now, rate = self._clock(), self._limit / MINUTE
        known = self._clients.pop(client, TokenBucket(self._limit, now))
        tokens = min(self._limit, known.tokens + (now - known.updated) * rate)
        allowed = tokens >= 1
        self._clients[client] = TokenBucket(tokens - allowed, now)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        if not allowed:
            raise self._too_many_requests((1 - tokens) / rate)

    def _too_many_requests(self, seconds: float) -> RequestError:
        return too_many_requests(f"Slowdown: {self._limit} requests a minute are allowed", seconds)


def client_address(address: str) -> str:
    """What clients at an address are told apart by."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:MAX_ADDRESS_CHARACTERS]
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped or ipaddress.ip_network((int(found), IPV6_PREFIX_BITS), strict=False))
    return str(found)
