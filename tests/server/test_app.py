"""The whole application in this process: what holds for every route."""

import asyncio

import pytest

from regard.server.middleware.lifecycle import SECURITY_HEADERS
from servers import client

PAIR = {"source": "fr", "target": "en"}
ASKED = {"q": "Il part.", **PAIR}
KEY = "0123456789abcdef"
PROTECTED = {
    "/translate": ASKED,
    "/translate/stream": ASKED,
    "/detect": {"q": "Il part."},
    "/attention": ASKED,
    "/align": {**ASKED, "translation": "He leaves."},
    "/suggest": {**ASKED, "s": "He leaves."},
}


@pytest.fixture(scope="module")
def server(tiny_run):
    with client(tiny_run, max_bytes=1000) as one:
        yield one


@pytest.fixture(scope="module")
def locked(tiny_run):
    with client(tiny_run, keys=[KEY]) as one:
        yield one


@pytest.mark.parametrize("path", ["/", "/health", "/nowhere", "/static/page/app.js", "/static/x"])
def test_every_response_has_the_security_headers(server, path):
    answer = server.get(path)
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers[name] == value
    assert len(answer.headers["x-request-id"]) == 16


MODEL_ROUTES = {
    "/translate": {"json": ASKED},
    "/translate/stream": {"json": ASKED},
    "/attention": {"json": ASKED},
    "/align": {"json": {**ASKED, "translation": "He leaves."}},
    "/translate?format=html": {"data": ASKED},
    "/translate_file": {"data": PAIR, "files": {"file": ("a.txt", b"Il part.")}},
}


@pytest.mark.parametrize("path", MODEL_ROUTES)
def test_what_a_model_has_no_time_for_is_refused_on_every_route(server, path):
    [served] = server.service.models.served
    with served.batcher.reserve(30 + server.lifecycle.settings.timeout):
        refused = server.post(path, **MODEL_ROUTES[path])
    assert (refused.status_code, refused.json()["error"].split(";")[0]) == (
        503,
        "more is asked of the model than it can answer in time",
    )
    assert int(refused.headers["retry-after"]) >= 30
    assert server.post(path, **MODEL_ROUTES[path]).status_code == 200


def test_once_the_time_of_requests_is_known_they_are_refused_before_their_bodies_are_read(tiny_run):
    with client(tiny_run, batch_tokens=1) as server:
        for _ in range(3):
            assert server.post("/translate", json={**ASKED, "q": [ASKED["q"]] * 5}).is_success
        [served] = server.service.models.served
        with served.batcher.reserve(30 + server.lifecycle.settings.timeout):
            assert server.post("/translate", content=b"not JSON").status_code == 503
            assert server.get("/health").status_code == 200
            assert server.post("/translate", content=b"x" * 5_000_000).status_code == 415


def test_the_content_security_policy_allows_no_other_host():
    rules = SECURITY_HEADERS["Content-Security-Policy"].split("; ")
    assert rules[0] == "default-src 'none'"
    assert "frame-ancestors 'none'" in rules
    for rule in rules:
        assert set(rule.split()[1:]) <= {"'none'", "'self'", "data:"}


def test_responses_are_not_cached_but_page_files_are(server):
    assert server.post("/translate", json=ASKED).headers["cache-control"] == "no-store"
    assert server.get("/").headers["cache-control"] == "no-cache"
    assert server.get("/static/page/app.js").headers["cache-control"] == "no-cache"


def test_the_page_and_its_scripts_are_served(server):
    page = server.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "javascript" in server.get("/static/page/app.js").headers["content-type"]
    assert "javascript" in server.get("/static/view/view.js").headers["content-type"]


@pytest.mark.parametrize("path", ["/static/page/../app.py", "/static/page/%2e%2e/app.py", "/docs"])
def test_other_files_are_not_served(server, path):
    answer = server.get(path)
    assert (answer.status_code, set(answer.json())) == (404, {"error"})


@pytest.mark.parametrize("path", ["/", "/health", "/static/page/app.js", "/languages", "/nowhere"])
def test_head_is_answered_like_get_without_the_body(server, path):
    head, get = server.request("HEAD", path), server.get(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    assert head.headers["content-length"] == get.headers["content-length"]


def test_errors_of_the_framework_are_json_too(server):
    answer = server.request("DELETE", "/translate")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert answer.json() == {"error": "Method Not Allowed"}


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:5000", "127.0.0.1.evil.example", ""]
)
def test_other_host_names_get_400(server, host):
    answer = server.post("/translate", json=ASKED, headers={"Host": host})
    assert answer.status_code == 400
    assert "Host header is not an accepted name" in answer.json()["error"]


