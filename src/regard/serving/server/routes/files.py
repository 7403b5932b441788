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
from regard.serving.formats.kinds import ENDINGS, Kind, decode, read
from regard.serving.server.asking import wanted
from regard.serving.server.bodies import MULTIPART, explain, form_values, media_type
from regard.serving.server.detection import without_tags
from regard.serving.server.documents import translate_documents
from regard.serving.server.refusals import RequestError, left_early
from regard.serving.server.routes.described import ASKING, READING, errors, taking
from regard.serving.server.schemas import FileRequest, TranslatedFile
from regard.serving.server.service import Here, Service

MAX_FIELDS = 10
DESCRIBED = {
    "description": "The file, which a browser saves rather than shows.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}

router = APIRouter(tags=["translate"])


class Sent(NamedTuple):
    """A file as it came."""

    name: str
    kind: Kind
    text: str
    source: str
    target: str


@router.post(
    "/translate_file",
    response_model=TranslatedFile,
    responses=errors(*READING),
    openapi_extra=taking(FileRequest, MULTIPART),
)
async def translate_file(request: Request, service: Here) -> TranslatedFile:
    """Translate a file: plain text, HTML with its markup kept, SRT and VTT subtitles."""
    sent = await _read(request, service)
    async with service.in_time():
        done = await _translate(service, request, sent)
    path = PurePath(sent.name)
    name = f"{path.stem}.{sent.target}{path.suffix}"
    token = service.files.put(name, done.encode(errors="replace"))
    address = f"{request.base_url}download_file/{token}.{quote(name)}"
    return TranslatedFile(translatedFileUrl=address)


async def _translate(service: Service, request: Request, sent: Sent) -> str:
    """The text of the file in the other language; one that is in it already stays as it is."""
    seen = without_tags(sent.text) if sent.kind == "html" else sent.text
    [(served, _)] = await service.find_models(sent.source, sent.target, [seen])
    if served is None:
        return sent.text
    settings = wanted(served, service.settings, alternatives=0)
    taken = partial(read, kind=sent.kind, name=sent.name)
    [done] = await translate_documents(service, request, served, taken, [sent.text], settings)
    return done


@router.get(
    "/download_file/{filename}",
    response_class=Response,
    responses={200: DESCRIBED, **errors(404, *ASKING)},
)
async def download_file(filename: str, service: Here) -> Response:
    """Fetch a translated file."""
    stored = service.files.get(filename.partition(".")[0])
    if stored is None:
        raise RequestError(404, "there is no such file, or no longer: translate it again")
    headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(stored.name)}"}
    return Response(stored.content, headers=headers, media_type="application/octet-stream")


async def _read(request: Request, service: Service) -> Sent:
    """The form, checked."""
    if media_type(request) != MULTIPART:
        raise RequestError(415, f"send the file as {MULTIPART}")
    limit = service.settings.max_bytes
    try:
        async with request.form(max_files=1, max_fields=MAX_FIELDS, max_part_size=limit) as form:
            values, file = form_values(form), form.get("file")
            name, data = "", b""
            if isinstance(file, UploadFile):
                name, data = PurePath(file.filename or "").name, await file.read()
                values["file"] = data
            asked = FileRequest.model_validate(values)
    except ValidationError as error:
        raise RequestError(400, explain(error)) from None
    except ClientDisconnect:
        raise left_early() from None
    service.admit(request, asked.api_key)
    kind = ENDINGS.get(PurePath(name.lower()).suffix)
    if kind is None:
        raise RequestError(
            400, f"Invalid request: file format not supported; there are {', '.join(ENDINGS)}"
        )
    try:
        text = await asyncio.to_thread(decode, data, name)
    except CorpusError as error:
        raise RequestError(400, str(error)) from None
    return Sent(name, kind, text, asked.source, asked.target)
