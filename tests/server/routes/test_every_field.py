"""Every field of a request, and what a server is told of its models, counts by every route."""

import json
from urllib.parse import urlsplit

import pytest

from regard.server.schemas import (
    AlignRequest,
    AttentionRequest,
    StreamRequest,
    TranslateRequest,
)
from regard.tasks.translation.pipeline import load
from servers import client

TEXT = "Elle part. Paul aime la mer et l'Afrique, 12:30."
PAIR = {"source": "fr", "target": "en"}
FRENCH, ENGLISH = "Il part et ne la visite pas", "She does not visit it, and he is happy"
SILENCE = {"kind": "silence", "part": "cross", "layer": 0}
SEARCH = {"beam": 1, "alternatives": 1, "tree": True, "sentence": 1, "changes": [SILENCE]}
DETECTED = {"q": f"{FRENCH}, Paul!", "source": "auto"}
FIELDS = {
    "/translate": (TranslateRequest, DETECTED | {"alternatives": 1, "format": "html"}),
    "/translate/stream": (StreamRequest, DETECTED | {"alternatives": 1}),
    "/attention": (AttentionRequest, {"q": FRENCH, "source": "auto", **SEARCH}),
    "/align": (AlignRequest, {"q": "Paul part.", "translation": "He leaves."}),
}
"""Route -> its requests, and another value of each field."""
AS_WELL = {"api_key", "target"}
"""Fields that all routes share, of which another value is an error."""


@pytest.fixture(scope="module")
def server(tiny_run):
    with client(tiny_run) as one:
        yield one


@pytest.mark.parametrize("route", FIELDS)
def test_every_field_has_an_effect(server, route):
    kind, others = FIELDS[route]
    assert kind.model_fields.keys() - AS_WELL - PAIR.keys() == others.keys() - PAIR.keys()
    payload = {"q": f"<b>{TEXT}</b>", **PAIR}
    if "translation" in others:
        payload["translation"] = "She leaves. Paul likes the sea."
    plain = server.post(route, json=payload)
    assert plain.status_code == 200
    for field, value in others.items():
        changed = server.post(route, json={**payload, field: value})
        assert changed.status_code == 200
        if field == "source":  # its answer differs where the language is shown
            assert ("detectedLanguage" in changed.text) == (route != "/attention")
        else:
            assert changed.text != plain.text, field
    for wrong in ({"source": "xx"}, {"target": "xx"}):
        assert server.post(route, json={**payload, **wrong}).status_code == 400


def sent(server, name, content, **fields):
    """A translated file."""
    files = {"file": (name, content.encode())}
    answer = server.post("/translate_file", files=files, data={**PAIR, **fields})
    return server.get(urlsplit(answer.json()["translatedFileUrl"]).path).text


def by_every_route(server):
    """The translation of `TEXT` by each route that translates."""
    payload = {"q": TEXT, **PAIR}
    for kind in ("text", "html"):
        answer = server.post("/translate", json={**payload, "format": kind})
        yield f"/translate {kind}", answer.json()["translatedText"]
    stream = server.post("/translate/stream", json=payload).text
    yield "/translate/stream", json.loads(stream.rsplit("data: ", 1)[1])["translatedText"]
    for kind in ("txt", "html"):
        yield f"/translate_file {kind}", sent(server, f"a.{kind}", TEXT)


@pytest.mark.parametrize("told", ["nothing", "whole lines", "adapter"])
def test_what_the_server_is_told_counts_by_every_route(told, task_runs, monkeypatch):
    run, adapter = task_runs.run("translation"), task_runs.adapter("translation")
    settings = {"sentences": False} if told == "whole lines" else {}
    options = {"adapter": str(adapter)} if told == "adapter" else {}
    translator = load(run, device="cpu", engine="native", **options)
    wanted = translator(TEXT, split=settings.get("sentences")).text
    assert (wanted == load(run, device="cpu", engine="native")(TEXT).text) == (told == "nothing")
    with client(run, load={"engine": "native", **options}, **settings) as server:
        for route, found in by_every_route(server):
            assert found == wanted, route
        looked_at = server.post("/attention", json={"q": TEXT, **PAIR}).json()
        first = translator.segment(TEXT, split=settings.get("sentences")).lines[0]
        assert looked_at["target"]["text"] == translator(first, split=False).text


@pytest.mark.parametrize("wrapped", ["{}", '<p title="{other}">{}</p>', "<!-- {other} --><p>{}"])
def test_only_what_is_shown_of_a_page_says_its_language(server, wrapped):
    page = wrapped.format(FRENCH, other=f"{ENGLISH}. " * 9)
    payload = {"q": page, "source": "auto", "target": "en", "format": "html"}
    guess = server.post("/translate", json=payload).json()["detectedLanguage"]
    plain = {"q": FRENCH, "source": "auto", "target": "en"}
    assert guess == server.post("/translate", json=plain).json()["detectedLanguage"]
    assert FRENCH not in sent(server, "a.html", page, source="auto")
