import pytest

from regard import __version__
from servers import client

PAIR = {"source": "fr", "target": "en"}


@pytest.fixture(scope="module")
def server(tiny_run, other_run):
    with client(tiny_run, f"en-de={other_run}", max_alternatives=2) as one:
        yield one


@pytest.fixture
def own_server(tiny_run):
    with client(tiny_run) as one:
        yield one


def test_languages_and_their_targets(server):
    assert server.get("/languages").json() == [
        {"code": "fr", "name": "French", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]


def test_frontend_settings(server):
    found = server.get("/frontend/settings").json()
    assert found["charLimit"] == 50_000
    assert found["keyRequired"] is False
    assert found["alternativesLimit"] == 2
    assert found["suggestions"] is False
    assert found["language"] == {
        "source": {"code": "fr", "name": "French"},
        "target": {"code": "en", "name": "English"},
    }


def test_examples_are_short_held_out_sentences_in_the_language_served(tiny_run, server):
    held_out = (tiny_run / "data" / "test.source.txt").read_text("utf-8").splitlines()
    short = [line for line in held_out if len(line) <= 60]
    found = server.get("/frontend/settings").json()["examples"]
    assert found == [{**PAIR, "text": text} for text in short[:2]]  # none for en-de: it is French


def test_each_pair_has_its_own_model(server, translator):
    sentence = "Jane visite l'Afrique en septembre."
    payload = {"q": sentence, "source": "fr", "target": "en"}
    assert server.post("/translate", json=payload).json()["translatedText"] == (
        translator(sentence).text
    )
    payload = {"q": sentence, "source": "en", "target": "de"}
    assert server.post("/translate", json=payload).json()["translatedText"] != (
        translator(sentence).text
    )


def test_a_running_server_is_healthy_and_ready(own_server):
    assert own_server.get("/health").json() == {"status": "ok"}
    ready = {"status": "ok", "models": ["fr-en"], "version": __version__}
    assert own_server.get("/ready").json() == ready


def test_a_stopping_server_is_healthy_but_not_ready(own_server):
    own_server.lifecycle.stopping = True
    assert own_server.get("/health").status_code == 200
    assert own_server.get("/metrics").status_code == 200
    answer = own_server.get("/ready")
    assert (answer.status_code, answer.json()) == (503, {"error": "the server is stopping"})
    answer = own_server.post("/translate", json={"q": "Il part.", **PAIR})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_metrics_count_requests_batches_and_tokens(own_server):
    def value(line):
        found = [
            one for one in own_server.get("/metrics").text.splitlines() if one.startswith(line)
        ]
        return float(found[0].rsplit(" ", 1)[1]) if found else 0.0

    for _ in range(3):
        own_server.post("/translate", json={"q": ["Il part.", "Elle part."], **PAIR})
    own_server.post("/translate", json={})
    own_server.request("INVENTED", "/translate")
    own_server.get("/invented/path")
    requests = 'regard_requests_total{method="%s",route="%s",status="%s"}'
    assert value(requests % ("POST", "/translate", 200)) == 3
    assert value(requests % ("POST", "/translate", 400)) == 1
    assert value(requests % ("(other)", "/translate", 405)) == 1
    assert value(requests % ("GET", "(other)", 404)) == 1
    assert value('regard_request_seconds_count{route="/translate"}') == 5
    assert value('regard_batch_lines_sum{model="fr-en"}') == 6
    assert value('regard_queue_requests{model="fr-en"}') == 0
    assert value('regard_source_tokens_total{model="fr-en"}') > 6
    assert value("regard_requests_inside") == 1  # this one
