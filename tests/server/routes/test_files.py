import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote, urlsplit

import pytest

from regard.errors import StorageError
from regard.server.routes import files
from regard.text.segmentation import Segments
from servers import client

PAIR = {"source": "fr", "target": "en"}
SENTENCE = "Jane visite l'Afrique en septembre."
KEY = "0123456789abcdef"


@pytest.fixture(scope="module")
def server(tiny_run):
    with client(tiny_run, max_bytes=10_000) as one:
        yield one


def send(server, name, content, **fields):
    file = {"file": (name, content)}
    return server.post("/translate_file", files=file, data={**PAIR, **fields})


def fetch(server, answer):
    assert answer.status_code == 200, answer.text
    return server.get(urlsplit(answer.json()["translatedFileUrl"]).path)


def test_plain_text_keeps_its_lines(server, translator):
    fetched = fetch(
        server, send(server, "lettre à Jane.txt", f"- {SENTENCE}\r\n\r\n1.\r\n".encode())
    )
    assert fetched.content.decode() == f"- {translator(SENTENCE).text}\r\n\r\n1.\r\n"
    disposition = fetched.headers["content-disposition"]
    assert disposition.startswith("attachment; ")
    assert unquote(disposition).endswith("lettre à Jane.en.txt")


def test_html_keeps_its_markup(server, translator):
    page = f'<!doctype html><p class="a">{SENTENCE}</p><script>let x = 1 < 2;</script>'
    text = fetch(server, send(server, "page.html", page.encode())).text
    assert text.startswith('<!doctype html><p class="a">')
    assert text.endswith("</p><script>let x = 1 < 2;</script>")
    assert translator(SENTENCE).text[:10] in text


@pytest.mark.parametrize(("name", "head"), [("a.srt", ""), ("a.vtt", "WEBVTT\n\n")])
def test_subtitles_keep_their_times(server, name, head):
    cue = f"{head}1\n00:00:01,000 --> 00:00:02,000\n{SENTENCE}\n"
    text = fetch(server, send(server, name, cue.encode())).text
    assert "00:00:01,000 --> 00:00:02,000" in text
    assert SENTENCE not in text


def test_the_language_of_a_file_is_detected(server):
    assert send(server, "a.txt", SENTENCE.encode(), source="auto").status_code == 200


@pytest.mark.parametrize(
    ("name", "content", "fields", "status", "message"),
    [
        ("a.pdf", b"x", {}, 400, "file format not supported; supported are .txt, .text, .md"),
        ("a.txt.gz", b"x", {}, 400, "file format not supported"),
        ("a.txt", b"\xff\xfe", {}, 400, "a.txt: not UTF-8"),
        ("a.txt", b"a\x00b", {}, 400, "has a null character"),
        ("a.txt", b'{"a": "b"}', {}, 400, "a.txt: is JSON, and not lines of text"),
        ("a.srt", b"no times", {}, 400, "a.srt: has no subtitle"),
        ("a.txt", b"x", {"target": "de"}, 400, "fr-de is not supported"),
        ("a.txt", b"x" * 10_001, {}, 413, "longer than the 10,000 bytes"),
    ],
)
def test_wrong_files_are_refused(server, name, content, fields, status, message):
    answer = send(server, name, content, **fields)
    assert answer.status_code == status
    assert message in answer.json()["error"]


def test_a_line_too_long_for_a_model_is_refused(tiny_run):
    with client(tiny_run, max_characters=50) as narrow:
        answer = send(narrow, "a.txt", b"short\n" + b"word " * 20)
        assert answer.status_code == 400
        said = answer.json()["error"]
        assert said == "a line of 100 characters exceeds the limit of 50; break it"
        assert send(narrow, "a.txt", b"one line\n" * 20).status_code == 200


def test_parsing_a_document_counts_against_the_timeout(tiny_run, monkeypatch):
    ended = threading.Event()

    def read_slowly(text, kind, name):
        ended.wait(60)
        return Segments([])

    monkeypatch.setattr(files, "read_document", read_slowly)
    with client(tiny_run, timeout=0.2) as hasty:
        try:
            answer = send(hasty, "a.txt", b"Il part." * 500)
        finally:
            ended.set()
    assert (answer.status_code, answer.json()["error"]) == (
        504,
        "no answer within 0.2 s; send less, or try again later",
    )


