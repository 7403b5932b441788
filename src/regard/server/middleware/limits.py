"""ASGI layer that refuses malformed heads, unknown host names, and long or slow bodies."""

import asyncio
import contextlib
import ipaddress
import re
import time
from functools import partial

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.server.errors import RequestError, error_response
from regard.server.settings import ServerSettings

MAX_DISCARDED_BYTES = 64 * 1024 * 1024
"""Bytes of a refused body that are read and discarded, at most."""
HOST = re.compile(r"(?P<name>[\w.-]+|\[[0-9a-fA-F:.]+\])?(?::\d{0,5})?", re.ASCII)
"""A Host header: a name or an address, and perhaps a port."""


class RequestLimits:
    """Refuses a body that is too long (413), too slow (408), or for which there is no room beside
    those of the other active requests (503); a Content-Length that is too long before any of it is
    read. Refuses a head that is ambiguous or names another host (400)."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app, self.settings = app, settings
        self._host_names = frozenset(name.lower() for name in allowed_hosts(settings))
        self.capacity = max(settings.max_bytes_held, settings.max_bytes)
        self.held_bytes = 0
        """Of the bodies of all active requests. What is made of a body takes some thirty times as
        much memory, and is freed with it."""

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        refusal: RequestError | None = None,
        seconds: float | None = None,
    ) -> None:
        """Serve a request, or answer it with a `refusal`; its body must arrive within `seconds`, by
        default those of the settings."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        reader = BodyReader(receive, headers, self, seconds or self.settings.read_timeout)
        refusal = refusal or self._head_error(headers)
        reader.refused = refusal is not None
        app = self.app if refusal is None else error_response(refusal)
        try:
            await app(scope, reader, partial(reader.send_then_drain, send))
        finally:
            reader.release()

    def _head_error(self, headers: Headers) -> RequestError | None:
        """The error of a head that is ambiguous or names another host.

        Such a name may be DNS rebinding: a page from elsewhere whose name points at a loopback
        address could reach a server that only this machine should.
        """
        if "content-length" in headers and "transfer-encoding" in headers:
            # a proxy that goes by the other one would take the rest for the next request
            return RequestError(
                400,
                "the request has both Content-Length and Transfer-Encoding; send one of them",
                {"Connection": "close"},
            )
        name = host_name(headers.get("host", ""))
        if name is None:
            return RequestError(
                400, "Host is neither a name nor an address, with or without a port"
            )
        if self._host_names and name not in self._host_names:
            return RequestError(
                400, "the server does not go by the name in Host; see regard serve --allow-host"
            )
        return None


class BodyReader:
    """An ASGI `receive` that enforces the limits of a body, which must arrive within `seconds`."""

    def __init__(
        self, receive: Receive, headers: Headers, limits: RequestLimits, seconds: float
    ) -> None:
        self._receive, self._limits = receive, limits
        declared = headers.get("content-length", "")
        self._content_length = int(declared) if declared.isdecimal() else 0
        self._expects_continue = headers.get("expect", "").lower() == "100-continue"
        self._deadline = time.monotonic() + seconds
        self._received = self._held = 0
        self._complete = False
        self.refused = False
        """Whether the body was refused, though more of it may arrive."""

    async def __call__(self) -> Message:
        if self._complete:
            return await self._receive()  # only a disconnect can follow
        self._check_size(self._content_length)
        message = await self._next()
        self._check_size(self._received)
        self._hold(len(message.get("body", b"")))
        return message

    def _check_size(self, size: int) -> None:
        limit = self._limits.settings.max_bytes
        if size > limit:
            self.refused = True
            raise RequestError(
                413,
                f"the body is longer than the {limit:,} bytes that are allowed; send less at once",
                {"Connection": "close"},
            )

    def _hold(self, size: int) -> None:
        if self._limits.held_bytes + size > self._limits.capacity:
            self.refused = True
            self.release()  # at once, so that another of several concurrent bodies fits
            raise RequestError(
                503,
                "the server holds as many requests as it has memory for; try again soon",
                retry_after=1,
            )
        self._held += size
        self._limits.held_bytes += size

    def release(self) -> None:
        """Stop counting the body as held."""
        self._limits.held_bytes -= self._held
        self._held = 0

    async def send_then_drain(self, send: Send, message: Message) -> None:
        """Send a message; after the last one of a refused request read and discard its body.

        A connection that is closed with unread data is reset, and the response may be lost. A
        client that waits for 100 Continue sends no body.
        """
        last = message["type"] == "http.response.body" and not message.get("more_body")
        if self.refused and last:
            await send({**message, "more_body": True})
            message = {"type": "http.response.body", "body": b""}
            waiting = self._expects_continue and not self._received
            with contextlib.suppress(RequestError):  # too slow
                while not (waiting or self._complete or self._received > MAX_DISCARDED_BYTES):
                    await self._next()
        await send(message)

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


def host_name(host: str) -> str | None:
    """The name in a Host header, without a port; None if it is malformed."""
    match = HOST.fullmatch(host.strip())
    return None if match is None else (match["name"] or "").lower().strip("[]")


def allowed_hosts(settings: ServerSettings) -> tuple[str, ...]:
    """The accepted host names; none, for any name, where the server listens to the network."""
    if is_loopback(settings.host):
        return ("localhost", "127.0.0.1", "::1", settings.host, *settings.hosts)
    return settings.hosts


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
