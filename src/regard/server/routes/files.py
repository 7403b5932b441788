"""LibreTranslate's routes for files: sent as a form, fetched by a URL that cannot be guessed."""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile

from regard.errors import CorpusError
from regard.pipelines.documents.document_formats import (
    FORMAT_OF_SUFFIX,
    Document,
    decode_document,
    read_document,
)
from regard.server.batch_functions import TranslateMarkup
from regard.server.errors import RequestError, invalid_request
from regard.server.language_detection import strip_tags
from regard.server.openapi import GET_ERRORS, describe_body, error_responses
from regard.server.request_parsing import MULTIPART, form_values, media_type, parsing_errors
from regard.server.schemas import FileRequest, TranslatedFile
from regard.server.served_models import ServedModel
from regard.server.service import SegmentedTexts, Service, ServiceDep, token_costs, tokenize

MAX_UPLOAD_FIELDS = 10
FILE_DESCRIPTION = {
    "description": "The file, which a browser saves rather than shows.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}

KEEP_SECONDS = 600.0  # how long a translated file can be fetched
MAX_STORED_FILES = 16  # translated files of the maximum size that fit into the file store

router = APIRouter(tags=["translate"])


class StoredFile(NamedTuple):
    """A file and the time at which it expires."""

    name: str
    content: bytes
    expires_at: float


class FileStore:
    """Files in memory by unguessable tokens, until they expire or others need their room."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._files: dict[str, StoredFile] = {}

    def put(self, name: str, content: bytes) -> str:
        """Store a file and return its token; the newest file is stored whatever its size."""
        token = secrets.token_urlsafe(24)
        self._files[token] = StoredFile(name, content, time.monotonic() + KEEP_SECONDS)
        size = sum(len(file.content) for file in self._files.values())
        for old, file in list(self._files.items())[:-1]:
            if size > self._max_bytes or file.expires_at <= time.monotonic():
                size -= len(file.content)
                del self._files[old]
        return token

    def get(self, token: str) -> StoredFile | None:
        """The file, or None if it has expired or was evicted."""
        file = self._files.get(token)
        return file if file and file.expires_at > time.monotonic() else None


@router.post("/translate_file", **describe_body(FileRequest, MULTIPART))
async def translate_file(request: Request, service: ServiceDep) -> TranslatedFile:
    """Translate a file: plain text, HTML with its markup kept, SRT and VTT subtitles."""
    payload, name = await _read_upload(request, service)
    path = PurePath(name)
    kind = FORMAT_OF_SUFFIX.get(path.suffix.lower())
    if kind is None:
        there_are = ", ".join(FORMAT_OF_SUFFIX)
        raise invalid_request(f"file format not supported; there are {there_are}")
    async with service.time_limit():
        try:
            text = await asyncio.to_thread(decode_document, payload.file, name)
        except CorpusError as error:
            raise RequestError(400, str(error)) from None
        visible_text = strip_tags(text) if kind == "html" else text
        [(served, _)] = await service.find_models(payload.source, payload.target, [visible_text])
        if served is not None:  # else the text is in the target language already
            parse = partial(read_document, kind=kind, name=name)
            [text] = await translate_documents(service, request, served, parse, [text])
    translated_name = f"{path.stem}.{payload.target}{path.suffix}"
    store: FileStore = request.app.state.files
    token = store.put(translated_name, text.encode(errors="replace"))
    address = f"{request.base_url}download_file/{token}.{quote(translated_name)}"
    return TranslatedFile(translatedFileUrl=address)


async def _read_upload(request: Request, service: Service) -> tuple[FileRequest, str]:
    """The form, checked, and the name of the file."""
    if media_type(request) != MULTIPART:
        raise RequestError(415, f"send the file as {MULTIPART}")
    name = ""
    limits = {"max_fields": MAX_UPLOAD_FIELDS, "max_part_size": service.settings.max_bytes}
    with parsing_errors():
        async with request.form(max_files=1, **limits) as form:
            values, file = form_values(form.multi_items()), form.get("file")
            if isinstance(file, UploadFile):
                name, values["file"] = PurePath(file.filename or "").name, await file.read()
            payload = FileRequest.model_validate(values)
    service.access.authorize(request, payload.api_key)
    return payload, name


async def translate_documents(
    service: Service,
    request: Request,
    served: ServedModel,
    parse: Callable[[str], Document],
    texts: Sequence[str],
) -> list[str]:
    """The translation of each document with its markup; a thread parses and joins long ones."""
    try:
        documents = await asyncio.to_thread(lambda: SegmentedTexts(list(map(parse, texts))))
    except CorpusError as error:
        raise RequestError(400, str(error)) from None
    lines = documents.lines
    limit = service.settings.max_characters
    if (longest := max(map(len, lines), default=0)) > limit:  # tokenizing it would take too long
        message = f"a line of {longest} characters is longer than the {limit} allowed; break it"
        raise RequestError(400, message)
    translator = served.translator
    costs = token_costs(await tokenize(translator, lines))
    settings = service.decoding_settings(translator)
    function = TranslateMarkup(translator, settings, split=service.settings.sentences)
    translations = await service.run(request, served, function, lines, costs)
    return await asyncio.to_thread(documents.join, translations)


@router.get(
    "/download_file/{filename}",
    response_class=Response,
    responses={200: FILE_DESCRIPTION, **error_responses(404, *GET_ERRORS)},
)
async def download_file(filename: str, request: Request) -> Response:
    """Fetch a translated file."""
    store: FileStore = request.app.state.files
    stored = store.get(filename.partition(".")[0])
    if stored is None:
        raise RequestError(404, "there is no such file, or no longer: translate it again")
    headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(stored.name)}"}
    return Response(stored.content, headers=headers, media_type="application/octet-stream")
