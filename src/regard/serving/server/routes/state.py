"""How the server is, for those who look after it."""

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse, PlainTextResponse

from regard import __version__
from regard.serving.server.routes.described import ASKING, errors
from regard.serving.server.schemas import ReadyState, State
from regard.serving.server.service import Here, bearer

router = APIRouter(tags=["state"])


@router.get("/health", response_model=State, responses=errors(*ASKING))
async def health() -> State:
    """Say that the process lives."""
    return State(status="ok")


@router.get("/ready", response_model=ReadyState, responses=errors(*ASKING))
async def ready(request: Request, service: Here) -> Response:
    """Say whether requests are taken: 503 once the server has been told to stop."""
    stopping = bool(request.app.state.doors.shut)
    found = ReadyState(
        status="stopping" if stopping else "ok",
        models=[str(one.languages) for one in service.models.served],
        version=__version__,
    )
    if stopping:
        return JSONResponse({"error": "the server is stopping"}, 503, {"Retry-After": "1"})
    return JSONResponse(found.model_dump())


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses=errors(401, 403, *ASKING),
)
async def metrics(request: Request, service: Here) -> Response:
    """Count requests, seconds, batches and tokens, in Prometheus' form."""
    service.check_key(bearer(request))
    return Response(service.metrics.text(), media_type=service.metrics.media_type)
