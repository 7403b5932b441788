import json
import shutil

import pytest

from regard.decoding.settings import search_settings
from regard.tasks.translation.markup.markup_translator import translate_markup
from servers import client

SENTENCES = ["Jane visite l'Afrique en septembre.", "Elle ne la visite pas.", "Il part."]
PAIR = {"source": "fr", "target": "en"}


@pytest.fixture(scope="module")
def server(tiny_run):
    with client(tiny_run, max_characters=500, max_texts=5) as one:
        yield one


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_text_is_translated(server, translator, sentence):
    answer = server.post("/translate", json={"q": sentence, **PAIR})
    assert answer.status_code == 200
    assert answer.json() == {"translatedText": translator(sentence).text}


def test_several_texts_are_translated(server, translator):
    answer = server.post("/translate", json={"q": [*SENTENCES, "", " "], **PAIR})
    expected = [translator(sentence).text for sentence in SENTENCES]
    assert answer.json() == {"translatedText": [*expected, "", " "]}


@pytest.mark.parametrize("way", ["data", "files"])
def test_forms_are_read(server, translator, way):
    fields = {"q": SENTENCES[0], **PAIR, "alternatives": "1", "format": "text"}
    if way == "files":  # multipart, as curl -F sends it
        fields = {name: (None, value) for name, value in fields.items()}
    answer = server.post("/translate", **{way: fields})
    assert answer.json()["translatedText"] == translator(SENTENCES[0]).text
    assert len(answer.json()["alternatives"]) == 1


