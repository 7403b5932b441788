"""Outermost ASGI layer: limits of requests, ids, logs, metrics, headers, and 503 while stopping."""

import asyncio
import contextlib
import logging
import random
import re
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.server.errors import (
    CLIENT_CLOSED_REQUEST,
    DEADLINE,
    REQUEST_ID,
    REQUEST_SIZE,
    RequestError,
    error_response,
)
from regard.server.settings import ServerSettings
from regard.server.telemetry import ServerMetrics, log, log_error

PATHS_WHILE_STOPPING = {"/health", "/ready", "/metrics"}  # paths that are served until the end
KNOWN_METHODS = {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}
OTHER_LABEL = "(other)"  # of unknown methods and routes: clients cannot create new metrics
QUIET_SECONDS = 0.5  # while stopping: how long no request may arrive before connections are closed
DRAIN_SECONDS = 5.0  # while stopping: the longest wait for that, and for a refused body
MAX_DISCARDED_BYTES = 64 * 1024 * 1024  # bytes of a refused body that are read and discarded
HOST = re.compile(r"(?P<name>[\w.-]+|\[[0-9a-fA-F:.]+\])?(?::\d{0,5})?", re.ASCII)  # Host header
CLOSE = {"Connection": "close"}
BEGINNING = 16  # requests that begin in one round of the event loop

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class RequestLifecycle:
    """Counts, times, numbers and logs requests; refuses malformed heads, unknown host names, bodies
    that are too long, too slow or too many at once, what `overload` says cannot be answered in
    time, by its path, bytes and deadline, and all new requests while stopping.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        metrics: ServerMetrics,
        overload: Callable[[str, int, float], RequestError | None] = lambda *_: None,
    ) -> None:
        self.app, self.settings, self._metrics = app, settings, metrics
        self._overload = overload
        self._beginning = asyncio.Semaphore(BEGINNING)
        self._host_names = frozenset(name.lower() for name in settings.allowed_hosts)
        self.stopping = False
        self._deadline = float("inf")  # of all active requests, by the clock of the event loop
        self._active = self._accepted = self._num_requests = 0
        metrics.active_requests.set_function(lambda: self._active)
        self._idle = asyncio.Event()  # while no accepted request is active
        self._idle.set()
        self.held_bytes = 0  # of active requests' bodies; parsing takes thirty times as much

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, self)
        self._active += 1
        self._num_requests += 1
        if not exchange.came_too_late:
            self._accepted += 1
            self._idle.clear()
        try:
            await self._respond(exchange)
        finally:
            exchange.release()
            self._active -= 1
            if not exchange.came_too_late:
                self._accepted -= 1
            if not self._accepted:
                self._idle.set()
            self._log_and_count(exchange)

    async def close(self, grace: float) -> bool:
        """Answer new requests with 503 and wait for the active ones; True if all have finished.

        Connections stay open until no request has arrived for a while: a client whose connection is
        closed cannot know whether its request was read. Requests that keep coming delay the end by
        DRAIN_SECONDS at most, however slow they are.
        """
        self.stopping = True
        self._deadline = asyncio.get_running_loop().time() + grace
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._idle.wait()
                give_up_at, seen = time.monotonic() + DRAIN_SECONDS, -1
                while seen < self._num_requests and time.monotonic() < give_up_at:
                    seen = self._num_requests
                    await asyncio.sleep(QUIET_SECONDS)
        except TimeoutError:
            return self._idle.is_set()
        return True

    async def _respond(self, exchange: "Exchange") -> None:
        try:
            refusal = self._refusal(exchange) or await self._take_turn(exchange)
            exchange.refused = refusal is not None
            app = self.app if refusal is None else error_response(refusal)
            await app(exchange.scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:
            if exchange.status or not self.stopping:
                raise
            response = error_response(_unavailable())  # the grace period is over
            await response(exchange.scope, exchange.receive, exchange.send)
        except Exception as error:  # the response was sent by the error handler
            log_error("a request failed", error, request=exchange.request_id)

    async def _take_turn(self, exchange: "Exchange") -> RequestError | None:
        """Let a few requests begin at a time, and the event loop do other things in between; the
        error of a request that those before it leave no time for.
        """
        if exchange.scope["path"] in PATHS_WHILE_STOPPING:
            return None
        others_wait = self._beginning.locked()
        async with self._beginning:
            if not others_wait:
                await asyncio.sleep(0)
        exchange.waited = asyncio.get_running_loop().time() - exchange.arrival
        return self._check_time(exchange)

    def _check_time(self, exchange: "Exchange") -> RequestError | None:
        if exchange.content_length > self.settings.max_bytes:
            return None  # there is a better reason to refuse it
        deadline = exchange.arrival + self.settings.timeout
        return self._overload(exchange.scope["path"], exchange.size, deadline)

    def _refusal(self, exchange: "Exchange") -> RequestError | None:
        """The error of a request that arrives while stopping, is ambiguous or names another host:
        by DNS rebinding, a foreign page could otherwise reach a server meant for this machine only.
        """
        headers = exchange.headers
        if exchange.came_too_late and exchange.scope["path"] not in PATHS_WHILE_STOPPING:
            now = asyncio.get_running_loop().time()
            exchange.read_deadline = min(now + DRAIN_SECONDS, self._deadline - QUIET_SECONDS)
            return _unavailable()
        if "content-length" in headers and "transfer-encoding" in headers:
            # a proxy that trusts the other header would read the rest as the next request
            message = "the request has both Content-Length and Transfer-Encoding; send one of them"
            return RequestError(400, message, CLOSE)
        name = host_name(headers.get("host", ""))
        if name is None:
            message = "the Host header must be a name or an address, with or without a port"
            return RequestError(400, message)
        if self._host_names and name not in self._host_names:
            message = "the Host header is not an accepted name; see regard serve --allow-host"
            return RequestError(400, message)
        return self._check_time(exchange)

    def _log_and_count(self, exchange: "Exchange") -> None:
        route = getattr(exchange.scope.get("route"), "path", OTHER_LABEL)
        method = exchange.method if exchange.method in KNOWN_METHODS else OTHER_LABEL
        status = exchange.status or CLIENT_CLOSED_REQUEST
        elapsed = time.monotonic() - exchange.started
        self._metrics.requests.labels(route, method, str(status)).inc()
        self._metrics.request_seconds.labels(route).observe(elapsed)
        if status == CLIENT_CLOSED_REQUEST:
            self._metrics.dropped.labels("left").inc()
        log(
            "request",
            logging.WARNING if status >= 500 else logging.INFO,
            request=exchange.request_id,
            method=method,
            route=route,
            status=status,
            seconds=round(elapsed, 4),
        )


def _unavailable() -> RequestError:
    return RequestError(503, "the server is stopping; try again soon", retry_after=1)


class Exchange:
    """One request, whose body is limited, and its response's headers; HEAD is served as GET."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, lifecycle: RequestLifecycle
    ) -> None:
        self.scope, self.headers = scope, Headers(scope=scope)
        self._receive, self._send, self._lifecycle = receive, send, lifecycle
        self.method: str = scope["method"]
        if self.method == "HEAD":
            scope["method"] = "GET"
        self.started = time.monotonic()
        self.came_too_late = lifecycle.stopping
        self.arrival = asyncio.get_running_loop().time()
        self.request_id = scope[REQUEST_ID] = f"{random.getrandbits(64):016x}"
        self.status = 0
        self.waited = 0.0  # seconds for the turn to begin; they count for the time limit
        declared = self.headers.get("content-length", "")
        self.content_length = int(declared) if declared.isdecimal() else 0
        self.read_deadline = self.arrival + lifecycle.settings.read_timeout
        self._received = self._held = 0
        self._complete = False
        self.refused = False  # whether the body was refused; more of it may still arrive

    @property
    def size(self) -> int:
        """Bytes that were announced: of the body and the query string."""
        return self.content_length + len(self.scope["query_string"])

    async def receive(self) -> Message:
        """The next part of the body, or an error that refuses it."""
        if self._complete:
            return await self._receive()  # only a disconnect can follow
        self._check_size(self.content_length)
        message = await self._next()
        self._check_size(self._received)
        self._hold(len(message.get("body", b"")))
        return message

    def _check_size(self, size: int) -> None:
        limit = self._lifecycle.settings.max_bytes
        if size > limit:
            self.refused = True
            message = f"the body is longer than the {limit:,} bytes that are allowed"
            raise RequestError(413, f"{message}; send less at once", CLOSE)

    def _hold(self, size: int) -> None:
        lifecycle, settings = self._lifecycle, self._lifecycle.settings
        if lifecycle.held_bytes + size > max(settings.max_bytes_held, settings.max_bytes):
            self.refused = True
            self.release()  # at once, so that another of several concurrent bodies fits
            message = "the server has no memory for further requests; try again soon"
            raise RequestError(503, message, retry_after=1)
        self._held += size
        lifecycle.held_bytes += size

    def release(self) -> None:
        """Stop counting the body as held."""
        self._lifecycle.held_bytes -= self._held
        self._held = 0

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout_at(self.read_deadline):
                message = await self._receive()
        except TimeoutError:
            reason = "the request came too slowly; send it again"
            raise RequestError(408, reason, CLOSE) from None
        self._received += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._complete:
            now = asyncio.get_running_loop().time()
            self.scope[DEADLINE] = now - self.waited + self._lifecycle.settings.timeout
            self.scope[REQUEST_SIZE] = self._received + len(self.scope["query_string"])
        return message

    async def send(self, message: Message) -> None:
        """Send a message of the response. Before the last one, the body of a refused request is
        read: a connection closed with unread data is reset, and the response may be lost.
        """
        if message["type"] == "http.response.start":
            self._add_headers(message)
        else:
            message = {**message, "body": b""} if self.method == "HEAD" else message
            if self.refused and not message.get("more_body"):
                await self._send({**message, "more_body": True})
                message = {"type": "http.response.body", "body": b""}
                await self._drain()
        await self._send(message)

    def _add_headers(self, message: Message) -> None:
        self.status = message["status"]
        headers = MutableHeaders(raw=list(message["headers"]))
        headers.update({**SECURITY_HEADERS, "X-Request-ID": self.request_id})
        path = self.scope["path"]
        is_page_file = path == "/" or path.startswith("/static/")
        headers.setdefault("Cache-Control", "no-cache" if is_page_file else "no-store")
        if self._lifecycle.stopping:  # no further request should come on this connection
            headers.append("Connection", "close")
        message["headers"] = headers.raw

    async def _drain(self) -> None:
        """Discard the rest of the body; a client that waits for 100 Continue sends none."""
        if self.headers.get("expect", "").lower() == "100-continue" and not self._received:
            return
        with contextlib.suppress(RequestError):  # too slow
            while not self._complete and self._received <= MAX_DISCARDED_BYTES:
                await self._next()


def host_name(host: str) -> str | None:
    """The name in a Host header, without a port; None if it is malformed."""
    match = HOST.fullmatch(host.strip())
    return None if match is None else (match["name"] or "").lower().strip("[]")
