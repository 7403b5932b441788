"""What the routes share: the parts of one server, and how a request waits for its answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import Depends, Request

from regard.server.batcher import BatchFunction
from regard.server.errors import RequestError, client_disconnected
from regard.server.file_store import FileStore
from regard.server.language_detection import Detector, LanguageGuess, has_word
from regard.server.metrics import ServerMetrics
from regard.server.middleware.api_keys import ApiKeys, key_digest
from regard.server.middleware.rate_limit import RateLimit, client_address
from regard.server.models import Models, ServedModel
from regard.server.settings import ServerSettings

AUTO = "auto"
"""The source language of a text whose language is to be detected."""
DETECTION_SENTENCES = 5000
"""Sentences of a corpus by which its languages are told apart."""
INLINE_CHARACTERS = 1000
"""Characters that are worked on at once: to wait for a thread would take longer."""
MIN_CONFIDENCE = 10.0
"""Confidence, in percent, below which `auto` refuses a text."""
MAX_STORED_FILES = 16
"""Files of the longest kind that are kept until they are fetched."""

T = TypeVar("T")


class ModelMatch(NamedTuple):
    """The model for a text."""

    served: ServedModel | None
    """None for a text that is in the target language already: it is answered as it is."""
    guess: LanguageGuess | None
    """What its language was detected as, where that was asked for."""


@dataclass(frozen=True)
class Service:
    """The parts of one server."""

    settings: ServerSettings
    models: Models
    keys: ApiKeys
    metrics: ServerMetrics
    detector: Detector
    files: FileStore
    rates: RateLimit

    def authorize(self, request: Request, key: str | None) -> None:
        """A refusal unless the request holds a key, if there are keys; or if its client, who is
        told by the key or else by the address, has sent too many."""
        given = key or bearer_token(request)
        if self.keys and self.keys.authorize(given):
            self.rates.consume(f"key {key_digest(given).hex()}")
            return
        # uvicorn puts here what a proxy at this machine says in X-Forwarded-For
        self.rates.consume(client_address(request.client.host if request.client else ""))
        self.check_key(given)

    def check_key(self, given: str) -> None:
        """A refusal unless this is a key, if there are keys."""
        if not self.keys:
            return
        if not given:
            raise RequestError(
                401,
                "this server needs an API key: send it as api_key or as Authorization: Bearer",
                {"WWW-Authenticate": "Bearer"},
            )
        if not self.keys.authorize(given):
            raise RequestError(403, "Invalid API key")

    async def find_models(self, source: str, target: str, texts: Sequence[str]) -> list[ModelMatch]:
        """The model for each text; `auto` detects each one's language."""
        if source == AUTO:
            return await maybe_to_thread(sum(map(len, texts)), partial(self._detect, target, texts))
        known = {*self.models.sources(), *self.models.targets()}
        if source == target and source in known and source not in self.models.sources(target):
            return [ModelMatch(None, None)] * len(texts)
        return [ModelMatch(self.models.find(source, target), None)] * len(texts)

    async def find_model(self, source: str, target: str, text: str) -> ServedModel:
        """The model for a text; a refusal if it is in the target language already."""
        [(served, _)] = await self.find_models(source, target, [text])
        if served is None:
            raise RequestError(
                400, f"the text is in {target} already, so nothing is translated; name its source"
            )
        return served

    def _detect(self, target: str, texts: Sequence[str]) -> list[ModelMatch]:
        """The likeliest model into `target` for each text.

        What is surely in the target language is left as it is, unless a model translates from it.
        A text without words is taken to be in the language of the texts together.
        """
        sources = self.models.sources(target)
        common_guess = next(iter(self.detector.detect("\n".join(texts), sources)), None)
        if common_guess is None and len(sources) == 1:
            common_guess = LanguageGuess(sources[0], 0.0)
        found = []
        for number, text in enumerate(texts, 1):
            if target not in sources and self.detector.is_certainly(text, target):
                found.append(ModelMatch(None, self.detector.detect(text)[0]))
                continue
            if common_guess is None:
                why = (
                    "no text to detect languages by is at hand" if sources else "there is no model"
                )
                raise RequestError(400, f"auto-{target} is not supported: {why}; name the source")
            guess = next(iter(self.detector.detect(text, sources)), common_guess)
            if not has_word(text):
                guess = guess._replace(language=common_guess.language)
            elif guess.confidence < MIN_CONFIDENCE and self.detector.languages:
                which = f"text {number} of {len(texts)}" if len(texts) > 1 else "the text"
                raise RequestError(
                    400,
                    f"auto-{target}: {which} is like none in {', '.join(sources)}, which there are "
                    "models for; name the source",
                )
            found.append(ModelMatch(self.models.find(guess.language, target), guess))
        return found

    @asynccontextmanager
    async def time_limit(self) -> AsyncIterator[None]:
        """A refusal if what is done within takes longer than a request may."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                yield
        except TimeoutError:
            raise self.timeout_error() from None

    async def run(
        self,
        request: Request,
        served: ServedModel,
        function: BatchFunction,
        items: Sequence[Any],
        costs: Sequence[int],
    ) -> list[Any]:
        """The answers to the items of a request, unless its client leaves."""
        pending = served.batcher.submit(function, items, costs)
        disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
        futures: set[asyncio.Future[Any]] = {pending.done, disconnected}
        try:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            if pending.done.done():
                return pending.done.result()
            raise client_disconnected()
        finally:
            disconnected.cancel()
            pending.done.cancel()

    def timeout_error(self) -> RequestError:
        """What a client is told whose answer took too long."""
        self.metrics.dropped.labels("timeout").inc()
        return RequestError(
            504, f"no answer within {self.settings.timeout:g} s; send less at once, or later"
        )


def make_service(
    models: Models, settings: ServerSettings, keys: ApiKeys, metrics: ServerMetrics
) -> Service:
    """The service of some models, which learns to tell their languages apart."""
    detector = Detector(models.texts(DETECTION_SENTENCES))
    files = FileStore(MAX_STORED_FILES * settings.max_bytes)
    rates = RateLimit(settings.rate_limit)
    return Service(settings, models, keys, metrics, detector, files, rates)


def bearer_token(request: Request) -> str:
    """The key in the header of a request, or nothing."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client is gone; its body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def count_tokens(served: ServedModel, lines: Sequence[str]) -> list[int]:
    """What each line costs: its source tokens, and one for its end."""
    tokenizer = served.translator.sources[0]
    found = await maybe_to_thread(sum(map(len, lines)), partial(tokenizer.encode, list(lines)))
    return [len(ids) + 1 for ids in found]


async def maybe_to_thread(size: int, work: Callable[[], T]) -> T:
    """What `work` on so many characters gives: in a thread where it would hold up others."""
    return work() if size <= INLINE_CHARACTERS else await asyncio.to_thread(work)


def get_service(request: Request) -> Service:
    """The service of the application that a request is for."""
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(get_service)]
