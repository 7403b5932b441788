"""Whether the OpenAPI document is true: its own paths, and what schemathesis makes of it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from servers import PATIENCE, client, process

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
    "positive_data_acceptance",
)
CONFIG = Path(__file__).with_name("schemathesis.toml")
ROUTES = {
    "/translate": "post",
    "/translate/stream": "post",
    "/translate_file": "post",
    "/download_file/{filename}": "get",
    "/detect": "post",
    "/suggest": "post",
    "/languages": "get",
    "/frontend/settings": "get",
    "/attention": "post",
    "/align": "post",
    "/health": "get",
    "/ready": "get",
    "/metrics": "get",
}


@pytest.fixture(scope="module")
def document(tiny_run, other_run):
    with client(tiny_run, f"en-de={other_run}", max_texts=7, max_characters=99) as server:
        return server.get("/openapi.json").json()


def test_every_route_is_documented(document):
    found = {path: next(iter(methods)) for path, methods in document["paths"].items()}
    assert found == ROUTES


def test_the_document_is_also_at_libretranslates_path(tiny_run):
    with client(tiny_run) as server:
        assert server.get("/spec").json() == server.get("/openapi.json").json()


def test_every_reference_is_defined(document):
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert len(references) > 10
    assert references <= set(document["components"]["schemas"])


def test_the_document_has_the_languages_and_limits_of_the_server(document):
    fields = document["components"]["schemas"]["TranslateRequest"]["properties"]
    assert fields["source"]["enum"] == ["auto", "fr", "en"]
    assert fields["target"]["enum"] == ["en", "de"]
    text, texts = fields["q"]["oneOf"]
    assert (text["maxLength"], texts["maxItems"], texts["items"]["maxLength"]) == (99, 7, 99)
    assert fields["alternatives"]["maximum"] == 10
    aligning = document["components"]["schemas"]["AlignRequest"]["properties"]
    assert aligning["source"]["enum"] == ["fr", "en"]


def test_the_names_of_files_are_documented(document):
    body = document["paths"]["/translate_file"]["post"]["requestBody"]["content"]
    name = body["multipart/form-data"]["encoding"]["file"]["headers"]["Content-Disposition"]
    assert ".srt" in name["description"]
    assert 'filename="letter.txt"' in name["example"]


def test_status_422_is_not_documented(document):
    assert "HTTPValidationError" not in document["components"]["schemas"]
    for methods in document["paths"].values():
        assert "422" not in next(iter(methods.values()))["responses"]


def test_keys_are_documented_where_they_are_needed(tiny_run, document):
    assert "security" not in document
    with client(tiny_run, keys=["0123456789abcdef"]) as server:
        assert server.get("/openapi.json").json()["security"] == [{"key": []}, {}]


@pytest.mark.slow
def test_schemathesis_finds_nothing(tiny_run, tmp_path):
    """A few cases; docs/server.md has the command for thousands."""
    schemathesis = Path(sys.executable).with_name("schemathesis")
    with process(tmp_path, tiny_run) as server:
        command = [schemathesis, "--config-file", CONFIG, "run", f"{server.url}/openapi.json"]
        command += ["--max-examples", "8"]
        command += ["--phases", "fuzzing", "--checks", ",".join(CHECKS), "--seed", "1"]
        found = subprocess.run(
            list(map(str, command)),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE,
            env={**os.environ, "PYTHONWARNINGS": "default"},
        )
    assert found.returncode == 0, found.stdout
    assert "Tested: 13" in found.stdout
