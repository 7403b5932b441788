"""A translation while it is made, as server-sent events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends
from starlette.responses import StreamingResponse

from regard.serving.answer import Answer
from regard.serving.server.asking import check_texts, detected, lay_out_aside, wanted
from regard.serving.server.bodies import JSON, body
from regard.serving.server.detection import Guess
from regard.serving.server.gathering import Job
from regard.serving.server.layout import Layout
from regard.serving.server.refusals import RequestError
from regard.serving.server.routes.described import READING, errors, taking
from regard.serving.server.schemas import Detected, SentencePair, Streamed, StreamRequest
from regard.serving.server.service import Here, Service, count_tokens
from regard.serving.server.tasks import Translate

EVENTS = "text/event-stream"
DESCRIBED = {
    "description": "`partial` events with `{text}` while the search runs, which may take back what "
    "it said; then one `done` with what /translate answers and `sentences`, each with its "
    "`source` and `target`; or one `error` with `{error}`.",
    "content": {
        EVENTS: {
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


class News(NamedTuple):
    """What a line has become."""

    place: int
    text: str


@router.post(
    "/translate/stream",
    response_class=StreamingResponse,
    responses={200: DESCRIBED, **errors(*READING)},
    openapi_extra=taking(StreamRequest),
)
async def translate_stream(
    asked: Annotated[StreamRequest, Depends(body(StreamRequest))], service: Here
) -> StreamingResponse:
    """Translate a text and tell what there is of its translation as it grows."""
    check_texts([asked.q], service.settings)
    closes = time.monotonic() + service.settings.timeout
    async with service.in_time():
        [(served, guess)] = await service.find_models(asked.source, asked.target, [asked.q])
        if served is None:
            return StreamingResponse(_unchanged(asked, guess), media_type=EVENTS)
        settings = wanted(served, service.settings, alternatives=asked.alternatives)
        layout = await lay_out_aside(served, [asked.q], service.settings)
        costs = await count_tokens(served, layout.lines)
    news = asyncio.Queue[News | None]()
    loop = asyncio.get_running_loop()

    def tell(place: int, text: str) -> None:  # by the model's thread
        loop.call_soon_threadsafe(news.put_nowait, News(place, text))

    task = Translate(settings, streamed=True, whole=service.settings.sentences is False)
    job = served.gatherer.submit(task, layout.lines, costs, tell)
    job.done.add_done_callback(lambda _: news.put_nowait(None))
    writing = Writing(layout, asked.alternatives, detected(guess))
    events = _events(service, job, writing, news, closes)
    return StreamingResponse(events, media_type=EVENTS)


async def _unchanged(asked: StreamRequest, guess: Guess | None) -> AsyncIterator[str]:
    """What a client is sent whose text is in the target language already."""
    done = Streamed(
        translatedText=asked.q,
        alternatives=[] if asked.alternatives else None,
        detectedLanguage=detected(guess),
        sentences=[],
    )
    yield _event("done", done.model_dump(exclude_none=True))


class Writing(NamedTuple):
    """How the end of a stream is written."""

    layout: Layout
    alternatives: int
    language: Detected | None

    def done(self, answers: Sequence[Answer]) -> Streamed:
        """What /translate would answer, and the sentences."""
        layout, count = self.layout, self.alternatives
        return Streamed(
            translatedText=layout.best(answers)[0],
            alternatives=layout.alternatives(answers, count)[0] if count else None,
            detectedLanguage=self.language,
            sentences=[
                SentencePair(source=line, target=answer.text)
                for line, answer in zip(layout.lines, answers, strict=True)
            ],
        )


async def _events(
    service: Service,
    job: Job,
    writing: Writing,
    news: "asyncio.Queue[News | None]",
    closes: float,
) -> AsyncIterator[str]:
    """What a client is sent until time is over; if it leaves, its job leaves the queue."""
    layout = writing.layout
    said = [""] * len(layout.lines)
    try:
        while await _hear(news, said, closes - time.monotonic()):
            yield _event("partial", {"text": layout.fill(said)[0]})
        done = writing.done(job.done.result())
        yield _event("done", done.model_dump(exclude_none=True))
    except TimeoutError:
        job.done.cancel()
        yield _event("error", {"error": service.late().message})
    except RequestError as error:
        yield _event("error", {"error": error.message})
    finally:
        if job.done.cancel():
            service.metrics.dropped.labels("left").inc()


async def _hear(news: "asyncio.Queue[News | None]", said: list[str], left: float) -> bool:
    """Wait for news and put all there is into `said`; whether more may come."""
    one = await asyncio.wait_for(news.get(), max(0.0, left))
    while one is not None:
        said[one.place] = one.text
        if news.empty():
            return True
        one = news.get_nowait()
    return False


def _event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
