"""How much may be sent, how slowly, and in whose name: layers around the application."""

import asyncio
import ipaddress
import time
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.server.refusals import RequestError, too_large
from regard.serving.server.settings import ServerSettings

DISCARD = 64 * 1024 * 1024
"""Bytes of an over-long body that are read and thrown away behind its refusal, so that a client
which sends all of it before it listens hears why it was refused."""


class BodyLimits:
    """Refuses a body that is too long (413) or comes too slowly (408).

    One whose head says that it will be too long is refused before any of it is read.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        reader = BodyReader(receive, Headers(scope=scope), self._settings)

        async def send_then_drain(message: Message) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body")
            if reader.refused and last:
                await send({**message, "more_body": True})
                await reader.drain()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self.app(scope, reader, send_then_drain)


class BodyReader:
    """A `receive` that counts."""

    def __init__(self, receive: Receive, headers: Headers, settings: ServerSettings) -> None:
        self._receive, self._limit = receive, settings.max_bytes
        declared = headers.get("content-length", "")
        self._declared = int(declared) if declared.isdecimal() else 0
        self._asks_first = asks_first(headers)
        self._closes = time.monotonic() + settings.read_timeout
        self._seen, self._whole = 0, False
        self.refused = False
        """Whether the body is too long."""

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()  # the client's leave is all that can still come
        self._check(self._declared)
        message = await self._next()
        self._check(self._seen)
        return message

    def _check(self, size: int) -> None:
        if size > self._limit:
            self.refused = True
            raise too_large(self._limit)

    async def drain(self) -> None:
        """Read what is left of a body that was refused; nothing if its client waits to be asked."""
        if self._asks_first and not self._seen:
            return
        try:
            while not self._whole and self._seen <= DISCARD:
                await self._next()
        except RequestError:
            return  # it came too slowly: it has its answer

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout(self._closes - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            raise RequestError(
                408, "the request came too slowly; send it again", {"Connection": "close"}
            ) from None
        self._seen += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        return message


def asks_first(headers: Headers) -> bool:
    """Whether a client sends no body before it is told to."""
    return headers.get("expect", "").lower() == "100-continue"


class HostCheck:
    """Refuses requests in a name that is not the server's.

    A page from elsewhere whose name is made to point at a loopback address (DNS rebinding) is then
    no way into a server that only this machine should reach.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self.app, self._names = app, frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._names:
            host = Headers(scope=scope).get("host", "")
            if host_name(host) not in self._names:
                refused = RequestError(
                    400, "the server does not go by the name in Host; see regard serve --allow-host"
                )
                await refused.response()(scope, receive, send)
                return
        await self.app(scope, receive, send)


def host_name(host: str) -> str:
    """The name in a Host header, without a port."""
    name = host.lower().strip()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


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
