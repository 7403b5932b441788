"""Text -> text, as LibreTranslate has it."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Request

from regard.serving.formats.html import read_html
from regard.serving.server.asking import check_texts, detected, lay_out_aside, wanted
from regard.serving.server.bodies import body
from regard.serving.server.detection import without_tags
from regard.serving.server.documents import translate_documents
from regard.serving.server.models import Served
from regard.serving.server.refusals import RequestError
from regard.serving.server.routes.described import READING, errors, taking
from regard.serving.server.schemas import (
    Detected,
    DetectRequest,
    SuggestRequest,
    Translated,
    TranslateRequest,
)
from regard.serving.server.service import Found, Here, Service, count_tokens
from regard.serving.server.tasks import Translate

router = APIRouter(tags=["translate"])


class Ways(NamedTuple):
    """The best translation of each text, and the others that were asked for."""

    best: list[str]
    others: list[list[str]]


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
    async with service.in_time():
        read = [without_tags(text) for text in texts] if asked.format == "html" else texts
        found = await service.find_models(asked.source, asked.target, read)
        best, others = await _translate_each(service, request, asked, texts, found)
    languages = [one for one in (detected(guess) for _, guess in found) if one]
    if isinstance(asked.q, str):
        return Translated(
            translatedText=best[0],
            alternatives=others[0] if asked.alternatives else None,
            detectedLanguage=languages[0] if languages else None,
        )
    return Translated(
        translatedText=best,
        alternatives=others if asked.alternatives else None,
        detectedLanguage=languages or None,
    )


async def _translate_each(
    service: Service,
    request: Request,
    asked: TranslateRequest,
    texts: Sequence[str],
    found: Sequence[Found],
) -> Ways:
    """What becomes of each text by the model found for it; one without a model stays as it is."""
    ways = Ways(list(texts), [[] for _ in texts])
    for served in dict.fromkeys(one.served for one in found):
        if served is None:
            continue
        places = [place for place, one in enumerate(found) if one.served is served]
        chosen = [texts[place] for place in places]
        best, others = await _translate(service, request, served, asked, chosen)
        for place, text, more in zip(places, best, others, strict=True):
            ways.best[place], ways.others[place] = text, more
    return ways


async def _translate(
    service: Service,
    request: Request,
    served: Served,
    asked: TranslateRequest,
    texts: Sequence[str],
) -> Ways:
    """What becomes of each text; of a document there is one translation."""
    settings = wanted(served, service.settings, alternatives=asked.alternatives)
    if asked.format == "html":
        settings = wanted(served, service.settings, alternatives=0)
        best = await translate_documents(service, request, served, read_html, texts, settings)
        return Ways(best, [[] for _ in texts])
    layout = await lay_out_aside(served, texts, service.settings)
    costs = await count_tokens(served, layout.lines)
    task = Translate(settings, whole=service.settings.sentences is False)
    answers = await service.run(request, served, task, layout.lines, costs)
    return Ways(layout.best(answers), layout.alternatives(answers, asked.alternatives))


@router.post(
    "/detect",
    response_model=list[Detected],
    responses=errors(*READING),
    openapi_extra=taking(DetectRequest),
)
async def detect(
    asked: Annotated[DetectRequest, Depends(body(DetectRequest))], service: Here
) -> list[Detected]:
    """Guess the language of a text: those that the models have learned from, the likeliest first.

    The confidence is low, down to 0, where the text is like none of them.
    """
    check_texts([asked.q], service.settings)
    if not service.detector.languages:
        raise RequestError(400, "no text to detect languages by is at hand on this server")
    return [one for one in map(detected, service.detector.detect(asked.q)) if one]


@router.post(
    "/suggest",
    response_model=None,
    status_code=403,
    responses=errors(*READING),
    openapi_extra=taking(SuggestRequest),
)
async def suggest(
    asked: Annotated[SuggestRequest, Depends(body(SuggestRequest))],
) -> None:
    """Refuse a better translation: this server keeps no texts."""
    raise RequestError(403, "Suggestions are disabled on this server.")
