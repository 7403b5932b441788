"""Bodies as clients send them, JSON or forms -> requests that have been checked."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import FormData
from starlette.requests import ClientDisconnect

from regard.serving.server.refusals import RequestError, left_early
from regard.serving.server.schemas import Keyed
from regard.serving.server.service import Here

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
MAX_FIELDS = 1000
K = TypeVar("K", bound=Keyed)


def body(shape: type[K]) -> Callable[[Request, Here], Awaitable[K]]:
    """A dependency that reads a body of a `shape` and checks its key."""

    async def read(request: Request, service: Here) -> K:
        found = await read_body(request, shape, service.settings.max_bytes)
        service.check_key(request, found.api_key)
        return found

    return read


async def read_body(request: Request, shape: type[K], max_bytes: int) -> K:
    """The body as a `shape`; a refusal that says which field is wrong."""
    kind = media_type(request)
    try:
        if kind == JSON:
            return shape.model_validate_json(await request.body(), strict=True)
        if kind in (FORM, MULTIPART):
            async with request.form(
                max_files=0, max_fields=MAX_FIELDS, max_part_size=max_bytes
            ) as form:
                return shape.model_validate(form_values(form))
    except ValidationError as error:
        raise RequestError(400, explain(error)) from None
    except ClientDisconnect:
        raise left_early() from None
    raise RequestError(
        415,
        f"send the request as {JSON}, {FORM} or {MULTIPART}; Content-Type is {kind or 'missing'}",
    )


def media_type(request: Request) -> str:
    """The kind of the body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def form_values(form: FormData) -> dict[str, Any]:
    """The fields of a form; one that is there several times is a list."""
    values: dict[str, Any] = {}
    for name in form:
        every = form.getlist(name)
        values[name] = every[0] if len(every) == 1 else every
    return values


def explain(error: ValidationError) -> str:
    """What is wrong, and where, in the first field that is."""
    mistake = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in mistake["loc"])
    missing = mistake["type"] == "missing"
    if missing:
        return f"Invalid request: missing {place} parameter"
    return f"Invalid request: {place}: {mistake['msg']}" if place else "Invalid request: no JSON"