@pytest.mark.parametrize(
    "kind", [None, "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_fields_in_the_query_string_are_read(server, translator, kind):
    fields = {"q": "L'été, il part.", **PAIR, "alternatives": "1"}
    body = b"--x--\r\n" if kind and "multipart" in kind else b""
    headers = {"Content-Type": kind} if kind else {}
    answer = server.post("/translate", params=fields, content=body, headers=headers)
    assert answer.json()["translatedText"] == translator(fields["q"]).text
    assert len(answer.json()["alternatives"]) == 1
    refused = server.post("/translate", params={"source": "fr"}, content=body, headers=headers)
    assert refused.json()["error"] == "Invalid request: missing q parameter"
    refused = server.post("/translate?q=%e9", content=body, headers=headers)
    assert "the query string is not UTF-8" in refused.json()["error"]


def test_lenient_json_is_read(server, translator):
    payload = {"q": SENTENCES[0], **PAIR, "alternatives": "1", "format": None, "api_key": ""}
    for content, kind in (
        (json.dumps(payload).encode("utf-8-sig"), "application/json"),
        (json.dumps(payload), "application/vnd.api+json; charset=utf-8"),
    ):
        answer = server.post("/translate", content=content, headers={"Content-Type": kind}).json()
        assert answer["translatedText"] == translator(SENTENCES[0]).text
        assert len(answer["alternatives"]) == 1


def test_lines_stay_lines(server, translator):
    answer = server.post("/translate", json={"q": "\n".join(SENTENCES) + "\n\n", **PAIR})
    expected = "\n".join(translator(sentence).text for sentence in SENTENCES) + "\n\n"
    assert answer.json() == {"translatedText": expected}


def test_alternatives_are_the_n_best(server, translator):
    answer = server.post("/translate", json={"q": SENTENCES[0], **PAIR, "alternatives": 3})
    settings = search_settings(translator.settings, beam=4, n_best=4)
    [expected] = translator.translate(SENTENCES[:1], settings)
    found = [answer.json()["translatedText"], *answer.json()["alternatives"]]
    assert found == list(dict.fromkeys(one.text for one in expected.candidates))


def test_the_language_is_detected(server, translator):
    answer = server.post("/translate", json={"q": SENTENCES[0], "source": "auto", "target": "en"})
    assert answer.json()["translatedText"] == translator(SENTENCES[0]).text
    assert answer.json()["detectedLanguage"]["language"] == "fr"
    assert answer.json()["detectedLanguage"]["confidence"] > 90
    answer = server.post("/translate", json={"q": SENTENCES, "source": "auto", "target": "en"})
    assert [one["language"] for one in answer.json()["detectedLanguage"]] == ["fr"] * 3


ENGLISH = "She does not visit it, and he is happy."


def test_the_language_of_each_text_is_detected(server, translator):
    texts = [SENTENCES[0], ENGLISH, "12:30", SENTENCES[1]]
    payload = {"q": texts, "source": "auto", "target": "en", "alternatives": 1}
    answer = server.post("/translate", json=payload).json()
    expected = [translator(text).text for text in texts]
    expected[1] = ENGLISH
    assert answer["translatedText"] == expected
    assert answer["alternatives"][1] == []
    assert [one["language"] for one in answer["detectedLanguage"]] == ["fr", "en", "fr", "fr"]
    refused = server.post("/translate", json={**payload, "q": ["Il part.", "你好"]})
    assert refused.json()["error"].startswith("auto-en: text 2 of 2 resembles no text in fr")


@pytest.mark.parametrize("source", ["auto", "en"])
@pytest.mark.parametrize("form", ["text", "html"])
def test_a_text_in_the_target_language_is_returned_unchanged(server, source, form):
    text = f"<p>{ENGLISH}</p>" if form == "html" else f"{ENGLISH}\n "
    payload = {"q": text, "source": source, "target": "en"}
    answer = server.post("/translate", json={**payload, "format": form})
    assert (answer.status_code, answer.json()["translatedText"]) == (200, text)
    streamed = server.post("/translate/stream", json=payload).text
    assert streamed.startswith("event: done")
    assert json.loads(streamed.partition("data: ")[2])["translatedText"] == text
    refused = server.post("/attention", json=payload)
    assert refused.status_code == 400
    assert "the text is already in en" in refused.json()["error"]


def test_a_named_source_language_is_not_checked(server, translator):
    answer = server.post("/translate", json={"q": ENGLISH, **PAIR}).json()
    assert answer == {"translatedText": translator(ENGLISH).text}


def test_a_low_confidence_is_not_rounded_to_0(server):
    first, second = server.post("/detect", json={"q": SENTENCES[0]}).json()
    assert first["confidence"] > 90
    assert 0 < second["confidence"] < 0.01


@pytest.mark.parametrize("path", ["/translate", "/translate/stream", "/attention"])
def test_a_text_in_an_unknown_language_gets_400(server, path):
    answer = server.post(path, json={"q": "你好", "source": "auto", "target": "en"})
    assert answer.status_code == 400
    assert answer.json()["error"] == (
        "auto-en: the text resembles no text in fr, which this server has models for; "
        "name the source"
    )
    answer = server.post(path, json={"q": "12:30", "source": "auto", "target": "en"})
    assert answer.status_code == 200  # there is nothing to tell a language by


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_forms_are_utf8(server, translator, kind):
    def send(text, ending=b""):
        fields = {"q": text, "source": b"fr", "target": b"en"}
        if kind.startswith("multipart"):
            begin = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
            content = b"".join(begin % (k.encode(), v) for k, v in fields.items()) + b"--x--\r\n"
        else:
            content = b"&".join(k.encode() + b"=" + v for k, v in fields.items())
        headers = {"Content-Type": f"{kind}; boundary=x"}
        return server.post("/translate", content=content, headers=headers)

    text = "L'été, il part."
    assert send(text.encode()).json()["translatedText"] == translator(text).text
    refused = send(text.encode("latin-1"))
    assert (refused.status_code, refused.json()["error"]) == (
        400,
        "Invalid request: the body is not UTF-8: it has the byte 0xe9; send UTF-8",
    )


def test_bytes_of_a_form_are_utf8(server):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    refused = server.post("/translate", content=b"q=%e9t%e9&source=fr", headers=headers)
    assert refused.status_code == 400
    assert "not UTF-8: it has the byte 0xe9" in refused.json()["error"]
    many = server.post("/translate", content=b"q=x&" * 2000, headers=headers)
    assert many.json()["error"].endswith("a form may have at most 1000 fields")


def test_detected_languages_are_sorted_by_confidence(server):
    first, second = server.post("/detect", data={"q": "Elle ne la visite pas."}).json()
    assert (first["language"], second["language"]) == ("fr", "en")
    assert first["confidence"] > 90 > second["confidence"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"q": "x", "source": "fr"}, "Invalid request: missing target parameter"),
        ({"source": "fr", "target": "en"}, "Invalid request: missing q parameter"),
        ({"q": "x", "source": "fr", "target": "de"}, "fr-de is not supported; this server has"),
        ({"q": "x", "source": "de", "target": "de"}, "de-de is not supported; this server has"),
        ({"q": "x", "source": "auto", "target": "de"}, "auto-de is not supported: there is no"),
        ({"q": 3, **PAIR}, "Invalid request: q must be a text, got 3"),
        ({"q": ["x", None], **PAIR}, "Invalid request: q.1 must be a text, got null"),
        ({"q": True, **PAIR}, "Invalid request: q must be a text, got true"),
        ({"q": [], **PAIR}, "Invalid request: q must hold 1 or more, got a list of 0"),
        ({"q": "x", **PAIR, "format": "pdf"}, "format must be 'text' or 'html', got 'pdf'"),
        ({"q": "x", **PAIR, "format": []}, "format must be 'text' or 'html', got a list of 0"),
        ({"q": "x", **PAIR, "source": "f" * 5000}, "… (5,003 characters) is not supported; this"),
        ({"q": "x", **PAIR, "alternatives": 99}, "alternatives must be at most 10"),
        ({"q": "x", **PAIR, "alternatives": -1}, "alternatives must be at least 0, got -1"),
        ({"q": "x", **PAIR, "alternatives": "²"}, "alternatives must be a whole number, got '²'"),
        ({"q": "x", **PAIR, "alternatives": "9" * 5000}, "alternatives must be a whole number"),
        ({"q": "x", **PAIR, "alternatives": 10**400}, "alternatives must be at most 10"),
        ({"q": "x", **PAIR, "alternatives": True}, "alternatives must be a whole number"),
        ({"q": "x" * 501, **PAIR}, "request (501) exceeds text limit (500)"),
        ({"q": ["x" * 101] * 5, **PAIR}, "request (505) exceeds text limit (500)"),
        ({"q": ["x"] * 6, **PAIR}, "6 texts exceed the limit of 5"),
    ],
)
def test_wrong_requests_get_400(server, wrong, message):
    answer = server.post("/translate", json=wrong)
    assert answer.status_code == 400
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("valid", "translation"),
    [({"alternatives": 2.0}, None), ({"q": ""}, ""), ({"q": [""]}, [""]), ({"format": None}, None)],
)
def test_what_the_schema_allows_is_accepted(server, valid, translation):
    """JSON Schema takes 2.0 for an integer; in a form, a list of an empty text is an empty text."""
    answer = server.post("/translate", json={"q": "Il part.", **PAIR, **valid})
    assert answer.status_code == 200, answer.text
    assert translation in (None, answer.json()["translatedText"])


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"q": "\\ud800"}', b"[" * 100_000, b'{"q":' * 9999],
)
def test_malformed_json_gets_400(server, body):
    answer = server.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert "Invalid request" in answer.json()["error"]


