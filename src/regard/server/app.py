"""The ASGI application: routes, page files and middleware."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

import regard.inspection
from regard import __version__
from regard.server.errors import handle_error
from regard.server.middleware.lifecycle import RequestLifecycle
from regard.server.openapi import build_document
from regard.server.routes import attention, files, info, translation
from regard.server.service import Service

PAGE = Path(__file__).parent / "page"
VIEWER_PAGE = Path(regard.inspection.__file__).parent / "viewer"
MIN_COMPRESSED_BYTES = 1024  # shorter responses are not compressed
SWITCH_SECONDS = 0.001  # for which a thread may keep others from running, a fifth of the default
GZIP_LEVEL = 4  # of 9: higher ones take several times as long and save a few percent


def build_app(service: Service) -> FastAPI:
    """The application; send requests to `app.state.lifecycle`, its outermost layer."""
    app = FastAPI(
        title="regard",
        version=__version__,
        summary="Translation, word alignment and attention by your own models.",
        description="The routes under `translate` are LibreTranslate's.",
        docs_url=None,  # its page fetches a script from another host
        redoc_url=None,
        lifespan=_lifespan,
        exception_handlers={HTTPException: handle_error, Exception: handle_error},
    )
    app.add_middleware(GZipMiddleware, minimum_size=MIN_COMPRESSED_BYTES, compresslevel=GZIP_LEVEL)
    if service.settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=service.settings.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.state.service = service
    max_stored = files.MAX_STORED_FILES * service.settings.max_bytes
    app.state.files = files.build_store(service.settings.files, max_stored)
    app.state.lifecycle = RequestLifecycle(app, service.settings, service.metrics, service.overload)
    for module in (translation, files, info, attention):
        app.include_router(module.router)
    app.add_route("/", _page)
    app.add_route("/spec", _spec)
    app.mount("/static/page", StaticFiles(directory=PAGE, check_dir=False))
    app.mount("/static/view", StaticFiles(directory=VIEWER_PAGE, check_dir=False))
    app.openapi = cache(partial(build_document, app, service))  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Run the models' batchers while the server runs; threads give way to its event loop soon."""
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    service: Service = app.state.service
    batchers = [served.batcher for served in service.models.served]
    tasks = [asyncio.create_task(batcher.run()) for batcher in batchers]
    if service.settings.watch:
        tasks.append(asyncio.create_task(service.models.watch(service.settings.watch_every)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for batcher in batchers:
            batcher.close()
        sys.setswitchinterval(switch_interval)


async def _page(request: Request) -> Response:
    return FileResponse(PAGE / "index.html")


async def _spec(request: Request) -> Response:
    """The OpenAPI document, under LibreTranslate's path."""
    return JSONResponse(request.app.openapi())
