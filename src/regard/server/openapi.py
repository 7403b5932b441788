"""The OpenAPI document: what the framework finds out, and what only this server knows."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from regard.server import schemas
from regard.server.service import AUTO, Service

REQUEST_TYPES: tuple[type[BaseModel], ...] = (
    schemas.TranslateRequest,
    schemas.StreamRequest,
    schemas.DetectRequest,
    schemas.SuggestRequest,
    schemas.AttentionRequest,
    schemas.AlignRequest,
    schemas.FileRequest,
)
"""The shapes of bodies, which we read ourselves: as JSON or as forms."""


def openapi_builder(app: FastAPI, service: Service) -> Callable[[], dict[str, Any]]:
    """A function that gives the document, made once."""

    def build() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _build_document(app, service)
        return app.openapi_schema

    return build


def _build_document(app: FastAPI, service: Service) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
    )
    _, request_schemas = models_json_schema(
        [(request_type, "validation") for request_type in REQUEST_TYPES],
        ref_template="#/components/schemas/{model}",
    )
    components = document["components"]["schemas"] | request_schemas["$defs"]
    for request_type in REQUEST_TYPES:
        _add_limits(components[request_type.__name__]["properties"], service, request_type)
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)  # ours is 400, and described
    document["components"]["schemas"] = components
    if service.keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}, {}]
    return document


def _add_limits(fields: dict[str, Any], service: Service, request_type: type[BaseModel]) -> None:
    """Say of a shape what the settings and the models of this server allow."""
    settings, models = service.settings, service.models
    if "source" in fields and request_type is not schemas.SuggestRequest:
        aligning = request_type is schemas.AlignRequest
        fields["source"]["enum"] = [*([] if aligning else [AUTO]), *models.sources()]
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