def test_forms_without_a_file_are_refused(server):
    answer = server.post("/translate_file", files={"source": (None, "fr"), "target": (None, "en")})
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "Invalid request: missing file parameter",
    )
    answer = server.post("/translate_file", data=PAIR)
    assert answer.status_code == 415
    assert answer.json()["error"] == "send the file as multipart/form-data"


def test_a_file_needs_a_key(tiny_run):
    with client(tiny_run, keys=[KEY]) as server:
        assert send(server, "a.txt", b"Il part.").status_code == 401
        answer = send(server, "a.txt", b"Il part.", api_key=KEY)
        assert fetch(server, answer).status_code == 200


@pytest.mark.parametrize("name", ["nothing", ".", "%2e%2e%2fetc%2fpasswd", "a.txt"])
def test_other_names_of_files_get_404(server, name):
    answer = server.get(f"/download_file/{name}")
    assert answer.status_code == 404


def test_html_in_a_text_keeps_its_markup(server, translator):
    payload = {"q": f"<p>{SENTENCE}</p>", **PAIR, "format": "html", "alternatives": 2}
    found = server.post("/translate", json=payload).json()
    assert found["translatedText"] == f"<p>{translator(SENTENCE).text}</p>"
    assert found["alternatives"] == []
    payload["q"] = ["<b>Il part.</b>", "", "<br>"]
    first, *others = server.post("/translate", json=payload).json()["translatedText"]
    assert "<b>" in first
    assert others == ["", "<br>"]


def test_a_file_is_fetched_by_its_token():
    store = files.MemoryStore(100)
    first, second = store.put("a.txt", b"a"), store.put("a.txt", b"b")
    assert first != second
    assert store.get(first)[:2] == ("a.txt", b"a")
    assert store.get("a.txt") is None


def test_the_oldest_files_are_evicted():
    store = files.MemoryStore(10)
    tokens = [store.put("x", b"1234") for _ in range(4)]
    assert [store.get(token) is not None for token in tokens] == [False, False, True, True]


def test_the_newest_file_is_stored_whatever_its_size():
    store = files.MemoryStore(2)
    assert store.get(store.put("x", b"1234")) is not None


def test_files_are_stored_by_several_threads_at_once():
    store, interval = files.MemoryStore(500), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            tokens = list(pool.map(lambda number: store.put(str(number), b"x"), range(2000)))
    finally:
        sys.setswitchinterval(interval)
    assert sum(store.get(token) is not None for token in tokens) == 500


def test_a_file_expires(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(files.time, "monotonic", lambda: now[0])
    store = files.MemoryStore(100)
    token = store.put("x", b"1")
    now[0] = files.KEEP_SECONDS - 1
    assert store.get(token) is not None
    now[0] = files.KEEP_SECONDS + 1
    assert store.get(token) is None


def test_servers_that_share_a_folder_have_each_others_files(tmp_path):
    one, other = (files.build_store(tmp_path / "files", 10) for _ in range(2))
    first = one.put("é" * 300 + "/../a.txt", b"a\nb")  # its name counts, too
    assert other.get(first)[:2] == ("é" * 300 + "/../a.txt", b"a\nb")
    assert other.get("../" + "x" * 29) is other.get("x" * 32) is None
    second = other.put("a", b"1234")
    assert one.get(first) is None
    assert one.get(second).content == b"1234"
    past = time.time() - files.KEEP_SECONDS - 1
    os.utime(tmp_path / "files" / second, (past, past))
    assert one.get(second) is None
    third = one.put("b", b"")
    assert [path.name for path in (tmp_path / "files").iterdir()] == [third]


def test_a_file_cannot_be_the_folder_of_files(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file: not a folder, which is needed there; give anoth"):
        files.build_store(tmp_path / "file", 100)
