"""The parts of the server, put together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

import regard.inspection
from regard import __version__
from regard.server.errors import (
    RequestError,
    handle_http_exception,
    handle_request_error,
    handle_unexpected_error,
)
from regard.server.middleware.lifecycle import RequestLifecycle
from regard.server.middleware.limits import BodyLimits, HeaderCheck, allowed_hosts
from regard.server.middleware.security_headers import SecurityHeaders
from regard.server.openapi import openapi_builder
from regard.server.routes import attention, files, health, info, stream, translation
from regard.server.service import Service

PAGE = Path(__file__).parent / "page"
VIEWER_PAGE = Path(regard.inspection.__file__).parent / "viewer"
ROUTE_MODULES = (translation, stream, files, info, attention, health)


def build_app(service: Service) -> FastAPI:
    """The application, to be reached through `open_doors`."""
    app = FastAPI(
        title="regard",
        version=__version__,
        summary="Translation, word alignment and attention by models of one's own.",
        description="The routes under `translate` are LibreTranslate's.",
        docs_url=None,  # a page that would fetch its script from elsewhere
        redoc_url=None,
        lifespan=_lifespan,
        middleware=_cors_middleware(service.settings.origins),
        exception_handlers={
            RequestError: handle_request_error,
            HTTPException: handle_http_exception,
            Exception: handle_unexpected_error,
        },
    )
    app.state.service = service
    for part in ROUTE_MODULES:
        app.include_router(part.router)
    app.add_api_route("/", _page, include_in_schema=False)
    app.add_api_route("/spec", _spec, include_in_schema=False)
    app.mount("/static/page", StaticFiles(directory=PAGE, check_dir=False))
    app.mount("/static/view", StaticFiles(directory=VIEWER_PAGE, check_dir=False))
    app.openapi = openapi_builder(app, service)  # type: ignore[method-assign]
    return app


def wrap_in_middleware(app: FastAPI) -> RequestLifecycle:
    """The application within its layers, the outermost of which is `app.state.doors`."""
    service: Service = app.state.service
    limited = BodyLimits(app, service.settings)
    checked = HeaderCheck(limited, allowed_hosts(service.settings))
    lifecycle = app.state.lifecycle = RequestLifecycle(SecurityHeaders(checked), service.metrics)
    return lifecycle


def _cors_middleware(origins: tuple[str, ...]) -> list[Middleware]:
    """What lets pages of some origins read answers."""
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    ]


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """While the server lives, its models' queues are emptied."""
    service: Service = app.state.service
    running = [asyncio.create_task(one.batcher.run()) for one in service.models.served]
    if service.settings.watch:
        running.append(asyncio.create_task(service.models.watch(service.settings.watch_every)))
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for one in service.models.served:
            one.batcher.close()


async def _spec(request: Request) -> Response:
    """The OpenAPI document, where LibreTranslate has its own."""
    return JSONResponse(request.app.openapi())


async def _page() -> Response:
    """The page."""
    return FileResponse(PAGE / "index.html")
