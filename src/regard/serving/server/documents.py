"""Documents -> documents, translated with the lines of all requests."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

from fastapi import Request

from regard.decoding.settings import DecodingSettings
from regard.errors import CorpusError
from regard.serving.formats.document import Document
from regard.serving.server.models import Served
from regard.serving.server.refusals import RequestError
from regard.serving.server.service import Service, count_tokens
from regard.serving.server.tasks import Carry


async def translate_documents(
    service: Service,
    request: Request,
    served: Served,
    read: Callable[[str], Document],
    texts: Sequence[str],
    settings: DecodingSettings,
) -> list[str]:
    """Each document in the other language, its markup kept; `read` takes one apart.

    Taking apart and putting together happen in a thread, since documents can be long.
    """
    try:
        documents, lines = await asyncio.to_thread(_take_apart, read, texts)
    except CorpusError as error:
        raise RequestError(400, str(error)) from None
    most = service.settings.max_characters
    if (longest := max(map(len, lines), default=0)) > most:  # tokenizing it would hold up all
        raise RequestError(
            400, f"a line of {longest} characters is longer than the {most} allowed; break it"
        )
    costs = await count_tokens(served, lines)
    task = Carry(settings, split=service.settings.sentences)
    answers = await service.run(request, served, task, lines, costs)
    return await asyncio.to_thread(_put_together, documents, answers)


def _take_apart(
    read: Callable[[str], Document], texts: Sequence[str]
) -> tuple[list[Document], list[str]]:
    documents = [read(text) for text in texts]
    return documents, [line for document in documents for line in document.lines]


def _put_together(documents: Sequence[Document], answers: Sequence[str]) -> list[str]:
    rest = iter(answers)
    return [one.join(list(islice(rest, len(one.lines)))) for one in documents]
