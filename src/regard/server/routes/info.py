"""What the server can do, for its clients: LibreTranslate's routes for it."""

from fastapi import APIRouter

from regard.pipelines.documents.document_formats import FORMAT_OF_SUFFIX
from regard.server.models import language_name
from regard.server.routes.openapi_responses import GET_ERRORS, errors
from regard.server.schemas import FrontendSettings, Language, LanguageName, LanguagePair
from regard.server.service import ServiceDep

TYPING_DELAY_MS = 500
"""Milliseconds after a key stroke before a page should ask, as LibreTranslate's own says."""

router = APIRouter(tags=["about"])


@router.get("/languages", response_model=list[Language], responses=errors(*GET_ERRORS))
async def languages(service: ServiceDep) -> list[Language]:
    """The languages that can be translated from, and into which."""
    models = service.models
    return [
        Language(code=code, name=language_name(code), targets=models.targets(code))
        for code in dict.fromkeys([*models.sources(), *models.targets()])
    ]


@router.get("/frontend/settings", response_model=FrontendSettings, responses=errors(*GET_ERRORS))
async def frontend_settings(service: ServiceDep) -> FrontendSettings:
    """What a page has to know."""
    source, target = (
        LanguageName(code=code, name=language_name(code))
        for code in service.models.served[0].languages
    )
    return FrontendSettings(
        charLimit=service.settings.max_characters,
        frontendTimeout=TYPING_DELAY_MS,
        apiKeys=bool(service.keys),
        keyRequired=bool(service.keys),
        alternativesLimit=service.settings.max_alternatives,
        suggestions=False,
        filesTranslation=True,
        supportedFilesFormat=list(FORMAT_OF_SUFFIX),
        language=LanguagePair(source=source, target=target),
    )
