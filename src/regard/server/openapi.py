"""The OpenAPI document: FastAPI's own, plus request bodies, errors and this server's limits."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from regard.server.request_parsing import FORM, JSON, MULTIPART
from regard.server.schemas import AlignRequest, ErrorResponse, KeyedRequest, SuggestRequest
from regard.server.service import AUTO, Service

ERROR_DESCRIPTIONS = {
    400: "Something in the request is wrong, or this server has no such languages.",
    401: "An API key is required.",
    403: "The API key is not valid.",
    404: "Not found.",
    408: "The request arrived too slowly.",
    413: "The request is too long.",
    415: "The media type of the body is not supported.",
    429: "Too many requests from one client; Retry-After says when to try again.",
    500: "Internal error of the server.",
    503: "More is asked than can be answered in time, or the server is stopping; Retry-After says "
    "when to try again.",
    504: "The answer took too long.",
}
BODY_ERRORS = (400, 401, 403, 408, 413, 415, 429, 500, 503, 504)  # routes with a body
GET_ERRORS = (400, 500, 503)  # and without one

Responses = dict[int | str, dict[str, Any]]


def error_responses(*statuses: int) -> Responses:
    """The descriptions of a route's errors."""
    responses: Responses = {}
    for status in statuses:
        responses[status] = {"model": ErrorResponse, "description": ERROR_DESCRIPTIONS[status]}
        if status in (429, 503):
            retry = {"description": "Seconds to wait.", "schema": {"type": "integer"}}
            responses[status]["headers"] = {"Retry-After": retry}
    return responses


def describe_body(
    request_type: type[BaseModel], *content_types: str, encoding: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The arguments of a route with a body that `request_parsing` reads instead of FastAPI."""
    schema: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{request_type.__name__}"}}
    if encoding:
        schema["encoding"] = encoding
    content = dict.fromkeys(content_types or (JSON, FORM, MULTIPART), schema)
    return {
        "responses": error_responses(*BODY_ERRORS),
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


def build_document(app: FastAPI, service: Service) -> dict[str, Any]:
    """The OpenAPI document of this server."""
    document = FastAPI.openapi(app)
    request_types: list[type[BaseModel]] = [*KeyedRequest.__subclasses__()]
    _, request_schemas = models_json_schema(
        [(request_type, "validation") for request_type in request_types],
        ref_template="#/components/schemas/{model}",
    )
    components = document["components"]["schemas"] | request_schemas["$defs"]
    for request_type in request_types:
        _add_limits(components[request_type.__name__]["properties"], service, request_type)
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)  # ours is 400
    document["components"]["schemas"] = components
    if service.access.needs_key:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}, {}]
    return document


def _add_limits(fields: dict[str, Any], service: Service, request_type: type[BaseModel]) -> None:
    """Add the languages and limits of this server to the fields of a request."""
    settings, models = service.settings, service.models
    if "source" in fields and request_type is not SuggestRequest:
        automatic = [] if request_type is AlignRequest else [AUTO]
        fields["source"]["enum"] = [*automatic, *models.sources()]
        fields["target"]["enum"] = models.targets()
    for name in ("q", "translation"):
        for variant in fields.get(name, {}).get("oneOf", [fields.get(name, {})]):
            if variant.get("type") == "string":
                variant["maxLength"] = settings.max_characters
            elif variant.get("type") == "array":
                variant["maxItems"] = settings.max_texts
                variant["items"]["maxLength"] = settings.max_characters
    if "alternatives" in fields:
        fields["alternatives"]["maximum"] = settings.max_alternatives
    if "beam" in fields:
        fields["beam"]["anyOf"][0]["maximum"] = settings.max_beam
