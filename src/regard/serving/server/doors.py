"""Who is inside: requests are let in until the server is told to stop, then seen to the end."""

import asyncio
import contextlib
import logging
import secrets
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.server.limits import asks_first
from regard.serving.server.logs import log, log_error
from regard.serving.server.metrics import Metrics
from regard.serving.server.refusals import GONE, NUMBER, busy

ALWAYS = {"/health", "/ready", "/metrics"}
"""Paths that are answered to the last."""
METHODS = {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}
OTHER = "(other)"
"""The method or route of a request that we have none for: whoever asks cannot invent new labels."""

QUIET, LINGER = 0.5, 5.0
"""Seconds without a knock before a server that stops hangs up, and the most it waits for them or
listens to one of them."""


class Doors:
    """The outermost layer: counts, times, numbers and logs requests; shuts them out at the end."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self._metrics = app, metrics
        self.shut = False
        self._ends = float("inf")  # when, by the clock of the loop, all must be out
        self._inside = self._visits = 0
        self._empty = asyncio.Event()
        self._empty.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        visit = Visit(scope, send, self)
        self._inside += 1
        self._visits += 1
        self._empty.clear()
        self._metrics.inside.set(self._inside)
        try:
            if self.shut and scope["path"] not in ALWAYS:
                await self._hear_out(scope, receive)
                await _turn_away(visit, receive)
            else:
                await self._serve(visit, receive)
        finally:
            self._inside -= 1
            self._metrics.inside.set(self._inside)
            if not self._inside:
                self._empty.set()
            self._report(visit)

    async def close(self, grace: float) -> bool:
        """Let nobody in any more, and wait until all are out; whether they were in time.

        Who knocks is told so until nobody has for a while: a client that found its connection
        closed could not know whether what it had sent was read.
        """
        self.shut = True
        self._ends = asyncio.get_running_loop().time() + grace
        try:
            async with asyncio.timeout_at(self._ends):
                await self._empty.wait()
                await self._linger()
        except TimeoutError:
            return not self._inside
        return True

    async def _linger(self) -> None:
        """Wait until nobody knocks any more, and all who did have heard their refusal."""
        ends, knocked = time.monotonic() + LINGER, -1
        while knocked < self._visits and time.monotonic() < ends:
            knocked = self._visits
            await asyncio.sleep(QUIET)
            await self._empty.wait()

    async def _hear_out(self, scope: Scope, receive: Receive) -> None:
        """Read a request to its end, until its client leaves, or for as long as there is time.

        A connection that is closed with something unread is reset, and the answer may be lost with
        it. Who waits to be asked for a body is not asked.
        """
        if asks_first(Headers(scope=scope)):
            return
        until = min(asyncio.get_running_loop().time() + LINGER, self._ends - QUIET)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while (await receive()).get("more_body", False):
                    pass

    async def _serve(self, visit: "Visit", receive: Receive) -> None:
        try:
            await self.app(visit.scope, receive, visit.send)
        except asyncio.CancelledError:
            if visit.status or not self.shut:
                raise
            await _turn_away(visit, receive)  # its time is over, and it has heard nothing yet
        except Exception as error:  # the client has been told
            log_error("a request failed", error, request=visit.number)

    def _report(self, visit: "Visit") -> None:
        route = getattr(visit.scope.get("route"), "path", OTHER)
        method = visit.method if visit.method in METHODS else OTHER
        status, took = visit.status or GONE, time.monotonic() - visit.began
        self._metrics.requests.labels(route, method, str(status)).inc()
        self._metrics.seconds.labels(route).observe(took)
        if status == GONE:
            self._metrics.dropped.labels("left").inc()
        log(
            "request",
            logging.WARNING if status >= 500 else logging.INFO,
            request=visit.number,
            method=method,
            route=route,
            status=status,
            seconds=round(took, 4),
        )


async def _turn_away(visit: "Visit", receive: Receive) -> None:
    refused = busy("the server is stopping; try again soon", 1)
    await refused.response()(visit.scope, receive, visit.send)


class Visit:
    """One request, from its head to the end of its answer.

    HEAD asks for what GET would be answered, without the body.
    """

    def __init__(self, scope: Scope, send: Send, doors: Doors) -> None:
        self.scope, self._send, self._doors = scope, send, doors
        self.method: str = scope["method"]
        if self.method == "HEAD":
            scope["method"] = "GET"
        self.began = time.monotonic()
        self.number = scope[NUMBER] = secrets.token_hex(8)
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], (b"x-request-id", self.number.encode())]
            if self._doors.shut:  # else the client would send its next request here
                message["headers"].append((b"connection", b"close"))
        elif self.method == "HEAD":
            message = {**message, "body": b""}
        await self._send(message)
