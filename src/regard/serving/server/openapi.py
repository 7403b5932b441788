"""The OpenAPI document: what the framework finds out, and what only this server knows."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from regard.serving.server import schemas
from regard.serving.server.service import AUTO, Service

TAKEN: tuple[type[BaseModel], ...] = (
    schemas.TranslateRequest,
    schemas.StreamRequest,
    schemas.DetectRequest,
    schemas.SuggestRequest,
    schemas.AttentionRequest,
    schemas.AlignRequest,
    schemas.FileRequest,
)
"""The shapes of bodies, which we read ourselves: as JSON or as forms."""


def describing(app: FastAPI, service: Service) -> Callable[[], dict[str, Any]]:
    """A function that gives the document, made once."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, service)
        return app.openapi_schema

    return describe


def _document(app: FastAPI, service: Service) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
    )
    _, taken = models_json_schema(
        [(shape, "validation") for shape in TAKEN], ref_template="#/components/schemas/{model}"
    )
    shapes = document["components"]["schemas"] | taken["$defs"]
    for shape in TAKEN:
        _narrow(shapes[shape.__name__]["properties"], service, shape)
    for name in ("HTTPValidationError", "ValidationError"):
        shapes.pop(name, None)
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)  # ours is 400, and described
    document["components"]["schemas"] = shapes
    if service.keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}, {}]
    return document


def _narrow(fields: dict[str, Any], service: Service, shape: type[BaseModel]) -> None:
    """Say of a shape what the settings and the models of this server allow."""
    settings, models = service.settings, service.models
    if "source" in fields and shape is not schemas.SuggestRequest:
        aligning = shape is schemas.AlignRequest
        fields["source"]["enum"] = [*([] if aligning else [AUTO]), *models.sources()]
        fields["target"]["enum"] = models.targets()
    for name in ("q", "translation"):
        for way in fields.get(name, {}).get("oneOf", [fields.get(name, {})]):
            if way.get("type") == "string":
                way["maxLength"] = settings.max_characters
            elif way.get("type") == "array":
                way["maxItems"] = settings.max_texts
                way["items"]["maxLength"] = settings.max_characters
    if "alternatives" in fields:
        fields["alternatives"]["maximum"] = settings.max_alternatives
    if "beam" in fields:
        fields["beam"]["anyOf"][0]["maximum"] = settings.max_beam
