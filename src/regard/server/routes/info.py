"""Routes without a body: LibreTranslate's about languages and settings; health and metrics."""

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import PlainTextResponse

from regard import __version__
from regard.server.errors import RequestError
from regard.server.openapi import GET_ERRORS, error_responses
from regard.server.schemas import (
    Example,
    FrontendSettings,
    Language,
    LanguageName,
    LanguagePair,
    ReadyStatus,
    ServerStatus,
)
from regard.server.served_models import language_name
from regard.server.service import ServiceDep
from regard.tasks.translation.documents.document_formats import FORMAT_OF_SUFFIX

TYPING_DELAY_MS = 500  # from a keystroke to a page's request, as in LibreTranslate

router = APIRouter(responses=error_responses(*GET_ERRORS))


@router.get("/languages", tags=["about"])
async def languages(service: ServiceDep) -> list[Language]:
    """The languages that can be translated, and the target languages of each."""
    models = service.models
    return [
        Language(code=code, name=language_name(code), targets=models.targets(code))
        for code in dict.fromkeys([*models.sources(), *models.targets()])
    ]


@router.get("/frontend/settings", tags=["about"])
async def frontend_settings(service: ServiceDep) -> FrontendSettings:
    """The settings that a page needs."""
    source, target = (
        LanguageName(code=code, name=language_name(code))
        for code in service.models.served[0].languages
    )
    return FrontendSettings(
        charLimit=service.settings.max_characters,
        frontendTimeout=TYPING_DELAY_MS,
        apiKeys=service.access.needs_key,
        keyRequired=service.access.needs_key,
        alternativesLimit=service.settings.max_alternatives,
        suggestions=False,
        filesTranslation=True,
        supportedFilesFormat=list(FORMAT_OF_SUFFIX),
        language=LanguagePair(source=source, target=target),
        examples=[
            Example(**served.languages._asdict(), text=text)
            for served in service.models.served
            for text in served.examples
        ],
    )


@router.get("/health", tags=["state"])
async def health() -> ServerStatus:
    """Report that the process is alive."""
    return ServerStatus()


@router.get("/ready", tags=["state"])
async def ready(request: Request, service: ServiceDep) -> ReadyStatus:
    """Report whether requests are accepted: 503 once the server has been told to stop."""
    if request.app.state.lifecycle.stopping:
        raise RequestError(503, "the server is stopping", retry_after=1)
    models = [str(one.languages) for one in service.models.served]
    return ReadyStatus(models=models, version=__version__)


@router.get(
    "/metrics",
    tags=["state"],
    response_class=PlainTextResponse,
    responses=error_responses(401, 403),
)
async def metrics(request: Request, service: ServiceDep) -> Response:
    """Counts of requests, seconds, batches and tokens, in Prometheus' format."""
    service.access.authorize(request, counted=False)
    return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)