@pytest.mark.parametrize("hosts", [(), ("box.example",)])
def test_malformed_host_names_get_400(tiny_run, hosts):
    with client(tiny_run, host="0.0.0.0", hosts=hosts) as server:
        answer = server.get("/health", headers={"Host": "box.example:80@evil"})
        assert (answer.status_code, list(answer.json())) == (400, ["error"])
        assert "Host header must be a name or an address" in answer.json()["error"]


def test_content_length_with_transfer_encoding_gets_400(server):
    async def chunks():
        yield b"q=x"

    headers = {"Content-Length": "3", "Transfer-Encoding": "chunked"}
    answer = server.post("/translate", content=chunks(), headers=headers)
    assert answer.status_code == 400
    assert answer.headers["connection"] == "close"
    assert "both Content-Length and Transfer-Encoding" in answer.json()["error"]


def test_a_host_name_can_be_allowed(tiny_run):
    with client(tiny_run, hosts=("box.example",)) as server:
        assert server.get("/health", headers={"Host": "box.example:80"}).status_code == 200


def test_a_long_body_gets_413_with_and_without_content_length(server):
    async def chunks():
        for _ in range(20):
            yield b"q=" + b"x" * 100

    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for content in (b"x" * 1001, chunks()):
        answer = server.post("/translate", content=content, headers=form)
        assert answer.status_code == 413
        assert "longer than the 1,000 bytes that are allowed" in answer.json()["error"]


def test_no_other_origin_is_allowed_by_default(server):
    answer = server.post("/translate", json=ASKED, headers={"Origin": "https://a.example"})
    assert "access-control-allow-origin" not in answer.headers


def test_listed_origins_are_allowed(tiny_run):
    with client(tiny_run, origins=("https://a.example",)) as server:
        for origin, allowed in (("https://a.example", "https://a.example"), ("https://b.x", None)):
            answer = server.post("/translate", json=ASKED, headers={"Origin": origin})
            assert answer.headers.get("access-control-allow-origin") == allowed
        asking = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
        assert server.request("OPTIONS", "/translate", headers=asking).status_code == 200


@pytest.mark.parametrize("path", PROTECTED)
def test_a_key_is_needed_and_checked(locked, path):
    asked = PROTECTED[path]
    expected = 403 if path == "/suggest" else 200
    answer = locked.post(path, json=asked)
    assert answer.status_code == 401
    assert "needs an API key" in answer.json()["error"]
    assert answer.headers["www-authenticate"] == "Bearer"
    answer = locked.post(path, json={**asked, "api_key": KEY[:-1]})
    assert (answer.status_code, answer.json()) == (403, {"error": "Invalid API key"})
    assert locked.post(path, json={**asked, "api_key": KEY}).status_code == expected
    bearer_token = {"Authorization": f"Bearer {KEY}"}
    answer = locked.post(path, json=asked, headers=bearer_token)
    assert answer.status_code == expected
    assert "Invalid API key" not in answer.text


def test_pages_and_settings_need_no_key(locked):
    for path in ("/", "/health", "/ready", "/languages", "/frontend/settings", "/openapi.json"):
        assert locked.get(path).status_code == 200
    assert locked.get("/frontend/settings").json()["keyRequired"] is True
    assert locked.get("/metrics").status_code == 401
    bearer_token = {"Authorization": f"bearer {KEY}"}
    assert locked.get("/metrics", headers=bearer_token).status_code == 200


def test_an_answer_that_takes_too_long_gets_504(tiny_run):
    with client(tiny_run, timeout=1e-6) as server:
        answer = server.post("/translate", json=ASKED)
    assert answer.status_code == 504
    assert "no answer within 1e-06 s" in answer.json()["error"]


def test_a_full_queue_gets_503(tiny_run):
    with client(tiny_run, queue=1, window=5, batch_tokens=100_000) as server:
        [served] = server.service.models.served
        asking = asyncio.run_coroutine_threadsafe(
            server._asking.post("/translate", json=ASKED), server._loop
        )
        while not len(served.batcher):
            assert not asking.done()
        answer = server.post("/translate", json=ASKED)
        asking.cancel()
    assert answer.status_code == 503
    assert "1 requests wait" in answer.json()["error"]
    assert int(answer.headers["retry-after"]) >= 1


def test_an_unexpected_error_gets_500_and_is_logged(tiny_run, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("Il part.")

    with client(tiny_run) as server:
        monkeypatch.setattr(server.service.detector, "detect", fail)
        answer = server.post("/detect", json={"q": "Il part."})
    assert answer.status_code == 500
    assert answer.headers["x-request-id"] in answer.json()["error"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "a request failed" in caplog.text
