"""Text -> text, as LibreTranslate has it."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Request

from regard.pipelines.documents.html import read_html
from regard.server.batch_functions import TranslateLines
from regard.server.errors import RequestError
from regard.server.language_detection import strip_tags
from regard.server.models import ServedModel
from regard.server.request_options import (
    check_texts,
    decoding_settings,
    detected_language,
    segment_texts_async,
)
from regard.server.request_parsing import body
from regard.server.routes.document_translation import translate_documents
from regard.server.routes.openapi_responses import BODY_ERRORS, errors, request_body
from regard.server.schemas import (
    DetectedLanguage,
    DetectRequest,
    SuggestRequest,
    TranslateRequest,
    TranslateResponse,
)
from regard.server.service import ModelMatch, Service, ServiceDep, count_tokens

router = APIRouter(tags=["translate"])


class Translations(NamedTuple):
    """The best translation of each text, and the others that were asked for."""

    best: list[str]
    alternatives_of: list[list[str]]


@router.post(
    "/translate",
    response_model=TranslateResponse,
    response_model_exclude_none=True,
    responses=errors(*BODY_ERRORS),
    openapi_extra=request_body(TranslateRequest),
)
async def translate(
    payload: Annotated[TranslateRequest, Depends(body(TranslateRequest))],
    request: Request,
    service: ServiceDep,
) -> TranslateResponse:
    """Translate a text, or several."""
    texts = [payload.q] if isinstance(payload.q, str) else payload.q
    check_texts(texts, service.settings)
    async with service.time_limit():
        read = [strip_tags(text) for text in texts] if payload.format == "html" else texts
        found = await service.find_models(payload.source, payload.target, read)
        best, alternatives_of = await _translate_each(service, request, payload, texts, found)
    languages = [one for one in (detected_language(guess) for _, guess in found) if one]
    if isinstance(payload.q, str):
        return TranslateResponse(
            translatedText=best[0],
            alternatives=alternatives_of[0] if payload.alternatives else None,
            detectedLanguage=languages[0] if languages else None,
        )
    return TranslateResponse(
        translatedText=best,
        alternatives=alternatives_of if payload.alternatives else None,
        detectedLanguage=languages or None,
    )


async def _translate_each(
    service: Service,
    request: Request,
    payload: TranslateRequest,
    texts: Sequence[str],
    found: Sequence[ModelMatch],
) -> Translations:
    """What becomes of each text by the model found for it; one without a model stays as it is."""
    translations = Translations(list(texts), [[] for _ in texts])
    for served in dict.fromkeys(one.served for one in found):
        if served is None:
            continue
        indices = [index for index, one in enumerate(found) if one.served is served]
        chosen = [texts[index] for index in indices]
        best, alternatives_of = await _translate(service, request, served, payload, chosen)
        for index, text, more in zip(indices, best, alternatives_of, strict=True):
            translations.best[index], translations.alternatives_of[index] = text, more
    return translations


async def _translate(
    service: Service,
    request: Request,
    served: ServedModel,
    payload: TranslateRequest,
    texts: Sequence[str],
) -> Translations:
    """What becomes of each text; of a document there is one translation."""
    settings = decoding_settings(served, service.settings, alternatives=payload.alternatives)
    if payload.format == "html":
        settings = decoding_settings(served, service.settings, alternatives=0)
        best = await translate_documents(service, request, served, read_html, texts, settings)
        return Translations(best, [[] for _ in texts])
    segmented = await segment_texts_async(served, texts, service.settings)
    costs = await count_tokens(served, segmented.lines)
    function = TranslateLines(settings, whole=service.settings.sentences is False)
    answers = await service.run(request, served, function, segmented.lines, costs)
    return Translations(
        segmented.best(answers), segmented.alternatives(answers, payload.alternatives)
    )


@router.post(
    "/detect",
    response_model=list[DetectedLanguage],
    responses=errors(*BODY_ERRORS),
    openapi_extra=request_body(DetectRequest),
)
async def detect(
    payload: Annotated[DetectRequest, Depends(body(DetectRequest))], service: ServiceDep
) -> list[DetectedLanguage]:
    """Guess the language of a text: those that the models have learned from, the likeliest first.

    The confidence is low, down to 0, where the text is like none of them.
    """
    check_texts([payload.q], service.settings)
    if not service.detector.languages:
        raise RequestError(400, "no text to detect languages by is at hand on this server")
    return [one for one in map(detected_language, service.detector.detect(payload.q)) if one]


@router.post(
    "/suggest",
    response_model=None,
    status_code=403,
    responses=errors(*BODY_ERRORS),
    openapi_extra=request_body(SuggestRequest),
)
async def suggest(
    payload: Annotated[SuggestRequest, Depends(body(SuggestRequest))],
) -> None:
    """Refuse a better translation: this server keeps no texts."""
    raise RequestError(403, "Suggestions are disabled on this server.")
