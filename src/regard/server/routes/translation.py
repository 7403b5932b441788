"""LibreTranslate's routes for texts (translate, detect, suggest), and translations as streams."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from regard.server.batch_functions import TranslateLines
from regard.server.batcher import PendingRequest
from regard.server.errors import RequestError
from regard.server.language_detection import LanguageGuess, strip_tags
from regard.server.openapi import describe_body
from regard.server.request_parsing import JSON, read_body
from regard.server.routes.files import translate_documents
from regard.server.schemas import (
    DetectedLanguage,
    DetectRequest,
    SentencePair,
    StreamRequest,
    StreamResult,
    SuggestRequest,
    TranslateRequest,
    TranslateResponse,
)
from regard.server.served_models import ServedModel
from regard.server.service import SegmentedTexts, Service, ServiceDep, token_costs
from regard.tasks.families.answer import Answer
from regard.tasks.translation.documents.html import read_html

EVENT_STREAM = "text/event-stream"
EVENT_SCHEMA = {
    "description": "One event.",
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["partial", "done", "error"]},
        "data": {"type": "string", "contentMediaType": JSON},
    },
}
STREAM_ROUTE = describe_body(StreamRequest)
STREAM_ROUTE["responses"][200] = {
    "description": "`partial` events with `{text}` while the search runs, each of which may change "
    "earlier text; then one `done` with the response of /translate and `sentences`, each with its "
    "`source` and `target`; or one `error` with `{error}`.",
    "content": {EVENT_STREAM: {"schema": EVENT_SCHEMA}},
}

router = APIRouter(tags=["translate"])


@router.post("/translate", response_model_exclude_none=True, **describe_body(TranslateRequest))
async def translate(request: Request, service: ServiceDep) -> TranslateResponse:
    """Translate a text, or several."""
    payload = await read_body(request, service, TranslateRequest)
    texts = [payload.q] if isinstance(payload.q, str) else payload.q
    service.check_texts(texts)
    translations = [[text] for text in texts]  # a text without a model stays unchanged
    async with service.time_limit(request):
        visible = [strip_tags(text) for text in texts] if payload.format == "html" else texts
        matches = await service.find_models(payload.source, payload.target, visible)
        for served in dict.fromkeys(match.served for match in matches if match.served):
            indices = [index for index, match in enumerate(matches) if match.served is served]
            chosen = [texts[index] for index in indices]
            translated = await _translate(service, request, served, payload, chosen)
            for index, ranked in zip(indices, translated, strict=True):
                translations[index] = ranked
    languages = [DetectedLanguage.of(match.guess) for match in matches if match.guess]
    best = [ranked[0] for ranked in translations]
    others = [ranked[1:] for ranked in translations] if payload.alternatives else None
    if isinstance(payload.q, str):  # single text: unwrap each list
        return TranslateResponse(
            translatedText=best[0],
            alternatives=others[0] if others else None,
            detectedLanguage=languages[0] if languages else None,
        )
    return TranslateResponse(
        translatedText=best, alternatives=others, detectedLanguage=languages or None
    )


async def _translate(
    service: Service,
    request: Request,
    served: ServedModel,
    payload: TranslateRequest,
    texts: Sequence[str],
) -> list[list[str]]:
    """The translations of each text, the best first; for HTML only the best."""
    translator = served.translator
    settings = service.decoding_settings(translator, payload.alternatives)
    if payload.format == "html":
        best = await translate_documents(service, request, served, read_html, texts)
        return [[text] for text in best]
    segmented, lines = await service.tokenize(request, served, texts)
    function = TranslateLines(translator, settings, whole=service.settings.sentences is False)
    answers = await service.run(request, served, function, lines, token_costs(lines))
    return segmented.translations(answers, payload.alternatives + 1)


@router.post("/translate/stream", response_class=StreamingResponse, **STREAM_ROUTE)
async def translate_stream(request: Request, service: ServiceDep) -> Response:
    """Translate a text and stream partial translations meanwhile."""
    payload = await read_body(request, service, StreamRequest)
    service.check_texts([payload.q])
    async with service.time_limit(request):
        [(served, guess)] = await service.find_models(payload.source, payload.target, [payload.q])
        if served is None:  # the text is returned unchanged
            return Response(_done_event(payload, guess, [payload.q]), media_type=EVENT_STREAM)
        translator = served.translator
        settings = service.decoding_settings(translator, payload.alternatives)
        segmented, lines = await service.tokenize(request, served, [payload.q])
    whole_lines = service.settings.sentences is False
    function = TranslateLines(translator, settings, streamed=True, whole=whole_lines)
    pending = service.submit(request, served, function, lines, token_costs(lines))
    pending.future.add_done_callback(lambda _: pending.changed.set())

    def done_event(answers: Sequence[Answer]) -> str:
        [translations] = segmented.translations(answers, payload.alternatives + 1)
        sentences = [
            SentencePair(source=line, target=answer.text)
            for line, answer in zip(segmented.lines, answers, strict=True)
        ]
        return _done_event(payload, guess, translations, sentences)

    events = _events(service, pending, segmented, done_event)
    return StreamingResponse(events, media_type=EVENT_STREAM)


async def _events(
    service: Service,
    pending: PendingRequest,
    segmented: SegmentedTexts,
    done_event: Callable[[Sequence[Answer]], str],
) -> AsyncIterator[str]:
    """The events of a stream; a client that reads slowly gets fewer partial texts.

    If it disconnects, its request leaves the queue.
    """
    future, changed = pending.future, pending.changed
    try:
        while not future.done():
            async with asyncio.timeout_at(pending.deadline):
                await changed.wait()
            changed.clear()
            if not future.done():
                lines = [pending.partial_texts.get(n, "") for n in range(len(pending.items))]
                yield _event("partial", {"text": segmented.join(lines)[0]})
        yield done_event(future.result())
    except TimeoutError:
        future.cancel()
        yield _event("error", {"error": service.timeout_error().detail})
    except RequestError as error:
        yield _event("error", {"error": error.detail})
    finally:
        if future.cancel():
            service.metrics.dropped.labels("left").inc()


def _done_event(
    payload: StreamRequest,
    guess: LanguageGuess | None,
    translations: Sequence[str],
    sentences: Sequence[SentencePair] = (),
) -> str:
    best, *alternatives = translations
    result = StreamResult(
        translatedText=best,
        alternatives=alternatives if payload.alternatives else None,
        detectedLanguage=DetectedLanguage.of(guess) if guess else None,
        sentences=list(sentences),
    )
    return _event("done", result.model_dump(exclude_none=True))


def _event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


@router.post("/detect", **describe_body(DetectRequest))
async def detect(request: Request, service: ServiceDep) -> list[DetectedLanguage]:
    """Detect the language of a text, among those of the models' training data, the likeliest first.

    The confidence is low, down to 0, if the text resembles none of them.
    """
    payload = await read_body(request, service, DetectRequest)
    service.check_texts([payload.q])
    if not service.detector.languages:
        raise RequestError(400, "this server has no texts to detect languages with")
    guesses = await service.compute(len(payload.q), partial(service.detector.detect, payload.q))
    return [DetectedLanguage.of(guess) for guess in guesses]


@router.post("/suggest", response_model=None, status_code=403, **describe_body(SuggestRequest))
async def suggest(request: Request, service: ServiceDep) -> None:
    """Refuse a suggested translation: this server stores no texts."""
    await read_body(request, service, SuggestRequest)
    raise RequestError(403, "Suggestions are disabled on this server.")
