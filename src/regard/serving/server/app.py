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
from regard.serving.server.doors import Doors
from regard.serving.server.headers import SecurityHeaders
from regard.serving.server.limits import BodyLimits, HeadCheck, allowed_hosts
from regard.serving.server.openapi import describing
from regard.serving.server.refusals import (
    RequestError,
    answer_http,
    answer_mistake,
    answer_refused,
)
from regard.serving.server.routes import about, files, inside, state, stream, text
from regard.serving.server.service import Service

PAGE = Path(__file__).parent / "page"
VIEW = Path(regard.inspection.__file__).parent / "page"
ROUTES = (text, stream, files, about, inside, state)


def build_app(service: Service) -> FastAPI:
    """The application, to be reached through `open_doors`."""
    app = FastAPI(
        title="regard",
        version=__version__,
        summary="Translation, word alignment and attention by models of one's own.",
        description="The routes under `translate` are LibreTranslate's.",
        docs_url=None,  # a page that would fetch its script from elsewhere
        redoc_url=None,
        lifespan=_live,
        middleware=_sharing(service.settings.origins),
        exception_handlers={
            RequestError: answer_refused,
            HTTPException: answer_http,
            Exception: answer_mistake,
        },
    )
    app.state.service = service
    for part in ROUTES:
        app.include_router(part.router)
    app.add_api_route("/", _page, include_in_schema=False)
    app.add_api_route("/spec", _spec, include_in_schema=False)
    app.mount("/static/page", StaticFiles(directory=PAGE, check_dir=False))
    app.mount("/static/view", StaticFiles(directory=VIEW, check_dir=False))
    app.openapi = describing(app, service)  # type: ignore[method-assign]
    return app


def open_doors(app: FastAPI) -> Doors:
    """The application within its layers, the outermost of which is `app.state.doors`."""
    service: Service = app.state.service
    limited = BodyLimits(app, service.settings)
    named = HeadCheck(limited, allowed_hosts(service.settings))
    doors = app.state.doors = Doors(SecurityHeaders(named), service.metrics)
    return doors


def _sharing(origins: tuple[str, ...]) -> list[Middleware]:
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
async def _live(app: FastAPI) -> AsyncIterator[None]:
    """While the server lives, its models' queues are emptied."""
    service: Service = app.state.service
    running = [asyncio.create_task(one.gatherer.run()) for one in service.models.served]
    if service.settings.watch:
        running.append(asyncio.create_task(service.models.watch(service.settings.watch_every)))
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for one in service.models.served:
            one.gatherer.close()


async def _spec(request: Request) -> Response:
    """The OpenAPI document, where LibreTranslate has its own."""
    return JSONResponse(request.app.openapi())


async def _page() -> Response:
    """The page."""
    return FileResponse(PAGE / "index.html")