def test_json_in_latin_1_is_told_so(server):
    body, headers = '{"q": "été"}'.encode("latin-1"), {"Content-Type": "application/json"}
    answer = server.post("/translate", content=body, headers=headers)
    wanted = "Invalid request: the body is not UTF-8: it has the byte 0xe9; send UTF-8"
    assert (answer.status_code, answer.json()["error"]) == (400, wanted)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml"])
def test_other_media_types_get_415(server, kind):
    headers = {"Content-Type": kind} if kind else {}
    answer = server.post("/translate", content=b"q=x", headers=headers)
    assert answer.status_code == 415
    assert f"Content-Type is {kind or 'missing'}" in answer.json()["error"]


@pytest.mark.parametrize("content", [b"--x\r\nnonsense", b"", b"--x--"])
def test_a_broken_multipart_body_gets_400(server, content):
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert server.post("/translate", content=content, headers=headers).status_code == 400
    headers = {"Content-Type": "multipart/form-data"}
    assert server.post("/translate", content=content, headers=headers).status_code == 400


def test_suggestions_get_403(server):
    answer = server.post("/suggest", data={"q": "a", "s": "b", **PAIR})
    assert (answer.status_code, answer.json()) == (
        403,
        {"error": "Suggestions are disabled on this server."},
    )


@pytest.mark.parametrize(
    "text", ["\x00", "\u202e" * 50, "a" * 500, "<script>alert(1)</script>", "{}" * 20, "😀\ufeff"]
)
def test_hostile_texts_are_translated_like_others(server, text):
    answer = server.post("/translate", json={"q": text, **PAIR})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"


