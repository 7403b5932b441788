"""What the server can do, for its clients: LibreTranslate's routes for it."""

from fastapi import APIRouter

from regard.serving.formats.kinds import ENDINGS
from regard.serving.server.models import language_name
from regard.serving.server.routes.described import ASKING, errors
from regard.serving.server.schemas import FrontendSettings, Language, LanguageName, LanguagePair
from regard.serving.server.service import Here

TYPING = 500
"""Milliseconds after a key stroke before a page should ask, as LibreTranslate's own says."""

router = APIRouter(tags=["about"])


@router.get("/languages", response_model=list[Language], responses=errors(*ASKING))
async def languages(service: Here) -> list[Language]:
    """The languages that can be translated from, and into which."""
    models = service.models
    return [
        Language(code=code, name=language_name(code), targets=models.targets(code))
        for code in dict.fromkeys([*models.sources(), *models.targets()])
    ]


@router.get("/frontend/settings", response_model=FrontendSettings, responses=errors(*ASKING))
async def frontend_settings(service: Here) -> FrontendSettings:
    """What a page has to know."""
    source, target = (
        LanguageName(code=code, name=language_name(code))
        for code in service.models.served[0].languages
    )
    return FrontendSettings(
        charLimit=service.settings.max_characters,
        frontendTimeout=TYPING,
        apiKeys=bool(service.keys),
        keyRequired=bool(service.keys),
        alternativesLimit=service.settings.max_alternatives,
        suggestions=False,
        filesTranslation=True,
        supportedFilesFormat=list(ENDINGS),
        language=LanguagePair(source=source, target=target),
    )
