"""LibreTranslate's routes for files: sent as a form, fetched by a URL that cannot be guessed."""

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath
from threading import Lock
from typing import NamedTuple, Protocol
from urllib.parse import quote, unquote

from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile

from regard.atomic_io import storage_error, write_atomic
from regard.corpora.readers.structured_files import refuse_structured
from regard.errors import CorpusError
from regard.server.batch_functions import TranslateMarkup
from regard.server.errors import RequestError, invalid_request
from regard.server.language_detection import strip_tags
from regard.server.openapi import GET_ERRORS, describe_body, error_responses
from regard.server.request_parsing import MULTIPART, form_values, media_type, parsing_errors
from regard.server.schemas import FileRequest, TranslatedFile
from regard.server.served_models import ServedModel
from regard.server.service import SegmentedTexts, Service, ServiceDep, token_costs
from regard.tasks.translation.documents.document_formats import (
    FORMAT_OF_SUFFIX,
    Document,
    decode_document,
    read_document,
)

MAX_UPLOAD_FIELDS = 10
FILE_DESCRIPTION = {
    "description": "The file, which a browser saves rather than shows.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
FILE_ENCODING = {
    "file": {
        "contentType": "text/plain, text/markdown, text/html, application/x-subrip, text/vtt",
        "headers": {
            "Content-Disposition": {
                "description": f"Its file name ends in {', '.join(FORMAT_OF_SUFFIX)}.",
                "schema": {"type": "string"},
                "example": 'form-data; name="file"; filename="letter.txt"',
            }
        },
    }
}

KEEP_SECONDS = 600.0  # how long a translated file can be fetched
TOKEN = re.compile(r"[\w-]{32}", re.ASCII)
MAX_STORED_FILES = 16  # translated files of the maximum size that fit into the file store

router = APIRouter(tags=["translate"])


class StoredFile(NamedTuple):
    """A file and the time at which it expires."""

    name: str
    content: bytes
    expires_at: float


class FileStore(Protocol):
    """Files by unguessable tokens, until they expire or are evicted for newer ones."""

    def put(self, name: str, content: bytes) -> str:
        """Store a file and return its token; the newest file is stored whatever its size."""
        ...

    def get(self, token: str) -> StoredFile | None:
        """The file, or None if it has expired or was evicted."""
        ...


class MemoryStore:
    """Files in memory: each can only be fetched from the server that made it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._files: dict[str, StoredFile] = {}
        self._lock = Lock()  # requests store their files in threads

    def put(self, name: str, content: bytes) -> str:
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._files[token] = StoredFile(name, content, time.monotonic() + KEEP_SECONDS)
            size = sum(len(file.content) for file in self._files.values())
            for old, file in list(self._files.items())[:-1]:
                if size > self._max_bytes or file.expires_at <= time.monotonic():
                    size -= len(file.content)
                    del self._files[old]
        return token

    def get(self, token: str) -> StoredFile | None:
        file = self._files.get(token)
        return file if file and file.expires_at > time.monotonic() else None


class FolderStore:
    """Files in a folder shared by several servers: each can be fetched from any of them."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(folder, error) from None

    def put(self, name: str, content: bytes) -> str:
        token = secrets.token_urlsafe(24)
        # the name is stored inside the file: it may be too long or invalid as a file name
        write_atomic(self._folder / token, quote(name).encode() + b"\n" + content)
        self._evict()
        return token

    def get(self, token: str) -> StoredFile | None:
        if not TOKEN.fullmatch(token):
            return None
        try:
            expires_at = (self._folder / token).stat().st_mtime + KEEP_SECONDS
            name, _, content = (self._folder / token).read_bytes().partition(b"\n")
        except OSError:
            return None
        return StoredFile(unquote(name), content, expires_at) if expires_at > time.time() else None

    def _evict(self) -> None:
        """Remove expired files, and the oldest ones until the rest fit; the newest always stays."""
        found = []
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):  # another server has removed it
                if TOKEN.fullmatch(path.name):
                    found.append((path.stat(), path))
        found.sort(key=lambda one: one[0].st_mtime_ns)
        size = sum(stat.st_size for stat, _ in found)
        for stat, path in found[:-1]:
            if size > self._max_bytes or stat.st_mtime + KEEP_SECONDS <= time.time():
                size -= stat.st_size
                path.unlink(missing_ok=True)


