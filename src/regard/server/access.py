"""API keys and the rate limit: which requests are answered."""

import hmac
import ipaddress
import os
import time
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path

from fastapi import Request

from regard.errors import SettingsError
from regard.server.errors import RequestError

KEYS_VARIABLE = "REGARD_API_KEYS"  # environment variable: keys separated by commas or spaces
MIN_KEY_CHARACTERS = 16
MINUTE = 60.0
MAX_CLIENTS = 10_000  # clients whose requests are counted; beyond, the least recent is forgotten
MAX_ADDRESS_CHARACTERS = 64  # length to which a malformed address, as a proxy may send one, is cut
IPV6_PREFIX_BITS = 64  # a client has all IPv6 addresses with the same first bits


class RateLimit:
    """At most `limit` requests at once, and `limit` a minute over time (GCRA); None: no limit."""

    def __init__(self, limit: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._paid_until: dict[str, float] = {}  # theoretical arrival times

    def __len__(self) -> int:
        return len(self._paid_until)

    def consume(self, client: str) -> None:
        """Count a request of a client; an error with status 429 if it has sent too many."""
        if self._limit is None:
            return
        now, interval = self._clock(), MINUTE / self._limit
        paid_until = max(now, self._paid_until.pop(client, now))
        wait = paid_until + interval - now - MINUTE
        allowed = wait < 1e-6  # a sum of `limit` intervals may be a minute and a rounding error
        self._paid_until[client] = paid_until + interval * allowed
        if len(self._paid_until) > MAX_CLIENTS:
            del self._paid_until[next(iter(self._paid_until))]
        if not allowed:
            message = f"Slowdown: {self._limit} requests a minute are allowed"
            raise RequestError(429, message, retry_after=wait)


class Access:
    """Checks the key of a request and counts it against the rate limit of its client."""

    def __init__(self, keys: Iterable[str], rate_limit: int | None) -> None:
        self._digests = tuple({_digest(key) for key in keys})
        self._limit = RateLimit(rate_limit)

    @property
    def needs_key(self) -> bool:
        """Whether there are keys; without any, requests need no key."""
        return bool(self._digests)

    def is_known(self, key: str) -> bool:
        """Whether the key is valid; compares all digests, so that timing reveals no key."""
        given = _digest(key)
        return sum([hmac.compare_digest(given, known) for known in self._digests]) > 0

    def authorize(self, request: Request, key: str | None = None, *, counted: bool = True) -> None:
        """Raise an error if a key is needed and the given one is not valid, or after too many
        requests. These are counted by valid key, and otherwise by address.
        """
        given = key or bearer_token(request)
        valid = self.is_known(given)
        if counted:
            # uvicorn has replaced this with X-Forwarded-For if a proxy on this machine sent it
            address = request.client.host if request.client else ""
            client = f"key {_digest(given).hex()}" if valid else client_address(address)
            self._limit.consume(client)
        if valid or not self.needs_key:
            return
        if given:
            raise RequestError(403, "Invalid API key")
        message = "this server needs an API key: send it as api_key or as Authorization: Bearer"
        raise RequestError(401, message, {"WWW-Authenticate": "Bearer"})


def _digest(key: str) -> bytes:
    return sha256(key.encode(errors="surrogatepass")).digest()


def bearer_token(request: Request) -> str:
    """The key in the Authorization header, or an empty string."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def client_address(address: str) -> str:
    """The name under which an address is counted: for IPv6 its network."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:MAX_ADDRESS_CHARACTERS]
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    network = ipaddress.ip_network((int(parsed), IPV6_PREFIX_BITS), strict=False)
    return str(parsed.ipv4_mapped or network)


def read_keys(file: Path | None) -> list[str]:
    """The keys of a file, one a line with `#` for comments, and those of the environment."""
    in_environment = os.environ.get(KEYS_VARIABLE, "").replace(",", " ").split()
    _check_lengths(in_environment, KEYS_VARIABLE)
    if file is None:
        return in_environment
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--keys {file}: cannot be read: {error}") from None
    in_file = [key for line in lines if (key := line.split("#")[0].strip())]
    if not in_file:
        advice = "write one on each line, or leave out --keys"
        raise SettingsError(f"--keys {file}: has no keys: {advice}")
    _check_lengths(in_file, str(file))
    return in_environment + in_file


def _check_lengths(keys: Iterable[str], origin: str) -> None:
    """Raise an error if a key is too short."""
    for number, key in enumerate(keys, 1):
        if len(key) < MIN_KEY_CHARACTERS:
            raise SettingsError(
                f"{origin}: key {number} has {len(key)} characters, but {MIN_KEY_CHARACTERS} are "
                "needed: make one with: openssl rand -hex 24"
            )