def test_without_texts_no_language_is_detected(tiny_run, tmp_path):
    folder = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(folder / "data")
    auto = {"q": "Il part.", "source": "auto", "target": "en"}
    with client(f"fr-en={folder}") as server:
        answer = server.post("/detect", json={"q": "Il part."})
        assert answer.status_code == 400
        assert "this server has no texts to detect languages with" in answer.json()["error"]
        found = server.post("/translate", json=auto).json()["detectedLanguage"]
        assert found == {"confidence": 0.0, "language": "fr"}
    with client(f"fr-en={folder}", f"de-en={folder}") as server:
        answer = server.post("/translate", json=auto)
        assert answer.status_code == 400
        assert (
            "auto-en is not supported: this server has no texts to detect" in answer.json()["error"]
        )


@pytest.mark.parametrize(
    "text",
    ["2026", "...", "😀", "https://example.com", "a@b.org", "- ", "1. ", "   ", "| Il part. | 12 |",
     "Il part. Elle ne la visite pas.", "    - Il part.   😀", "Il part.\t12\tElle"],
)  # fmt: skip
def test_every_way_to_translate_a_text_gives_the_same(server, translator, text):
    expected_text = translator(text).text
    assert translate_markup(translator, [text]) == [expected_text]
    for kind in ("text", "html"):
        answer = server.post("/translate", json={"q": text, **PAIR, "format": kind})
        assert answer.json()["translatedText"] == expected_text
    stream = server.post("/translate/stream", json={"q": text, **PAIR}).text
    assert json.loads(stream.rsplit("data: ", 1)[1])["translatedText"] == expected_text
    sent = server.post("/translate_file", files={"file": ("a.txt", text.encode())}, data=PAIR)
    address = sent.json()["translatedFileUrl"].partition("//")[2].partition("/")[2]
    assert server.get(f"/{address}").content.decode() == expected_text
    look = server.post("/attention", json={"q": text, **PAIR}).json()
    found = translator.segment(text).lines
    assert look["target"]["text"] == (translator(found[0]).text if found else text)


def events(text):
    """(kind, data) of each event of a stream."""
    found = []
    for block in text.strip().split("\n\n"):
        kind, data = block.split("\n")
        found.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_a_stream_grows_and_ends_in_the_translation(server, translator):
    answer = server.post("/translate/stream", json={"q": SENTENCES[0], **PAIR, "alternatives": 1})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *partial, (last, done) = events(answer.text)
    assert {kind for kind, _ in partial} <= {"partial"}  # a slow client hears of the end alone
    assert last == "done"
    assert done["translatedText"] == translator(SENTENCES[0]).text
    assert len(done["alternatives"]) == 1


def test_the_lines_of_a_streamed_text_grow_together(server, translator):
    answer = server.post("/translate/stream", json={"q": f"{SENTENCES[0]}\n\nIl part.", **PAIR})
    *partial, (_, done) = events(answer.text)
    assert all(data["text"].count("\n") == 2 for _, data in partial)
    expected = f"{translator(SENTENCES[0]).text}\n\n{translator('Il part.').text}"
    assert done["translatedText"] == expected


def test_a_stream_ends_in_the_sentences_too(server):
    text = f"Il part. {SENTENCES[0]}\nElle dort."
    *_, (_, done) = events(server.post("/translate/stream", json={"q": text, **PAIR}).text)
    sources = [pair["source"] for pair in done["sentences"]]
    assert sources == ["Il part.", SENTENCES[0], "Elle dort."]
    first, second, third = (pair["target"] for pair in done["sentences"])
    assert done["translatedText"] == f"{first} {second}\n{third}"


def test_the_stream_of_a_blank_text_is_done_at_once(server):
    answer = server.post("/translate/stream", json={"q": " \n", "source": "auto", "target": "en"})
    [(kind, data)] = events(answer.text)
    assert (kind, data["translatedText"]) == ("done", " \n")
    assert data["detectedLanguage"] == {"confidence": 0.0, "language": "fr"}


def test_a_stream_that_takes_too_long_ends_in_an_error(tiny_run):
    with client(tiny_run, timeout=1e-6) as server:
        answer = server.post("/translate/stream", json={"q": SENTENCES[0], **PAIR})
    assert answer.status_code == 200
    [(kind, data)] = events(answer.text)
    assert kind == "error"
    assert "no answer within 1e-06 s" in data["error"]


def test_a_wrong_request_begins_no_stream(server):
    payload = {"q": SENTENCES[0], "source": "fr", "target": "de"}
    answer = server.post("/translate/stream", json=payload)
    assert answer.status_code == 400
    assert "fr-de is not supported" in answer.json()["error"]
