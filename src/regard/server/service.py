"""Shared by the routes: models, limits, and the steps from a text to its translation."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import Depends, Request

from regard.decoding.settings import DecodingSettings
from regard.server.access import Access
from regard.server.batcher import BatchFunction, PendingRequest
from regard.server.errors import (
    CLIENT_CLOSED_REQUEST,
    DEADLINE,
    REQUEST_SIZE,
    RequestError,
    invalid_request,
)
from regard.server.language_detection import Detector, LanguageGuess, has_word
from regard.server.served_models import LoadOptions, Models, ModelSpec, ServedModel
from regard.server.settings import ServerSettings
from regard.server.telemetry import ServerMetrics
from regard.tasks.families.answer import Answer
from regard.tasks.translation.documents.document_formats import Document
from regard.tasks.translation.pipeline import Translator
from regard.text.preprocess import PreparedText

AUTO = "auto"  # the source language of a text whose language is to be detected
DETECTION_PAIRS = 5000  # training pairs of each model from which its languages are learned
INLINE_CHARACTERS = 2000  # shorter texts are processed on the event loop: a thread takes longer
SMOOTHING = 0.2  # weight of the last request in the moving average of seconds per byte
MIN_CONFIDENCE = 10.0  # confidence, in percent, below which `auto` refuses a text

T = TypeVar("T")


class ModelMatch(NamedTuple):
    """The model for a text."""

    served: ServedModel | None  # None: the text is in the target language and returned unchanged
    guess: LanguageGuess | None  # the detected language, with `auto`


class SegmentedTexts(NamedTuple):
    """Texts or documents, each split into the lines or sentences to translate."""

    texts: Sequence[Document]

    @property
    def lines(self) -> list[str]:
        """The lines of all texts, in order."""
        return [line for text in self.texts for line in text.lines]

    def join(self, lines: Sequence[str]) -> list[str]:
        """The texts with their lines replaced by `lines`."""
        remaining = iter(lines)
        return [text.join(list(islice(remaining, len(text.lines)))) for text in self.texts]

    def translations(self, answers: Sequence[Answer], count: int) -> list[list[str]]:
        """At most `count` different translations of each text, the best first: the n-th best joins
        the n-th best translations of its lines (of a line that has fewer, the last one).
        """
        by_rank = [
            self.join([one.candidates[min(rank, len(one.candidates) - 1)].text for one in answers])
            for rank in range(count)
        ]
        return [list(dict.fromkeys(ranked)) for ranked in zip(*by_rank, strict=True)]


class Service:
    """Shared by all routes of a server: its settings, models, access checks and detector."""

    def __init__(
        self,
        specs: Sequence[ModelSpec],
        settings: ServerSettings,
        keys: Sequence[str],
        load_options: LoadOptions,
    ) -> None:
        self.settings, self.metrics = settings, ServerMetrics()
        self.models = Models(specs, settings, self.metrics, load_options)
        self.access = Access(keys, settings.rate_limit)
        self.detector = Detector(self.models.training_texts(DETECTION_PAIRS))
        self._seconds_per_byte: dict[str, float] = {}  # of a request, by its path
        self._long_text = asyncio.Lock()

    def overload(self, path: str, size: int, deadline: float) -> RequestError | None:
        """The error of a request for which no model has time, by its bytes; None if that is
        unknown.
        """
        error, seconds = None, self._estimate(path, size)
        for served in self.models.served if seconds else ():
            try:
                served.batcher.check(seconds, deadline)
            except RequestError as refused:
                error = refused
            else:
                return None
        return error

    def _estimate(self, path: str, size: int) -> float:
        """Seconds of work in a request of so many bytes; 0 if nothing is known."""
        return size * self._seconds_per_byte.get(path, 0.0)

    async def prepare(
        self, request: Request, served: ServedModel, characters: int, work: Callable[[], T]
    ) -> T:
        """The result of `work`, which takes so many characters apart for a model; an error with
        status 503 if the model has no time for the request.
        """
        seconds = self._estimate(request.scope["path"], request.scope[REQUEST_SIZE])
        served.batcher.check(seconds, request.scope[DEADLINE])
        with served.batcher.reserve(seconds):
            return await self.compute(characters, work)

    async def compute(self, characters: int, work: Callable[[], T]) -> T:
        """The result of `work` on so many characters: in a thread unless they are few, and then
        alone, since the event loop and the models' threads share the interpreter with it.
        """
        if characters <= INLINE_CHARACTERS:
            return work()
        async with self._long_text:
            return await asyncio.to_thread(work)

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raise an error for too many texts, or for texts that are too long together."""
        length, max_texts = sum(map(len, texts)), self.settings.max_texts
        if len(texts) > max_texts:
            raise invalid_request(f"{len(texts)} texts exceed the limit of {max_texts}")
        if length > (limit := self.settings.max_characters):
            raise invalid_request(f"request ({length}) exceeds text limit ({limit})")

    def decoding_settings(
        self, translator: Translator, alternatives: int = 0, beam: int | None = None
    ) -> DecodingSettings:
        """The recipe's search settings with room for alternatives, without sampling, so that
        answers are deterministic."""
        for name, value, limit in (
            ("alternatives", alternatives, self.settings.max_alternatives),
            ("beam", beam or 0, self.settings.max_beam),
        ):
            if value > limit:
                raise invalid_request(f"{name} must be at most {limit}")
        beam_size = max(beam or translator.settings.beam.size, alternatives + 1)
        return translator.search_settings(beam=beam_size, n_best=alternatives + 1)

    async def find_models(self, source: str, target: str, texts: Sequence[str]) -> list[ModelMatch]:
        """The model for each text; `auto` detects the language of each."""
        if source == AUTO:
            detect = partial(self._detect, target, texts)
            return await self.compute(sum(map(len, texts)), detect)
        known = {*self.models.sources(), *self.models.targets()}
        if source == target and source in known and source not in self.models.sources(target):
            return [ModelMatch(None, None)] * len(texts)
        return [ModelMatch(self.models.find(source, target), None)] * len(texts)

    def _detect(self, target: str, texts: Sequence[str]) -> list[ModelMatch]:
        """The model into `target` for the detected language of each text; none for a text that is
        certainly in the target language, unless a model translates from it. A text without words is
        assumed to be in the language of all texts together.
        """
        sources = self.models.sources(target)
        common = next(iter(self.detector.detect("\n".join(texts), sources)), None)
        if common is None and len(sources) == 1:
            common = LanguageGuess(sources[0], 0.0)
        matches = []
        for number, text in enumerate(texts, 1):
            if target not in sources and self.detector.is_certainly(text, target):
                matches.append(ModelMatch(None, self.detector.detect(text)[0]))
                continue
            if common is None:
                no_text = "this server has no texts to detect languages with"
                why = no_text if sources else "there is no model"
                raise RequestError(400, f"auto-{target} is not supported: {why}; name the source")
            guess = next(iter(self.detector.detect(text, sources)), common)
            if not has_word(text):
                guess = guess._replace(language=common.language)
            elif guess.confidence < MIN_CONFIDENCE and self.detector.languages:
                which = f"text {number} of {len(texts)}" if len(texts) > 1 else "the text"
                known = f"{', '.join(sources)}, which this server has models for"
                message = f"auto-{target}: {which} resembles no text in {known}; name the source"
                raise RequestError(400, message)
            matches.append(ModelMatch(self.models.find(guess.language, target), guess))
        return matches

    def segment(self, translator: Translator, texts: Sequence[str]) -> SegmentedTexts:
        """The texts in sentences, or in lines if the model translates whole lines."""
        split = partial(translator.segment, split=self.settings.sentences)
        return SegmentedTexts(list(map(split, texts)))

    async def tokenize(
        self, request: Request, served: ServedModel, texts: Sequence[str]
    ) -> tuple[SegmentedTexts, list[PreparedText]]:
        """The texts in sentences or lines, and the tokens of these."""
        translator = served.translator

        def work() -> tuple[SegmentedTexts, list[PreparedText]]:
            segmented = self.segment(translator, texts)
            return segmented, translator.tokenize(segmented.lines, split=False)

        return await self.prepare(request, served, sum(map(len, texts)), work)

    def submit(
        self,
        request: Request,
        served: ServedModel,
        function: BatchFunction,
        items: Sequence[Any],
        costs: Sequence[int],
    ) -> PendingRequest:
        """Queue the items of a request."""
        path, seconds = request.scope["path"], served.batcher.seconds(function, costs)
        if seconds:
            per_byte = seconds / request.scope[REQUEST_SIZE]
            average = self._seconds_per_byte.setdefault(path, per_byte)
            self._seconds_per_byte[path] += SMOOTHING * (per_byte - average)
        return served.batcher.submit(function, items, costs, request.scope[DEADLINE])

    async def run(
        self,
        request: Request,
        served: ServedModel,
        function: BatchFunction,
        items: Sequence[Any],
        costs: Sequence[int],
    ) -> list[Any]:
        """The answer to each item, unless the client disconnects."""
        future = self.submit(request, served, function, items, costs).future
        disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
        futures: set[asyncio.Future[Any]] = {future, disconnected}
        try:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            if future.done():
                return future.result()
            raise RequestError(CLIENT_CLOSED_REQUEST, "the client has disconnected")
        finally:
            disconnected.cancel()
            future.cancel()

    @asynccontextmanager
    async def time_limit(self, request: Request) -> AsyncIterator[None]:
        """Raises an error with status 504 if the `with` block exceeds the request's time limit."""
        try:
            async with asyncio.timeout_at(request.scope[DEADLINE]):
                yield
        except TimeoutError:
            raise self.timeout_error() from None

    def timeout_error(self) -> RequestError:
        """The error for a request that took too long; counts it."""
        self.metrics.dropped.labels("timeout").inc()
        message = f"no answer within {self.settings.timeout:g} s; send less, or try again later"
        return RequestError(504, message)


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client has disconnected; the body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def token_costs(lines: Sequence[PreparedText]) -> list[int]:
    """The cost of each line in a batch: its tokens and its end-of-sentence token."""
    return [line.num_tokens + 1 for line in lines]


async def get_service(request: Request) -> Service:
    """The service of the application that serves a request."""
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(get_service)]
