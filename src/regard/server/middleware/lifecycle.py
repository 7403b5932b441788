"""Outermost ASGI layer: request ids, logs, metrics, security headers, and 503 while stopping."""

import asyncio
import logging
import secrets
import time

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from regard.server.errors import CLIENT_CLOSED_REQUEST, REQUEST_ID, RequestError, error_response
from regard.server.middleware.limits import RequestLimits
from regard.server.telemetry import ServerMetrics, log, log_error

PATHS_WHILE_STOPPING = {"/health", "/ready", "/metrics"}
"""Paths that are served until the end."""
KNOWN_METHODS = {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}
OTHER_LABEL = "(other)"
"""The label of an unknown method or route: clients cannot create new metrics."""
QUIET_SECONDS = 0.5
"""While stopping: how long no request may arrive before connections are closed."""
DRAIN_SECONDS = 5.0
"""While stopping: the longest wait for that, and for the body of one refused request."""

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
    """Counts, times, numbers and logs requests, and refuses new ones while the server stops."""

    def __init__(self, app: RequestLimits, metrics: ServerMetrics) -> None:
        self.app, self._metrics = app, metrics
        self.stopping = False
        self._deadline = float("inf")  # of all active requests, by the clock of the event loop
        self._active = self._num_requests = 0
        metrics.active_requests.set_function(lambda: self._active)
        self._idle = asyncio.Event()
        self._idle.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        context = RequestContext(scope, send, self)
        self._active += 1
        self._num_requests += 1
        self._idle.clear()
        try:
            if self.stopping and scope["path"] not in PATHS_WHILE_STOPPING:
                now = asyncio.get_running_loop().time()
                seconds = max(0.001, min(DRAIN_SECONDS, self._deadline - QUIET_SECONDS - now))
                await self.app(
                    scope, receive, context.send, refusal=_unavailable(), seconds=seconds
                )
            else:
                await self._serve(context, receive)
        finally:
            self._active -= 1
            if not self._active:
                self._idle.set()
            self._log_and_count(context)

    async def close(self, grace: float) -> bool:
        """Answer new requests with 503 and wait for the active ones; True if all have finished.

        Connections stay open until no request has arrived for a while: a client whose connection is
        closed cannot know whether its request was read.
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
                    await self._idle.wait()
        except TimeoutError:
            return not self._active
        return True

    async def _serve(self, context: "RequestContext", receive: Receive) -> None:
        try:
            await self.app(context.scope, receive, context.send)
        except asyncio.CancelledError:
            if context.status or not self.stopping:
                raise
            response = error_response(_unavailable())  # the grace period is over
            await response(context.scope, receive, context.send)
        except Exception as error:  # the response was sent by the error handler
            log_error("a request failed", error, request=context.request_id)

    def _log_and_count(self, context: "RequestContext") -> None:
        route = getattr(context.scope.get("route"), "path", OTHER_LABEL)
        method = context.method if context.method in KNOWN_METHODS else OTHER_LABEL
        status = context.status or CLIENT_CLOSED_REQUEST
        elapsed = time.monotonic() - context.started
        self._metrics.requests.labels(route, method, str(status)).inc()
        self._metrics.request_seconds.labels(route).observe(elapsed)
        if status == CLIENT_CLOSED_REQUEST:
            self._metrics.dropped.labels("left").inc()
        log(
            "request",
            logging.WARNING if status >= 500 else logging.INFO,
            request=context.request_id,
            method=method,
            route=route,
            status=status,
            seconds=round(elapsed, 4),
        )


def _unavailable() -> RequestError:
    return RequestError(503, "the server is stopping; try again soon", retry_after=1)


class RequestContext:
    """One request and the headers of its response; HEAD is served as GET without the body."""

    def __init__(self, scope: Scope, send: Send, lifecycle: RequestLifecycle) -> None:
        self.scope, self._send, self._lifecycle = scope, send, lifecycle
        self.method: str = scope["method"]
        if self.method == "HEAD":
            scope["method"] = "GET"
        self.started = time.monotonic()
        self.request_id = scope[REQUEST_ID] = secrets.token_hex(8)
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(raw=list(message["headers"]))
            headers.update({**SECURITY_HEADERS, "X-Request-ID": self.request_id})
            path = self.scope["path"]
            is_page_file = path == "/" or path.startswith("/static/")
            headers.setdefault("Cache-Control", "no-cache" if is_page_file else "no-store")
            if self._lifecycle.stopping:  # no further request should come on this connection
                headers.append("Connection", "close")
            message["headers"] = headers.raw
        elif self.method == "HEAD":
            message = {**message, "body": b""}
        await self._send(message)
