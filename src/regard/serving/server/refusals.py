"""Requests that are not answered as asked: {"error": ...} and a status, as LibreTranslate does."""

import math
from collections.abc import Mapping

from fastapi import Request
from starlette.responses import JSONResponse


class RequestError(Exception):
    """A request that gets an error instead of an answer."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})

    def response(self) -> JSONResponse:
        """What the client is sent."""
        return JSONResponse({"error": self.message}, self.status, self.headers)


def busy(message: str, seconds: float) -> RequestError:
    """What a client is told that should come again after some `seconds`."""
    return RequestError(503, message, {"Retry-After": str(max(1, math.ceil(seconds)))})


def too_large(limit: int) -> RequestError:
    """What a client is told whose body is longer than `limit` bytes."""
    return RequestError(
        413,
        f"the body is longer than the {limit:,} bytes that are allowed; send less at once",
        {"Connection": "close"},
    )


async def answer_refused(request: Request, error: Exception) -> JSONResponse:
    """The handler of `RequestError`."""
    assert isinstance(error, RequestError)
    return error.response()
