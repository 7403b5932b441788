"""Documents -> documents, translated with the lines of all requests."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

from fastapi import Request

from regard.decoding.settings import DecodingSettings
from regard.errors import CorpusError
from regard.pipelines.documents.document import Document
from regard.server.batch_functions import TranslateMarkup
from regard.server.errors import RequestError
from regard.server.models import ServedModel
from regard.server.service import Service, count_tokens


async def translate_documents(
    service: Service,
    request: Request,
    served: ServedModel,
    read: Callable[[str], Document],
    texts: Sequence[str],
    settings: DecodingSettings,
) -> list[str]:
    """Each document in the other language, its markup kept; `read` takes one apart.

    Taking apart and putting together happen in a thread, since documents can be long.
    """
    try:
        documents, lines = await asyncio.to_thread(_read_documents, read, texts)
    except CorpusError as error:
        raise RequestError(400, str(error)) from None
    most = service.settings.max_characters
    if (longest := max(map(len, lines), default=0)) > most:  # tokenizing it would hold up all
        raise RequestError(
            400, f"a line of {longest} characters is longer than the {most} allowed; break it"
        )
    costs = await count_tokens(served, lines)
    function = TranslateMarkup(settings, split=service.settings.sentences)
    answers = await service.run(request, served, function, lines, costs)
    return await asyncio.to_thread(_join_documents, documents, answers)


def _read_documents(
    read: Callable[[str], Document], texts: Sequence[str]
) -> tuple[list[Document], list[str]]:
    documents = [read(text) for text in texts]
    return documents, [line for document in documents for line in document.lines]


def _join_documents(documents: Sequence[Document], answers: Sequence[str]) -> list[str]:
    remaining = iter(answers)
    return [one.join(list(islice(remaining, len(one.lines)))) for one in documents]
