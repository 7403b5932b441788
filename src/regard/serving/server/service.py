"""What the routes share: the parts of one server, and how a request waits for its answer."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from regard.serving.server.gathering import Job
from regard.serving.server.keys import Keys
from regard.serving.server.metrics import Metrics
from regard.serving.server.models import Models, Served
from regard.serving.server.refusals import RequestError
from regard.serving.server.settings import ServerSettings

CLOSED = 499
"""What nobody will read: the client has left."""


@dataclass(frozen=True)
class Service:
    """The parts of one server."""

    settings: ServerSettings
    models: Models
    keys: Keys
    metrics: Metrics

    def check_key(self, request: Request, key: str | None) -> None:
        """A refusal unless the request holds a key, if there are keys."""
        if not self.keys:
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = key or (token.strip() if scheme.lower() == "bearer" else "")
        if not given:
            raise RequestError(
                401,
                "this server needs an API key: send it as api_key or as Authorization: Bearer",
                {"WWW-Authenticate": "Bearer"},
            )
        if not self.keys.admit(given):
            raise RequestError(403, "Invalid API key")

    async def wait(self, request: Request, job: Job) -> list[Any]:
        """The answers to a job, unless they take too long or the client leaves."""
        left = asyncio.ensure_future(_leaves(request))
        either: set[asyncio.Future[Any]] = {job.done, left}
        try:
            await asyncio.wait(
                either,
                timeout=self.settings.timeout,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if job.done.done():
                return job.done.result()
            reason = "left" if left.done() else "timeout"
            self.metrics.dropped.labels(reason).inc()
            if reason == "left":
                raise RequestError(CLOSED, "the client has left")
            raise RequestError(
                504, f"no answer within {self.settings.timeout:g} s; send less at once, or later"
            )
        finally:
            left.cancel()
            job.done.cancel()


async def _leaves(request: Request) -> None:
    """Return when the client is gone; its body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def count_tokens(served: Served, lines: Sequence[str]) -> list[int]:
    """What each line costs: its source tokens, and one for its end."""
    tokenizer = served.translator.runs[0].tokenizers.source
    found = await asyncio.to_thread(tokenizer.encode, list(lines))
    return [len(ids) + 1 for ids in found]


def find_service(request: Request) -> Service:
    """The service of the application that a request is for."""
    service: Service = request.app.state.service
    return service


Here = Annotated[Service, Depends(find_service)]
