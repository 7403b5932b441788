"""Files -> files, as LibreTranslate has it: sent as a form, fetched by a name nobody can guess."""

import asyncio
from functools import partial
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect

from regard.errors import CorpusError
from regard.pipelines.documents.document_formats import (
    FORMAT_OF_SUFFIX,
    DocumentFormat,
    decode,
    read,
)
from regard.server.errors import RequestError, client_disconnected
from regard.server.language_detection import strip_tags
from regard.server.request_options import decoding_settings
from regard.server.request_parsing import MULTIPART, form_values, media_type, validation_message
from regard.server.routes.document_translation import translate_documents
from regard.server.routes.openapi_responses import BODY_ERRORS, GET_ERRORS, errors, request_body
from regard.server.schemas import FileRequest, TranslatedFile
from regard.server.service import Service, ServiceDep

MAX_UPLOAD_FIELDS = 10
FILE_DESCRIPTION = {
    "description": "The file, which a browser saves rather than shows.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}

router = APIRouter(tags=["translate"])


class Upload(NamedTuple):
    """A file as it came."""

    name: str
    kind: DocumentFormat
    text: str
    source: str
    target: str


@router.post(
    "/translate_file",
    response_model=TranslatedFile,
    responses=errors(*BODY_ERRORS),
    openapi_extra=request_body(FileRequest, MULTIPART),
)
async def translate_file(request: Request, service: ServiceDep) -> TranslatedFile:
    """Translate a file: plain text, HTML with its markup kept, SRT and VTT subtitles."""
    sent = await _read_upload(request, service)
    async with service.time_limit():
        done = await _translate(service, request, sent)
    path = PurePath(sent.name)
    name = f"{path.stem}.{sent.target}{path.suffix}"
    token = service.files.put(name, done.encode(errors="replace"))
    address = f"{request.base_url}download_file/{token}.{quote(name)}"
    return TranslatedFile(translatedFileUrl=address)


async def _translate(service: Service, request: Request, sent: Upload) -> str:
    """The text of the file in the other language; one that is in it already stays as it is."""
    visible_text = strip_tags(sent.text) if sent.kind == "html" else sent.text
    [(served, _)] = await service.find_models(sent.source, sent.target, [visible_text])
    if served is None:
        return sent.text
    settings = decoding_settings(served, service.settings, alternatives=0)
    read_document = partial(read, kind=sent.kind, name=sent.name)
    [done] = await translate_documents(
        service, request, served, read_document, [sent.text], settings
    )
    return done


@router.get(
    "/download_file/{filename}",
    response_class=Response,
    responses={200: FILE_DESCRIPTION, **errors(404, *GET_ERRORS)},
)
async def download_file(filename: str, service: ServiceDep) -> Response:
    """Fetch a translated file."""
    stored = service.files.get(filename.partition(".")[0])
    if stored is None:
        raise RequestError(404, "there is no such file, or no longer: translate it again")
    headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(stored.name)}"}
    return Response(stored.content, headers=headers, media_type="application/octet-stream")


async def _read_upload(request: Request, service: Service) -> Upload:
    """The form, checked."""
    if media_type(request) != MULTIPART:
        raise RequestError(415, f"send the file as {MULTIPART}")
    limit = service.settings.max_bytes
    try:
        async with request.form(
            max_files=1, max_fields=MAX_UPLOAD_FIELDS, max_part_size=limit
        ) as form:
            values, file = form_values(form), form.get("file")
            name, data = "", b""
            if isinstance(file, UploadFile):
                name, data = PurePath(file.filename or "").name, await file.read()
                values["file"] = data
            payload = FileRequest.model_validate(values)
    except ValidationError as error:
        raise RequestError(400, validation_message(error)) from None
    except ClientDisconnect:
        raise client_disconnected() from None
    service.authorize(request, payload.api_key)
    kind = FORMAT_OF_SUFFIX.get(PurePath(name.lower()).suffix)
    if kind is None:
        raise RequestError(
            400,
            f"Invalid request: file format not supported; there are {', '.join(FORMAT_OF_SUFFIX)}",
        )
    try:
        text = await asyncio.to_thread(decode, data, name)
    except CorpusError as error:
        raise RequestError(400, str(error)) from None
    return Upload(name, kind, text, payload.source, payload.target)
