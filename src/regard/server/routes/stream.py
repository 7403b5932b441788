"""A translation while the search runs, as server-sent events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from starlette.responses import StreamingResponse

from regard.pipelines.answer import Answer
from regard.server.batch_functions import TranslateLines
from regard.server.batcher import PendingRequest
from regard.server.errors import RequestError
from regard.server.language_detection import LanguageGuess
from regard.server.openapi import describe_body
from regard.server.request_parsing import JSON, StreamRequest, parsed_body
from regard.server.schemas import DetectedLanguage, SentencePair, StreamResult
from regard.server.service import SegmentedTexts, Service, ServiceDep, token_costs, tokenize

EVENT_STREAM = "text/event-stream"
STREAM_DESCRIPTION = {
    "description": "`partial` events with `{text}` while the search runs, which may take back what "
    "it said; then one `done` with what /translate answers and `sentences`, each with its "
    "`source` and `target`; or one `error` with `{error}`.",
    "content": {
        EVENT_STREAM: {
            "schema": {
                "description": "One event.",
                "type": "object",
                "required": ["event", "data"],
                "properties": {
                    "event": {"enum": ["partial", "done", "error"]},
                    "data": {"type": "string", "contentMediaType": JSON},
                },
            }
        }
    },
}
ROUTE = describe_body(StreamRequest)
ROUTE["responses"][200] = STREAM_DESCRIPTION

router = APIRouter(tags=["translate"])


@router.post("/translate/stream", response_class=StreamingResponse, **ROUTE)
async def translate_stream(
    payload: Annotated[StreamRequest, Depends(parsed_body(StreamRequest))], service: ServiceDep
) -> Response:
    """Translate a text and tell what there is of its translation as it grows."""
    service.check_texts([payload.q])
    deadline = time.monotonic() + service.settings.timeout
    async with service.time_limit():
        [(served, guess)] = await service.find_models(payload.source, payload.target, [payload.q])
        if served is None:  # the text comes back as it is
            return Response(_done_event(payload, guess, [payload.q]), media_type=EVENT_STREAM)
        translator = served.translator
        settings = service.decoding_settings(translator, payload.alternatives)
        segmented = await service.segment(translator, [payload.q])
        lines = await tokenize(translator, segmented.lines)
    whole_lines = service.settings.sentences is False
    function = TranslateLines(translator, settings, streamed=True, whole=whole_lines)
    pending = served.batcher.submit(function, lines, token_costs(lines))
    pending.future.add_done_callback(lambda _: pending.changed.set())

    def done_event(answers: Sequence[Answer]) -> str:
        [translations] = segmented.translations(answers, payload.alternatives + 1)
        sentences = [
            SentencePair(source=line, target=answer.text)
            for line, answer in zip(segmented.lines, answers, strict=True)
        ]
        return _done_event(payload, guess, translations, sentences)

    events = _events(service, pending, segmented, done_event, deadline)
    return StreamingResponse(events, media_type=EVENT_STREAM)


async def _events(
    service: Service,
    pending: PendingRequest,
    segmented: SegmentedTexts,
    done_event: Callable[[Sequence[Answer]], str],
    deadline: float,
) -> AsyncIterator[str]:
    """The events of a stream; a client that reads slowly gets fewer partial texts.

    If the client disconnects, its request leaves the queue.
    """
    future, changed = pending.future, pending.changed
    try:
        while not future.done():
            await asyncio.wait_for(changed.wait(), max(0.0, deadline - time.monotonic()))
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
