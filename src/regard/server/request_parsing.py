"""Reads and checks request bodies, which are JSON or forms."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from regard.server.errors import CLIENT_CLOSED_REQUEST, RequestError, invalid_request
from regard.server.schemas import UNION_TAGS, KeyedRequest
from regard.server.service import Service
from regard.settings import describe, expectation

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
MAX_FIELDS = 1000
UTF8_BOM = b"\xef\xbb\xbf"


RequestT = TypeVar("RequestT", bound=KeyedRequest)


async def read_body(request: Request, service: Service, request_type: type[RequestT]) -> RequestT:
    """Parse and validate the body, check the API key, count it against the rate limit.

    An error names the first wrong field. Fields of a form may be in the query string, as in
    LibreTranslate.
    """
    kind, headers = media_type(request), request.headers
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    with parsing_errors():
        if kind == JSON or (kind.startswith("application/") and kind.endswith("+json")):
            data = (await request.body()).removeprefix(UTF8_BOM)
            payload = _parse_json(data, request_type)
        else:
            with parsing_errors("query string"):
                query = parse_form(request.scope["query_string"])
            if kind == FORM or not (kind or has_body):
                fields = parse_form(await request.body())
            elif kind == MULTIPART:
                (await request.body()).decode()  # an error unless UTF-8; Starlette assumes Latin-1
                limits = {"max_fields": MAX_FIELDS, "max_part_size": service.settings.max_bytes}
                async with request.form(max_files=0, **limits) as form:
                    fields = form_values(form.multi_items())
            else:
                raise RequestError(
                    415,
                    f"send the request as {JSON}, {FORM} or {MULTIPART}; "
                    f"Content-Type is {kind or 'missing'}",
                )
            payload = request_type.model_validate(fields | query)
    service.access.authorize(request, payload.api_key)
    return payload


def _parse_json(data: bytes, request_type: type[RequestT]) -> RequestT:
    """The request in a body of JSON; a `UnicodeDecodeError` if it is not UTF-8."""
    try:
        return request_type.model_validate_json(data, strict=True)
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            data.decode()
        raise


@contextmanager
def parsing_errors(part: str = "body") -> Iterator[None]:
    """Turns the exceptions of reading and validating a part of a request into error responses."""
    try:
        yield
    except ValidationError as error:
        raise invalid_request(validation_message(error)) from None
    except ClientDisconnect:
        raise RequestError(CLIENT_CLOSED_REQUEST, "the client has disconnected") from None
    except UnicodeDecodeError as error:
        byte = f"0x{error.object[error.start]:02x}"
        message = f"the {part} is not UTF-8: it has the byte {byte}; send UTF-8"
        raise invalid_request(message) from None


def media_type(request: Request) -> str:
    """The media type of the body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def parse_form(data: bytes) -> dict[str, Any]:
    """The fields of a URL-encoded form in UTF-8, percent-encoded or not; Starlette would read
    characters that are not percent-encoded as Latin-1.
    """
    if data.count(b"&") >= MAX_FIELDS:
        raise invalid_request(f"a form may have at most {MAX_FIELDS} fields")
    return form_values(parse_qsl(data.decode(), keep_blank_values=True, errors="strict"))


def form_values(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a form; a repeated one becomes a list."""
    values: dict[str, list[Any]] = {}
    for name, value in items:
        values.setdefault(name, []).append(value)
    return {name: several if len(several) > 1 else several[0] for name, several in values.items()}


def validation_message(error: ValidationError) -> str:
    """The first error and its field."""
    mistake = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in mistake["loc"] if part not in UNION_TAGS)
    if mistake["type"] == "missing":
        return f"missing {place} parameter"
    if mistake["type"] == "json_invalid":
        return "the body is not JSON"
    return f"{place or 'the body'} {expectation(mistake)}, got {describe(mistake['input'])}"
