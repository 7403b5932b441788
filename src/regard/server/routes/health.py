"""How the server is, for those who look after it."""

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse, PlainTextResponse

from regard import __version__
from regard.server.routes.openapi_responses import GET_ERRORS, errors
from regard.server.schemas import ReadyStatus, ServerStatus
from regard.server.service import ServiceDep, bearer_token

router = APIRouter(tags=["state"])


@router.get("/health", response_model=ServerStatus, responses=errors(*GET_ERRORS))
async def health() -> ServerStatus:
    """Say that the process lives."""
    return ServerStatus(status="ok")


@router.get("/ready", response_model=ReadyStatus, responses=errors(*GET_ERRORS))
async def ready(request: Request, service: ServiceDep) -> Response:
    """Say whether requests are taken: 503 once the server has been told to stop."""
    stopping = bool(request.app.state.lifecycle.shut)
    found = ReadyStatus(
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
    responses=errors(401, 403, *GET_ERRORS),
)
async def metrics(request: Request, service: ServiceDep) -> Response:
    """Count requests, seconds, batches and tokens, in Prometheus' form."""
    service.check_key(bearer_token(request))
    return Response(service.metrics.text(), media_type=service.metrics.media_type)
