import base64

import pytest

from regard.types import Link
from servers import client

SENTENCE = "Jane visite l'Afrique en septembre."
PAIR = {"source": "fr", "target": "en"}
SILENCE = {"kind": "silence", "part": "cross", "layer": 1, "head": 2}


@pytest.fixture(scope="module")
def server(tiny_run):
    with client(tiny_run) as one:
        yield one


def test_a_viewer_document_has_all_attention_maps(server, translator):
    answer = server.post("/attention", json={"q": SENTENCE, **PAIR})
    assert answer.status_code == 200
    document = answer.json()
    expected = translator.look(SENTENCE)
    assert document["target"]["text"] == expected.text
    assert set(document["parts"]) == {"encoder", "decoder", "cross"}
    for part, found in document["parts"].items():
        layers, *shape = expected.attention.parts[part].weights.shape
        assert [one["shape"] for one in found["layers"]] == [shape] * layers
        for one in found["layers"]:
            assert len(base64.b64decode(one["weights"])) == shape[0] * shape[1] * shape[2]
    assert document["tree"] is None
    assert document["before"] is None


def test_a_viewer_document_is_compressed_on_request(server):
    payload = {"q": SENTENCE, **PAIR}
    plain = server.post("/attention", json=payload, headers={"Accept-Encoding": "identity"})
    packed = server.post("/attention", json=payload, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert packed.json() == plain.json()
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"])


def test_interventions_come_with_the_translation_before_them(server, translator):
    payload = {"q": SENTENCE, **PAIR, "changes": [SILENCE]}
    document = server.post("/attention", json=payload).json()
    assert document["changes"] == [SILENCE]
    floats = {"sentence": 0.0, "changes": [{**SILENCE, "layer": float(SILENCE["layer"])}]}
    assert server.post("/attention", json=payload | floats).json() == document
    plain = translator(SENTENCE).text
    assert document["before"] == {"text": plain, "words": plain.split()}


def test_notes_about_unknown_words_are_included(server):
    document = server.post("/attention", json={"q": "Jane danse \u0416\u0416.", **PAIR}).json()
    [note] = document["notes"]
    assert "not in the model's vocabulary: " in note
    assert document["source"]["words"] == ["Jane", "danse", "\u0416\u0416."]


def test_a_link_can_be_forced(server):
    force = {"kind": "force", "target": 0, "source": 2, "layer": None, "head": None}
    document = server.post("/attention", json={"q": SENTENCE, **PAIR, "changes": [force]}).json()
    assert document["changes"] == [force]


def test_the_search_tree_is_included_on_request(server):
    payload = {"q": SENTENCE, **PAIR, "tree": True, "beam": 3, "alternatives": 2}
    document = server.post("/attention", json=payload).json()
    assert len(document["candidates"]) == 3
    assert document["tree"]["nodes"][0][0] is None
    assert len(document["tree"]["answers"]) == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"changes": [{**SILENCE, "layer": 9}]}, "layer: cross attention of fr-en has 2"),
        ({"changes": [{**SILENCE, "head": 9}]}, "has 4, counted from 0"),
        ({"changes": [{"kind": "force", "target": 99, "source": 0}]}, "word 99 of the translation"),
        (
            {"changes": [{"kind": "force", "target": -1, "source": 0}]},
            "changes.0.target must be at least 0, got -1",
        ),
        ({"changes": [{"kind": "hum"}]}, "Invalid request: changes.0"),
        ({"changes": [SILENCE] * 65}, "Invalid request: changes"),
        ({"beam": 17}, "beam must be at most 16"),
        ({"beam": 0}, "Invalid request: beam"),
        ({"sentence": 1}, "sentence 1 is not in the text, which has 1, counted from 0"),
        ({"sentence": -1}, "Invalid request: sentence"),
        ({"target": "de"}, "fr-de is not supported"),
    ],
)
def test_wrong_requests_get_400(server, wrong, message):
    answer = server.post("/attention", json={"q": SENTENCE, **PAIR, **wrong})
    assert answer.status_code == 400
    assert message in answer.json()["error"]


TEXT = f"Il part. {SENTENCE}\n\nElle dort."


@pytest.mark.parametrize(
    ("number", "sentence"), [(0, "Il part."), (1, SENTENCE), (2, "Elle dort.")]
)
def test_sentences_are_segmented_as_for_translation(server, number, sentence):
    document = server.post("/attention", json={"q": TEXT, **PAIR, "sentence": number}).json()
    assert (document["sentence"], document["sentences"]) == (number, 3)
    assert document["source"]["text"] == sentence
    alone = server.post("/translate", json={"q": sentence, **PAIR}).json()["translatedText"]
    assert document["target"]["text"] == alone
    whole = server.post("/translate", json={"q": TEXT, **PAIR}).json()["translatedText"]
    assert alone in whole


def test_whole_lines_are_sentences_where_set_so(tiny_run):
    with client(tiny_run, sentences=False) as lines:
        document = lines.post("/attention", json={"q": TEXT, **PAIR, "sentence": 1}).json()
    assert (document["sentences"], document["source"]["text"]) == (2, "Elle dort.")


def test_a_blank_text_has_no_attention_maps(server):
    answer = server.post("/attention", json={"q": " ", **PAIR})
    assert answer.status_code == 200
    assert answer.json()["parts"] == {}
    assert answer.json()["sentences"] == 1


def test_words_are_aligned(server):
    payload = {"q": SENTENCE, "translation": "Jane visits Africa in September.", **PAIR}
    [found] = server.post("/align", data=payload).json()["alignments"]
    assert found["source_words"] == SENTENCE.split()
    assert found["target_words"] == payload["translation"].split()
    assert found["pharaoh"] == " ".join(f"{s}-{t}" for s, t in found["links"])
    assert found["links"]
    for source, target in found["links"]:
        link: Link = (source, target)
        assert link < (5, 5)


def test_alignments_are_in_the_order_of_the_texts(server):
    pairs = {"q": [SENTENCE, "Il part."], "translation": ["Jane visits Africa.", "He leaves."]}
    first, second = server.post("/align", json={**pairs, **PAIR}).json()["alignments"]
    assert first["source_words"] == SENTENCE.split()
    assert second["target_words"] == ["He", "leaves."]


def test_unequal_numbers_of_texts_get_400(server):
    payload = {"q": [SENTENCE, "Il part."], "translation": "He leaves.", **PAIR}
    answer = server.post("/align", json=payload)
    assert answer.status_code == 400
    assert "2 texts and 1 translations: send as many" in answer.json()["error"]


def test_a_sentence_that_is_too_long_to_align_gets_400(server):
    answer = server.post("/align", json={"q": "Jane " * 99, "translation": "Jane", **PAIR})
    assert answer.status_code == 400
    assert "tokens is longer than the" in answer.json()["error"]
