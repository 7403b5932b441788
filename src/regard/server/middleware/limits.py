"""How much may be sent, how slowly, and in whose name: layers around the application."""

import asyncio
import ipaddress
import re
import time
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.server.errors import RequestError, body_too_large, service_unavailable
from regard.server.settings import ServerSettings

MAX_DISCARDED_BYTES = 64 * 1024 * 1024
"""Bytes of an over-long body that are read and thrown away behind its refusal, so that a client
which sends all of it before it listens hears why it was refused."""


HOST = re.compile(r"(?P<name>[\w.-]+|\[[0-9a-fA-F:.]+\])?(?::\d{0,5})?", re.ASCII)
"""A Host header: a name or an address, and perhaps a port."""


class BodyLimits:
    """Refuses a body that is too long (413), comes too slowly (408), or for which there is no room
    beside those of the other requests under way (503).

    One whose head says that it will be too long is refused before any of it is read.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app, self._settings = app, settings
        self._held = MemoryBudget(max(settings.max_bytes_held, settings.max_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        reader = BodyReader(receive, Headers(scope=scope), self._settings, self._held)

        async def send_then_drain(message: Message) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body")
            if reader.refused and last:
                await send({**message, "more_body": True})
                await reader.drain()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        try:
            await self.app(scope, reader, send_then_drain)
        finally:
            reader.release()


class MemoryBudget:
    """The bytes of bodies that requests under way hold. What is made of a body takes some thirty
    times as much memory, and is let go with it."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self._bytes = capacity, 0

    def add(self, size: int) -> None:
        """Count some bytes; an error if there is no room for them."""
        if self._bytes + size > self._capacity:
            raise service_unavailable(
                "the server holds as many requests as it has memory for; try again soon", 1
            )
        self._bytes += size

    def remove(self, size: int) -> None:
        self._bytes -= size


class BodyReader:
    """A `receive` that counts."""

    def __init__(
        self, receive: Receive, headers: Headers, settings: ServerSettings, held: MemoryBudget
    ) -> None:
        self._receive, self._limit = receive, settings.max_bytes
        declared = headers.get("content-length", "")
        self._content_length = int(declared) if declared.isdecimal() else 0
        self._expects_continue = expects_continue(headers)
        self._deadline = time.monotonic() + settings.read_timeout
        self._received, self._complete = 0, False
        self._budget, self._held = held, 0
        self.refused = False
        """Whether the body is not wanted, though more of it may come."""

    async def __call__(self) -> Message:
        if self._complete:
            return await self._receive()  # the client's leave is all that can still come
        self._check(self._content_length)
        message = await self._next()
        self._check(self._received)
        self._hold(len(message.get("body", b"")))
        return message

    def _check(self, size: int) -> None:
        if size > self._limit:
            self.refused = True
            raise body_too_large(self._limit)

    def _hold(self, size: int) -> None:
        try:
            self._budget.add(size)
        except RequestError:
            self.refused = True
            self.release()  # at once: of several that come together some must get through
            raise
        self._held += size

    def release(self) -> None:
        """Give back the room that the body took."""
        self._budget.remove(self._held)
        self._held = 0

    async def drain(self) -> None:
        """Read what is left of a body that was refused; nothing if its client waits to be asked."""
        if self._expects_continue and not self._received:
            return
        try:
            while not self._complete and self._received <= MAX_DISCARDED_BYTES:
                await self._next()
        except RequestError:
            return  # it came too slowly: it has its answer

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout(self._deadline - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            raise RequestError(
                408, "the request came too slowly; send it again", {"Connection": "close"}
            ) from None
        self._received += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        return message


def expects_continue(headers: Headers) -> bool:
    """Whether a client sends no body before it is told to."""
    return headers.get("expect", "").lower() == "100-continue"


class HeaderCheck:
    """Refuses requests whose head is ambiguous, or in a name that is not the server's.

    A page from elsewhere whose name is made to point at a loopback address (DNS rebinding) is then
    no way into a server that only this machine should reach.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self.app, self._names = app, frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(Headers(scope=scope))
            except RequestError as refused:
                await refused.response()(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, headers: Headers) -> None:
        if "content-length" in headers and "transfer-encoding" in headers:
            # a proxy that goes by the other of them would take our rest for its next request
            raise RequestError(
                400,
                "the request has both Content-Length and Transfer-Encoding; send one of them",
                {"Connection": "close"},
            )
        name = host_name(headers.get("host", ""))
        if name is None:
            raise RequestError(400, "Host is neither a name nor an address, with or without a port")
        if self._names and name not in self._names:
            raise RequestError(
                400, "the server does not go by the name in Host; see regard serve --allow-host"
            )


def host_name(host: str) -> str | None:
    """The name in a Host header, without a port; None if it is malformed."""
    found = HOST.fullmatch(host.strip())
    return None if found is None else (found["name"] or "").lower().strip("[]")


def allowed_hosts(settings: ServerSettings) -> tuple[str, ...]:
    """The names that the server answers to; none are asked for where it listens to the network."""
    if settings.host == "localhost" or is_loopback(settings.host):
        return ("localhost", "127.0.0.1", "::1", settings.host, *settings.hosts)
    return settings.hosts


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
