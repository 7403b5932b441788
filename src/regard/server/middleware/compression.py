"""Long answers, compressed for clients that ask for it."""

import gzip
from typing import Any

from fastapi import Request
from starlette.responses import JSONResponse

from regard.server.service import maybe_to_thread

MIN_COMPRESSED_BYTES = 1024
"""Bytes of an answer below which nothing is gained."""
GZIP_LEVEL = 4
"""Of 9: higher ones take several times as long and save some percent."""


async def compressed_json(request: Request, content: Any) -> JSONResponse:
    """The content as JSON, by gzip where the client takes it; a thread does long ones."""
    answer = JSONResponse(content, headers={"Vary": "Accept-Encoding"})
    size = len(answer.body)
    if size >= MIN_COMPRESSED_BYTES and accepts_gzip(request.headers.get("accept-encoding", "")):
        whole = bytes(answer.body)
        answer.body = await maybe_to_thread(size, lambda: gzip.compress(whole, GZIP_LEVEL, mtime=0))
        answer.headers["Content-Encoding"] = "gzip"
        answer.headers["Content-Length"] = str(len(answer.body))
    return answer


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header names gzip, or all there is, with a weight above 0."""
    weights: dict[str, bool] = {}
    for part in header.lower().split(","):
        name, *parameters = (one.strip() for one in part.split(";"))
        none = any(one.partition("q=")[2].strip("0.") == "" for one in parameters if "q=" in one)
        weights[name] = not none
    return weights.get("gzip", weights.get("*", False))
