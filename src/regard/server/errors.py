"""Requests that are not answered as asked: {"error": ...} and a status, as LibreTranslate does."""

import math
from collections.abc import Mapping

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

REQUEST_ID = "regard.request"
"""Where a request's scope holds the number that the log knows it by."""

CLIENT_CLOSED_REQUEST = 499
"""The status of a request whose client left before its answer: nginx' number, for the log."""


class RequestError(Exception):
    """A request that gets an error instead of an answer."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})

    def response(self) -> JSONResponse:
        """What the client is sent."""
        return JSONResponse({"error": self.message}, self.status, self.headers)


def service_unavailable(message: str, seconds: float) -> RequestError:
    """What a client is told that should come again after some `seconds`."""
    return RequestError(503, message, _retry_after(seconds))


def too_many_requests(message: str, seconds: float) -> RequestError:
    """What a client is told that has sent too many requests, and may go on after some `seconds`."""
    return RequestError(429, message, _retry_after(seconds))


def _retry_after(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(max(1, math.ceil(seconds)))}


def body_too_large(limit: int) -> RequestError:
    """What a client is told whose body is longer than `limit` bytes."""
    return RequestError(
        413,
        f"the body is longer than the {limit:,} bytes that are allowed; send less at once",
        {"Connection": "close"},
    )


def client_disconnected() -> RequestError:
    """What nobody will read: the client has left."""
    return RequestError(CLIENT_CLOSED_REQUEST, "the client has left")


async def handle_request_error(request: Request, error: Exception) -> JSONResponse:
    """The handler of `RequestError`."""
    assert isinstance(error, RequestError)
    return error.response()


async def handle_http_exception(request: Request, error: Exception) -> JSONResponse:
    """The handler of what the framework refuses, in our form."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def handle_unexpected_error(request: Request, error: Exception) -> JSONResponse:
    """The handler of what nobody foresaw; who sees to it finds it in the log by its number."""
    number = request.scope.get(REQUEST_ID, "")
    return RequestError(500, f"the server made a mistake; its log names {number}").response()
