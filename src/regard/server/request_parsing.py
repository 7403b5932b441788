"""Bodies as clients send them, JSON or forms -> requests that have been checked."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import FormData
from starlette.requests import ClientDisconnect

from regard.server.errors import RequestError, client_disconnected
from regard.server.schemas import UNION_TAGS, KeyedRequest
from regard.server.service import ServiceDep
from regard.settings import describe, expectation

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
MAX_FIELDS = 1000
UTF8_BOM = b"\xef\xbb\xbf"
"""The byte order mark that some programs begin UTF-8 with."""
RequestT = TypeVar("RequestT", bound=KeyedRequest)


def body(request_type: type[RequestT]) -> Callable[[Request, ServiceDep], Awaitable[RequestT]]:
    """A dependency that reads a body of a `shape` and checks who sent it."""

    async def read(request: Request, service: ServiceDep) -> RequestT:
        found = await read_body(request, request_type, service.settings.max_bytes)
        service.authorize(request, found.api_key)
        return found

    return read


async def read_body(request: Request, request_type: type[RequestT], max_bytes: int) -> RequestT:
    """The body as a `shape`; a refusal that says which field is wrong.

    Fields of a form may be in the query string instead, as LibreTranslate takes them, too.
    """
    kind = media_type(request)
    try:
        if kind == JSON or (kind.startswith("application/") and kind.endswith("+json")):
            data = (await request.body()).removeprefix(UTF8_BOM)
            return request_type.model_validate_json(data, strict=True)
        query = form_values(parse_form(request.scope["query_string"], "query string"))
        if kind == FORM or not (kind or has_body(request)):
            return request_type.model_validate(
                form_values(parse_form(await request.body())) | query
            )
        if kind == MULTIPART:
            decode_utf8(await request.body())  # else it would be taken for Latin-1
            async with request.form(
                max_files=0, max_fields=MAX_FIELDS, max_part_size=max_bytes
            ) as form:
                return request_type.model_validate(form_values(form) | query)
    except ValidationError as error:
        raise RequestError(400, validation_message(error)) from None
    except ClientDisconnect:
        raise client_disconnected() from None
    raise RequestError(
        415,
        f"send the request as {JSON}, {FORM} or {MULTIPART}; Content-Type is {kind or 'missing'}",
    )


def media_type(request: Request) -> str:
    """The kind of the body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def has_body(request: Request) -> bool:
    """Whether something comes behind the head."""
    headers = request.headers
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def parse_form(data: bytes, where: str = "body") -> FormData:
    """The fields of a form, or of a query string.

    Their letters may be written as they are or by their bytes (%C3%A9).
    The framework would take letters that are written as they are for Latin-1.
    """
    text = decode_utf8(data, where)
    try:
        fields = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except UnicodeDecodeError as error:
        raise _not_utf8(error, where) from None
    except ValueError:
        raise RequestError(
            400, f"Invalid request: more than the {MAX_FIELDS} fields that a form may have"
        ) from None
    return FormData([*fields])


def decode_utf8(data: bytes, where: str = "body") -> str:
    """The text of a body; a refusal if it is none."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(error, where) from None


def _not_utf8(error: UnicodeDecodeError, where: str) -> RequestError:
    byte = error.object[error.start]
    return RequestError(
        400, f"Invalid request: the {where} is not UTF-8, it has the byte 0x{byte:02x}; send UTF-8"
    )


def form_values(form: FormData) -> dict[str, Any]:
    """The fields of a form; one that is there several times is a list."""
    values: dict[str, Any] = {}
    for name in form:
        values_of_field = form.getlist(name)
        values[name] = values_of_field[0] if len(values_of_field) == 1 else values_of_field
    return values


def validation_message(error: ValidationError) -> str:
    """What is wrong, and where, in the first field that is."""
    mistake = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in mistake["loc"] if part not in UNION_TAGS)
    if mistake["type"] == "missing":
        return f"Invalid request: missing {place} parameter"
    if mistake["type"] == "json_invalid":
        return "Invalid request: the body is no JSON"
    found = describe(mistake["input"])
    return f"Invalid request: {place or 'the body'} {expectation(mistake)}, got {found}"
