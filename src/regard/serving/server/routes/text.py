"""Text -> text, as LibreTranslate has it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from regard.serving.server.asking import check_texts, detected, wanted
from regard.serving.server.bodies import body
from regard.serving.server.layout import lay_out
from regard.serving.server.refusals import RequestError
from regard.serving.server.routes.described import READING, errors, taking
from regard.serving.server.schemas import (
    Detected,
    DetectRequest,
    SuggestRequest,
    Translated,
    TranslateRequest,
)
from regard.serving.server.service import Here, count_tokens
from regard.serving.server.tasks import Translate

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
    served, guess = service.find_model(asked.source, asked.target, texts)
    task = Translate(wanted(served, service.settings, alternatives=asked.alternatives))
    layout = lay_out(texts)
    costs = await count_tokens(served, layout.lines)
    answers = await service.run(request, served, task, layout.lines, costs)
    best, language = layout.best(answers), detected(guess)
    others = layout.alternatives(answers, asked.alternatives) if asked.alternatives else None
    if isinstance(asked.q, str):
        return Translated(
            translatedText=best[0],
            alternatives=others[0] if others else None,
            detectedLanguage=language,
        )
    return Translated(
        translatedText=best,
        alternatives=others,
        detectedLanguage=[language] * len(texts) if language else None,
    )


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
