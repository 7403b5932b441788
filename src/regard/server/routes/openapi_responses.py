"""What OpenAPI says of the routes."""

from typing import Any

from pydantic import BaseModel

from regard.server.request_parsing import FORM, JSON, MULTIPART
from regard.server.schemas import ErrorResponse

ERROR_DESCRIPTIONS = {
    400: "Something in the request is wrong, or this server has no such languages.",
    401: "A key is needed.",
    403: "The key is not known.",
    404: "There is no such thing.",
    408: "The request came too slowly.",
    413: "The request is too long.",
    415: "The body is of a kind that is not understood.",
    429: "Too many requests came from one client; Retry-After says when to come again.",
    500: "The server made a mistake.",
    503: "Too many requests wait, or the server is stopping; Retry-After says when to come again.",
    504: "The answer took too long.",
}
BODY_ERRORS = (400, 401, 403, 408, 413, 415, 429, 500, 503, 504)
"""What can become of a request with a body."""
GET_ERRORS = (400, 500, 503)
"""What can become of one without."""

Responses = dict[int | str, dict[str, Any]]


def errors(*statuses: int) -> Responses:
    """The errors that a route may answer with."""
    found: Responses = {}
    for status in statuses:
        found[status] = {"model": ErrorResponse, "description": ERROR_DESCRIPTIONS[status]}
        if status in (429, 503):
            retry = {"description": "Seconds to wait.", "schema": {"type": "integer"}}
            found[status]["headers"] = {"Retry-After": retry}
    return found


def request_body(request_type: type[BaseModel], *content_types: str) -> dict[str, Any]:
    """A body of a shape, as JSON or a form; `openapi.py` puts the shape into the document."""
    schema = {"$ref": f"#/components/schemas/{request_type.__name__}"}
    content = {
        content_type: {"schema": schema}
        for content_type in content_types or (JSON, FORM, MULTIPART)
    }
    return {"requestBody": {"required": True, "content": content}}
