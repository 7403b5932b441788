import asyncio
import gzip
import json

import pytest
from fastapi import Request

from regard.server.middleware.compression import MIN_COMPRESSED_BYTES, accepts_gzip, compressed_json


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("*", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.00, *", False),
        ("gzipped", False),
    ],
)
def test_who_takes_gzip(header, accepted):
    assert accepts_gzip(header) is accepted


@pytest.mark.parametrize(("content", "long"), [("x" * MIN_COMPRESSED_BYTES, True), ("x", False)])
def test_only_what_is_long_is_compressed(content, long):
    scope = {"type": "http", "headers": [(b"accept-encoding", b"gzip")]}
    answer = asyncio.run(compressed_json(Request(scope), content))
    assert (answer.headers.get("content-encoding") == "gzip") is long
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert json.loads(gzip.decompress(answer.body) if long else answer.body) == content
