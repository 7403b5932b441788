import json

import pytest

from servers import client

SENTENCE = "Jane visite l'Afrique en septembre."
PAIR = {"source": "fr", "target": "en"}


@pytest.fixture(scope="module")
def server(tiny_run):
    with client(tiny_run) as one:
        yield one


def events(text):
    """(kind, data) of each event of a stream."""
    found = []
    for block in text.strip().split("\n\n"):
        kind, data = block.split("\n")
        found.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_it_grows_and_ends_in_the_translation(server, translator):
    answer = server.post("/translate/stream", json={"q": SENTENCE, **PAIR, "alternatives": 1})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *partial, (last, done) = events(answer.text)
    assert {kind for kind, _ in partial} <= {"partial"}  # a slow client hears of the end alone
    assert last == "done"
    assert done["translatedText"] == translator(SENTENCE).text
    assert len(done["alternatives"]) == 1


def test_the_lines_of_a_text_grow_together(server, translator):
    answer = server.post("/translate/stream", json={"q": f"{SENTENCE}\n\nIl part.", **PAIR})
    *partial, (_, done) = events(answer.text)
    assert all(data["text"].count("\n") == 2 for _, data in partial)
    expected = f"{translator(SENTENCE).text}\n\n{translator('Il part.').text}"
    assert done["translatedText"] == expected


def test_it_ends_in_the_sentences_too(server):
    text = f"Il part. {SENTENCE}\nElle dort."
    *_, (_, done) = events(server.post("/translate/stream", json={"q": text, **PAIR}).text)
    sources = [pair["source"] for pair in done["sentences"]]
    assert sources == ["Il part.", SENTENCE, "Elle dort."]
    first, second, third = (pair["target"] for pair in done["sentences"])
    assert done["translatedText"] == f"{first} {second}\n{third}"


def test_a_blank_text_is_done_at_once(server):
    answer = server.post("/translate/stream", json={"q": " \n", "source": "auto", "target": "en"})
    [(kind, data)] = events(answer.text)
    assert (kind, data["translatedText"]) == ("done", " \n")
    assert data["detectedLanguage"] == {"confidence": 0.0, "language": "fr"}


def test_it_ends_in_an_error_that_comes_too_late(tiny_run):
    with client(tiny_run, timeout=1e-6) as server:
        answer = server.post("/translate/stream", json={"q": SENTENCE, **PAIR})
    assert answer.status_code == 200
    [(kind, data)] = events(answer.text)
    assert kind == "error"
    assert "no answer within 1e-06 s" in data["error"]


def test_a_wrong_request_begins_no_stream(server):
    answer = server.post("/translate/stream", json={"q": SENTENCE, "source": "fr", "target": "de"})
    assert answer.status_code == 400
    assert "fr-de is not supported" in answer.json()["error"]