def build_store(folder: Path | None, max_bytes: int) -> FileStore:
    """The store of a server: in memory, or in a folder."""
    return MemoryStore(max_bytes) if folder is None else FolderStore(folder, max_bytes)


@router.post("/translate_file", **describe_body(FileRequest, MULTIPART, encoding=FILE_ENCODING))
async def translate_file(request: Request, service: ServiceDep) -> TranslatedFile:
    """Translate a file: plain text, Markdown or HTML with its markup kept, SRT or VTT subtitles."""
    payload, name = await _read_upload(request, service)
    path = PurePath(name)
    kind = FORMAT_OF_SUFFIX.get(path.suffix.lower())
    if kind is None:
        there_are = ", ".join(FORMAT_OF_SUFFIX)
        raise invalid_request(f"file format not supported; supported are {there_are}")
    async with service.time_limit(request):
        try:
            if kind == "text":
                refuse_structured(payload.file, name, "txt", override="")
            text = await asyncio.to_thread(decode_document, payload.file, name)
        except CorpusError as error:
            raise RequestError(400, str(error)) from None
        visible_text = text
        if kind == "html":
            visible_text = await service.compute(len(text), partial(strip_tags, text))
        [(served, _)] = await service.find_models(payload.source, payload.target, [visible_text])
        if served is not None:  # otherwise the text is already in the target language
            parse = partial(read_document, kind=kind, name=name)
            [text] = await translate_documents(service, request, served, parse, [text])
    translated_name = f"{path.stem}.{payload.target}{path.suffix}"
    store: FileStore = request.app.state.files
    content = text.encode(errors="replace")
    token = await asyncio.to_thread(store.put, translated_name, content)
    address = f"{request.base_url}download_file/{token}.{quote(translated_name)}"
    return TranslatedFile(translatedFileUrl=address)


async def _read_upload(request: Request, service: Service) -> tuple[FileRequest, str]:
    """The validated form, and the name of the file."""
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
    translator, limit = served.translator, service.settings.max_characters

    def prepare() -> tuple[SegmentedTexts, list[int]]:
        try:
            documents = SegmentedTexts(list(map(parse, texts)))
        except CorpusError as error:
            raise RequestError(400, str(error)) from None
        if (longest := max(map(len, documents.lines), default=0)) > limit:  # it would take too long
            message = f"a line of {longest} characters exceeds the limit of {limit}; break it"
            raise RequestError(400, message)
        return documents, token_costs(translator.tokenize(documents.lines, split=False))

    length = sum(map(len, texts))
    documents, costs = await service.prepare(request, served, length, prepare)
    settings = service.decoding_settings(translator)
    function = TranslateMarkup(translator, settings, split=service.settings.sentences)
    translations = await service.run(request, served, function, documents.lines, costs)
    return await service.compute(length, partial(documents.join, translations))


@router.get(
    "/download_file/{filename}",
    response_class=Response,
    responses={200: FILE_DESCRIPTION, **error_responses(404, *GET_ERRORS)},
)
async def download_file(filename: str, request: Request) -> Response:
    """Fetch a translated file."""
    store: FileStore = request.app.state.files
    stored = await asyncio.to_thread(store.get, filename.partition(".")[0])
    if stored is None:
        raise RequestError(404, "no such file, or it has expired: translate it again")
    headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(stored.name)}"}
    return Response(stored.content, headers=headers, media_type="application/octet-stream")
