"""Who is inside: requests are let in until the server is told to stop, then seen to the end."""

import asyncio
import contextlib
import logging
import secrets
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.server.errors import CLIENT_CLOSED_REQUEST, REQUEST_ID, service_unavailable
from regard.server.logs import log, log_error
from regard.server.metrics import ServerMetrics
from regard.server.middleware.limits import expects_continue

PATHS_WHILE_STOPPING = {"/health", "/ready", "/metrics"}
"""Paths that are answered to the last."""
KNOWN_METHODS = {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}
OTHER_LABEL = "(other)"
"""The method or route of a request that we have none for: whoever asks cannot invent new labels."""

QUIET_SECONDS, DRAIN_SECONDS = 0.5, 5.0
"""Seconds without a knock before a server that stops hangs up, and the most it waits for them or
listens to one of them."""


class RequestLifecycle:
    """The outermost layer: counts, times, numbers and logs requests; shuts them out at the end."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self.app, self._metrics = app, metrics
        self.shut = False
        self._deadline = float("inf")  # when, by the clock of the loop, all must be out
        self._active = self._num_requests = 0
        self._all_done = asyncio.Event()
        self._all_done.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        context = RequestContext(scope, send, self)
        self._active += 1
        self._num_requests += 1
        self._all_done.clear()
        self._metrics.active_requests.set(self._active)
        try:
            if self.shut and scope["path"] not in PATHS_WHILE_STOPPING:
                await self._drain_request(scope, receive)
                await _send_unavailable(context, receive)
            else:
                await self._serve(context, receive)
        finally:
            self._active -= 1
            self._metrics.active_requests.set(self._active)
            if not self._active:
                self._all_done.set()
            self._log_and_count(context)

    async def close(self, grace: float) -> bool:
        """Let nobody in any more, and wait until all are out; whether they were in time.

        Who knocks is told so until nobody has for a while: a client that found its connection
        closed could not know whether what it had sent was read.
        """
        self.shut = True
        self._deadline = asyncio.get_running_loop().time() + grace
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._all_done.wait()
                await self._wait_until_quiet()
        except TimeoutError:
            return not self._active
        return True

    async def _wait_until_quiet(self) -> None:
        """Wait until nobody knocks any more, and all who did have heard their refusal."""
        deadline, seen = time.monotonic() + DRAIN_SECONDS, -1
        while seen < self._num_requests and time.monotonic() < deadline:
            seen = self._num_requests
            await asyncio.sleep(QUIET_SECONDS)
            await self._all_done.wait()

    async def _drain_request(self, scope: Scope, receive: Receive) -> None:
        """Read a request to its end, until its client leaves, or for as long as there is time.

        A connection that is closed with something unread is reset, and the answer may be lost with
        it. Who waits to be asked for a body is not asked.
        """
        if expects_continue(Headers(scope=scope)):
            return
        until = min(
            asyncio.get_running_loop().time() + DRAIN_SECONDS, self._deadline - QUIET_SECONDS
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while (await receive()).get("more_body", False):
                    pass

    async def _serve(self, context: "RequestContext", receive: Receive) -> None:
        try:
            await self.app(context.scope, receive, context.send)
        except asyncio.CancelledError:
            if context.status or not self.shut:
                raise
            await _send_unavailable(
                context, receive
            )  # its time is over, and it has heard nothing yet
        except Exception as error:  # the client has been told
            log_error("a request failed", error, request=context.request_id)

    def _log_and_count(self, context: "RequestContext") -> None:
        route = getattr(context.scope.get("route"), "path", OTHER_LABEL)
        method = context.method if context.method in KNOWN_METHODS else OTHER_LABEL
        status, elapsed = (
            context.status or CLIENT_CLOSED_REQUEST,
            time.monotonic() - context.started,
        )
        self._metrics.requests.labels(route, method, str(status)).inc()
        self._metrics.seconds.labels(route).observe(elapsed)
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


async def _send_unavailable(context: "RequestContext", receive: Receive) -> None:
    unavailable = service_unavailable("the server is stopping; try again soon", 1)
    await unavailable.response()(context.scope, receive, context.send)


class RequestContext:
    """One request, from its head to the end of its answer.

    HEAD asks for what GET would be answered, without the body.
    """

    def __init__(self, scope: Scope, send: Send, lifecycle: RequestLifecycle) -> None:
        self.scope, self._send, self._doors = scope, send, lifecycle
        self.method: str = scope["method"]
        if self.method == "HEAD":
            scope["method"] = "GET"
        self.started = time.monotonic()
        self.request_id = scope[REQUEST_ID] = secrets.token_hex(8)
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], (b"x-request-id", self.request_id.encode())]
            if self._doors.shut:  # else the client would send its next request here
                message["headers"].append((b"connection", b"close"))
        elif self.method == "HEAD":
            message = {**message, "body": b""}
        await self._send(message)
