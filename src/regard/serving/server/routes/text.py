"""Text -> text: LibreTranslate's routes for it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from regard.decoding.search import DecodingSettings
from regard.serving.searching import search_settings
from regard.serving.server.bodies import body
from regard.serving.server.layout import lay_out
from regard.serving.server.models import Served, language_name
from regard.serving.server.refusals import RequestError
from regard.serving.server.routes.described import ASKING, READING, errors, taking
from regard.serving.server.schemas import (
    FrontendSettings,
    Language,
    LanguageName,
    LanguagePair,
    SuggestRequest,
    Translated,
    TranslateRequest,
)
from regard.serving.server.service import Here, Service, count_tokens
from regard.serving.server.settings import ServerSettings
from regard.serving.server.tasks import Translate

TYPING = 500
"""Milliseconds after a key stroke before a page should ask, as LibreTranslate's own says."""

router = APIRouter(tags=["translate"])


@router.post(
    "/translate",
    response_model=Translated,
    response_model_exclude_none=True,
    responses=errors(*READING),
    openapi_extra=taking(TranslateRequest),
)
async def translate(
    asked: Annotated[TranslateRequest, Depends(body(TranslateRequest))],
    request: Request,
    service: Here,
) -> Translated:
    """Translate a text, or several."""
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    check_texts(texts, service.settings)
    check_alternatives(asked.alternatives, service.settings)
    served = service.models.find(asked.source, asked.target)
    layout = lay_out(texts)
    task = Translate(wanted(served, alternatives=asked.alternatives))
    costs = await count_tokens(served, layout.lines)
    job = served.gatherer.submit(task, layout.lines, costs)
    answers = await service.wait(request, job)
    found, others = layout.join(answers), None
    if asked.alternatives:
        others = layout.alternatives(answers, asked.alternatives)
    if isinstance(asked.q, str):
        return Translated(translatedText=found[0], alternatives=others[0] if others else None)
    return Translated(translatedText=found, alternatives=others)


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
    source, target = service.models.served[0].languages
    return FrontendSettings(
        charLimit=service.settings.max_characters,
        frontendTimeout=TYPING,
        apiKeys=bool(service.keys),
        keyRequired=bool(service.keys),
        suggestions=False,
        filesTranslation=False,
        supportedFilesFormat=[],
        language=LanguagePair(
            source=LanguageName(code=source, name=language_name(source)),
            target=LanguageName(code=target, name=language_name(target)),
        ),
    )


@router.post(
    "/suggest",
    responses=errors(*READING),
    status_code=403,
    openapi_extra=taking(SuggestRequest),
)
async def suggest(
    asked: Annotated[SuggestRequest, Depends(body(SuggestRequest))], service: Here
) -> None:
    """Refuse a better translation: this server keeps no texts."""
    raise RequestError(403, "Suggestions are disabled on this server.")


def wanted(served: Served, *, alternatives: int, beam: int | None = None) -> DecodingSettings:
    """How to search: as the recipe says, but always by a beam, so that alike gives alike."""
    recipe = served.translator.settings
    width = max(beam or recipe.beam.size, alternatives + 1)
    return search_settings(recipe, beam=width, n_best=alternatives + 1)


def check_texts(texts: list[str], settings: ServerSettings) -> None:
    """A refusal of too many texts, or of a text that is too long."""
    if len(texts) > settings.max_texts:
        raise RequestError(
            400,
            f"Invalid request: {len(texts)} texts exceed the limit of {settings.max_texts}",
        )
    longest = max(map(len, texts))
    if longest > settings.max_characters:
        raise RequestError(
            400,
            f"Invalid request: request ({longest}) exceeds text limit ({settings.max_characters})",
        )


def check_alternatives(number: int, settings: ServerSettings) -> None:
    """A refusal of too many alternatives."""
    if number > settings.max_alternatives:
        raise RequestError(
            400, f"Invalid request: alternatives must be at most {settings.max_alternatives}"
        )


__all__ = ["Service", "router"]
