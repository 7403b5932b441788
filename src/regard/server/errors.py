"""Errors as HTTP responses: `{"error": message}` and a status, as LibreTranslate sends them."""

import math
from collections.abc import Mapping

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

REQUEST_ID = "regard.request"  # the key of a request's id in its ASGI scope
REQUEST_SIZE = "regard.request_size"  # of the bytes of its body, once read, and query string
DEADLINE = "regard.deadline"  # of the time, by the event loop's clock, when its answer is due
CLIENT_CLOSED_REQUEST = 499  # nginx' status for a client that disconnected before its response


class RequestError(HTTPException):
    """An error response; `retry_after` is in seconds."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        retry_after: float | None = None,
    ) -> None:
        retry = {} if retry_after is None else {"Retry-After": str(max(1, math.ceil(retry_after)))}
        super().__init__(status, message, {**(headers or {}), **retry})


def invalid_request(message: str) -> RequestError:
    """The error of a request with wrong fields."""
    return RequestError(400, f"Invalid request: {message}")


def error_response(error: HTTPException) -> JSONResponse:
    """The response for an error of ours or of the framework."""
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def handle_error(request: Request, error: Exception) -> JSONResponse:
    """The handler of all exceptions; unexpected ones are logged with the request's id."""
    if isinstance(error, HTTPException):
        return error_response(error)
    request_id = request.scope.get(REQUEST_ID, "")
    return JSONResponse({"error": f"internal error; the server's log names {request_id}"}, 500)
