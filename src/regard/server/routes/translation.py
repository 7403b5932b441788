"""LibreTranslate's routes for texts: translate, detect, suggest."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from regard.pipelines.documents.html import read_html
from regard.server.batch_functions import TranslateLines
from regard.server.errors import RequestError
from regard.server.language_detection import strip_tags
from regard.server.models import ServedModel
from regard.server.openapi import describe_body
from regard.server.request_parsing import (
    DetectRequest,
    SuggestRequest,
    TranslateRequest,
    parsed_body,
)
from regard.server.routes.files import translate_documents
from regard.server.schemas import DetectedLanguage, TranslateResponse
from regard.server.service import Service, ServiceDep, token_costs, tokenize

router = APIRouter(tags=["translate"])


@router.post("/translate", response_model_exclude_none=True, **describe_body(TranslateRequest))
async def translate(
    payload: Annotated[TranslateRequest, Depends(parsed_body(TranslateRequest))],
    request: Request,
    service: ServiceDep,
) -> TranslateResponse:
    """Translate a text, or several."""
    texts = [payload.q] if isinstance(payload.q, str) else payload.q
    service.check_texts(texts)
    translations = [[text] for text in texts]  # one without a model stays as it is
    async with service.time_limit():
        visible = [strip_tags(text) for text in texts] if payload.format == "html" else texts
        matches = await service.find_models(payload.source, payload.target, visible)
        for served in dict.fromkeys(match.served for match in matches if match.served):
            indices = [index for index, match in enumerate(matches) if match.served is served]
            chosen = [texts[index] for index in indices]
            translated = await _translate(service, request, served, payload, chosen)
            for index, ranked in zip(indices, translated, strict=True):
                translations[index] = ranked
    languages = [DetectedLanguage.of(match.guess) for match in matches if match.guess]
    response = TranslateResponse(
        translatedText=[best for best, *_ in translations],
        alternatives=[more for _, *more in translations] if payload.alternatives else None,
        detectedLanguage=languages or None,
    )
    if isinstance(payload.q, str):
        return TranslateResponse(**{name: values[0] for name, values in response if values})
    return response


async def _translate(
    service: Service,
    request: Request,
    served: ServedModel,
    payload: TranslateRequest,
    texts: Sequence[str],
) -> list[list[str]]:
    """The translations of each text, the best first; of HTML only that one."""
    translator = served.translator
    settings = service.decoding_settings(translator, payload.alternatives)
    if payload.format == "html":
        best = await translate_documents(service, request, served, read_html, texts)
        return [[text] for text in best]
    segmented = await service.segment(translator, texts)
    lines = await tokenize(translator, segmented.lines)
    whole_lines = service.settings.sentences is False
    function = TranslateLines(translator, settings, whole=whole_lines)
    answers = await service.run(request, served, function, lines, token_costs(lines))
    return segmented.translations(answers, payload.alternatives + 1)


@router.post("/detect", **describe_body(DetectRequest))
async def detect(
    payload: Annotated[DetectRequest, Depends(parsed_body(DetectRequest))], service: ServiceDep
) -> list[DetectedLanguage]:
    """Guess the language of a text: those that the models have learned from, the likeliest first.

    The confidence is low, down to 0, where the text is like none of them.
    """
    service.check_texts([payload.q])
    if not service.detector.languages:
        raise RequestError(400, "no text to detect languages by is at hand on this server")
    return [DetectedLanguage.of(guess) for guess in service.detector.detect(payload.q)]


@router.post("/suggest", response_model=None, status_code=403, **describe_body(SuggestRequest))
async def suggest(
    payload: Annotated[SuggestRequest, Depends(parsed_body(SuggestRequest))],
) -> None:
    """Refuse a better translation: this server keeps no texts."""
    raise RequestError(403, "Suggestions are disabled on this server.")
