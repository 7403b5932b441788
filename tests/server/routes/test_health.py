import pytest

from regard import __version__
from servers import client

PAIR = {"source": "fr", "target": "en"}


@pytest.fixture
def server(tiny_run):
    with client(tiny_run) as one:
        yield one


def test_it_lives_and_is_ready(server):
    assert server.get("/health").json() == {"status": "ok"}
    ready = {"status": "ok", "models": ["fr-en"], "version": __version__}
    assert server.get("/ready").json() == ready


def test_a_server_that_stops_lives_but_is_not_ready(server):
    server.lifecycle.shut = True
    assert server.get("/health").status_code == 200
    assert server.get("/metrics").status_code == 200
    answer = server.get("/ready")
    assert (answer.status_code, answer.json()) == (503, {"error": "the server is stopping"})
    answer = server.post("/translate", json={"q": "Il part.", **PAIR})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["connection"] == "close"


def test_what_is_counted(server):
    def value(line):
        found = [one for one in server.get("/metrics").text.splitlines() if one.startswith(line)]
        return float(found[0].rsplit(" ", 1)[1]) if found else 0.0

    for _ in range(3):
        server.post("/translate", json={"q": ["Il part.", "Elle part."], **PAIR})
    server.post("/translate", json={})
    server.request("INVENTED", "/translate")
    server.get("/invented/path")
    requests = 'regard_requests_total{method="%s",route="%s",status="%s"}'
    assert value(requests % ("POST", "/translate", 200)) == 3
    assert value(requests % ("POST", "/translate", 400)) == 1
    assert value(requests % ("(other)", "/translate", 405)) == 1
    assert value(requests % ("GET", "(other)", 404)) == 1
    assert value('regard_request_seconds_count{route="/translate"}') == 5
    assert value('regard_batch_lines_sum{model="fr-en"}') == 6
    assert value('regard_queue_requests{model="fr-en"}') == 0
    assert value('regard_source_tokens_total{model="fr-en"}') > 6
    assert value("regard_requests_inside") == 1  # the one that asks
