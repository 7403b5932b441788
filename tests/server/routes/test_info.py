import pytest

from servers import client


@pytest.fixture(scope="module")
def server(tiny_run, other_run):
    with client(tiny_run, f"en-de={other_run}", max_alternatives=2) as one:
        yield one


def test_languages(server):
    assert server.get("/languages").json() == [
        {"code": "fr", "name": "French", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]


def test_settings_of_a_page(server):
    found = server.get("/frontend/settings").json()
    assert found["charLimit"] == 50_000
    assert found["keyRequired"] is False
    assert found["alternativesLimit"] == 2
    assert found["suggestions"] is False
    assert found["language"] == {
        "source": {"code": "fr", "name": "French"},
        "target": {"code": "en", "name": "English"},
    }


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
