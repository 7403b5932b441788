"""A translation while it is made, as server-sent events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends
from starlette.responses import StreamingResponse

from regard.pipelines.answer import Answer
from regard.server.batch_functions import TranslateLines
from regard.server.batcher import PendingRequest
from regard.server.errors import RequestError
from regard.server.language_detection import LanguageGuess
from regard.server.request_options import (
    check_texts,
    decoding_settings,
    detected_language,
    segment_texts_async,
)
from regard.server.request_parsing import JSON, body
from regard.server.routes.openapi_responses import BODY_ERRORS, errors, request_body
from regard.server.schemas import DetectedLanguage, SentencePair, StreamRequest, StreamResult
from regard.server.segmented_texts import SegmentedTexts
from regard.server.service import Service, ServiceDep, count_tokens

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

router = APIRouter(tags=["translate"])


class PartialUpdate(NamedTuple):
    """What a line has become."""

    line: int
    text: str


@router.post(
    "/translate/stream",
    response_class=StreamingResponse,
    responses={200: STREAM_DESCRIPTION, **errors(*BODY_ERRORS)},
    openapi_extra=request_body(StreamRequest),
)
async def translate_stream(
    payload: Annotated[StreamRequest, Depends(body(StreamRequest))], service: ServiceDep
) -> StreamingResponse:
    """Translate a text and tell what there is of its translation as it grows."""
    check_texts([payload.q], service.settings)
    deadline = time.monotonic() + service.settings.timeout
    async with service.time_limit():
        [(served, guess)] = await service.find_models(payload.source, payload.target, [payload.q])
        if served is None:
            return StreamingResponse(_unchanged(payload, guess), media_type=EVENT_STREAM)
        settings = decoding_settings(served, service.settings, alternatives=payload.alternatives)
        segmented = await segment_texts_async(served, [payload.q], service.settings)
        costs = await count_tokens(served, segmented.lines)
    updates = asyncio.Queue[PartialUpdate | None]()
    loop = asyncio.get_running_loop()

    def put_update(index: int, text: str) -> None:  # by the model's thread
        loop.call_soon_threadsafe(updates.put_nowait, PartialUpdate(index, text))

    function = TranslateLines(settings, streamed=True, whole=service.settings.sentences is False)
    pending = served.batcher.submit(function, segmented.lines, costs, put_update)
    pending.done.add_done_callback(lambda _: updates.put_nowait(None))
    final_event = FinalEvent(segmented, payload.alternatives, detected_language(guess))
    events = _events(service, pending, final_event, updates, deadline)
    return StreamingResponse(events, media_type=EVENT_STREAM)


async def _unchanged(payload: StreamRequest, guess: LanguageGuess | None) -> AsyncIterator[str]:
    """What a client is sent whose text is in the target language already."""
    done = StreamResult(
        translatedText=payload.q,
        alternatives=[] if payload.alternatives else None,
        detectedLanguage=detected_language(guess),
        sentences=[],
    )
    yield _format_event("done", done.model_dump(exclude_none=True))


class FinalEvent(NamedTuple):
    """How the end of a stream is written."""

    segmented: SegmentedTexts
    alternatives: int
    language: DetectedLanguage | None

    def done(self, answers: Sequence[Answer]) -> StreamResult:
        """What /translate would answer, and the sentences."""
        segmented, count = self.segmented, self.alternatives
        return StreamResult(
            translatedText=segmented.best(answers)[0],
            alternatives=segmented.alternatives(answers, count)[0] if count else None,
            detectedLanguage=self.language,
            sentences=[
                SentencePair(source=line, target=answer.text)
                for line, answer in zip(segmented.lines, answers, strict=True)
            ],
        )


async def _events(
    service: Service,
    pending: PendingRequest,
    final_event: FinalEvent,
    updates: "asyncio.Queue[PartialUpdate | None]",
    deadline: float,
) -> AsyncIterator[str]:
    """What a client is sent until time is over; if it leaves, its job leaves the queue."""
    segmented = final_event.segmented
    partials = [""] * len(segmented.lines)
    try:
        while await _collect_updates(updates, partials, deadline - time.monotonic()):
            yield _format_event("partial", {"text": segmented.join_texts(partials)[0]})
        done = final_event.done(pending.done.result())
        yield _format_event("done", done.model_dump(exclude_none=True))
    except TimeoutError:
        pending.done.cancel()
        yield _format_event("error", {"error": service.timeout_error().message})
    except RequestError as error:
        yield _format_event("error", {"error": error.message})
    finally:
        if pending.done.cancel():
            service.metrics.dropped.labels("left").inc()


async def _collect_updates(
    updates: "asyncio.Queue[PartialUpdate | None]", partials: list[str], remaining: float
) -> bool:
    """Wait for news and put all there is into `said`; whether more may come."""
    one = await asyncio.wait_for(updates.get(), max(0.0, remaining))
    while one is not None:
        partials[one.line] = one.text
        if updates.empty():
            return True
        one = updates.get_nowait()
    return False


def _format_event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
