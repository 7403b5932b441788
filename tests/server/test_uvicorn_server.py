"""`regard serve` in a process of its own: real clients, signals, and clients that misbehave."""

import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError

import httpx
import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import ServerException
from libretranslatepy import LibreTranslateAPI

from regard.corpora.readers.pair_files import read_lines
from regard.errors import SettingsError
from regard.server.settings import ServerSettings
from regard.server.uvicorn_server import MACOS_MAX_FILES, address, listen, raise_file_limit
from servers import PATIENCE, process

pytestmark = pytest.mark.slow
LOAD = Path(__file__).parents[1] / "load.py"
SENTENCE = "Jane visite l'Afrique en septembre."
ASKED = {"q": SENTENCE, "source": "fr", "target": "en"}


@pytest.fixture(scope="module")
def server(tiny_run, tmp_path_factory):
    options = ("--read-timeout", 2, "--max-bytes", 100_000)
    with process(tmp_path_factory.mktemp("server"), tiny_run, *options) as one:
        yield one


@pytest.fixture(scope="module")
def expected(tiny_run, translator, tmp_path_factory):
    """A file of texts and what becomes of them one at a time."""
    texts = list(read_lines(tiny_run / "data" / "train.source.txt"))[:80]
    answers = {text: translator(text).text for text in texts}
    file = tmp_path_factory.mktemp("expected") / "expected.json"
    file.write_text(json.dumps(answers), encoding="utf-8")
    return file


def start_load(server, expected, clients, seconds):
    command = [sys.executable, LOAD, server.url, expected, clients, seconds]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def healthy(server):
    return httpx.get(f"{server.url}/health", timeout=10).json() == {"status": "ok"}


def test_libretranslatepy_works(server, translator):
    api = LibreTranslateAPI(server.url)
    assert api.translate(SENTENCE, "fr", "en") == translator(SENTENCE).text
    assert api.detect(SENTENCE)[0]["language"] == "fr"
    assert {one["code"] for one in api.languages()} == {"fr", "en"}
    with pytest.raises(HTTPError) as refused:
        api.translate(SENTENCE, "fr", "xx")
    assert refused.value.code == 400
    refused.value.close()


def test_deep_translator_works(server, translator):
    api = LibreTranslator("fr", "en", api_key="any", custom_url=f"{server.url}/")
    assert api.translate(SENTENCE) == translator(SENTENCE).text
    assert api.translate_batch([SENTENCE, "Il part."])[1] == translator("Il part.").text
    with pytest.raises(ServerException):
        LibreTranslator("de", "en", api_key="any", custom_url=f"{server.url}/").translate("Weg.")


def test_many_clients_each_get_their_own_answer(server, expected):
    load_process = start_load(server, expected, 64, 2)
    answers = json.loads(load_process.communicate(timeout=PATIENCE)[0])
    assert len(answers) >= 64
    assert all(one["status"] == 200 and one["right"] for one in answers)
    batches = httpx.get(f"{server.url}/metrics").text
    assert 'regard_batch_lines_bucket{le="1.0",model="fr-en"}' in batches


def test_every_accepted_request_is_answered_after_sigterm(tiny_run, expected, tmp_path):
    with process(tmp_path, tiny_run, forked=False) as server:
        load_process = start_load(server, expected, 32, 30)
        server.wait_for("request", 64)
        told = time.time()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
        answers = json.loads(load_process.communicate(timeout=PATIENCE)[0])
    assert {one["status"] for one in answers} <= {0, 200, 503}
    assert all(one["right"] for one in answers if one["status"] == 200)
    failed = [one for one in answers if one["status"] == 0]
    assert all(one["sent"] is None or one["sent"] > told for one in failed), failed
    under_way = [one for one in answers if one["began"] < told < one["began"] + one["took"]]
    assert any(one["status"] == 200 for one in under_way)
    turned_away = [one for one in answers if one["status"] == 503]
    events = [one for one in server.events() if one["event"] == "request"]
    assert sum(one["status"] == 503 for one in events) == len(turned_away)


def test_a_second_signal_ends_it_at_once(tiny_run, tmp_path):
    with process(tmp_path, tiny_run, "--read-timeout", 60) as server, connect(server) as slow:
        slow.sendall(head("POST", "/translate", 100) + b"{")
        wait_until(lambda: active_requests(server) == 2)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for("stopping")
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 0


def test_a_request_active_after_the_grace_period_gets_503(tiny_run, tmp_path):
    options = ("--read-timeout", 60, "--grace", 1)
    with process(tmp_path, tiny_run, *options) as server, connect(server) as slow:
        slow.sendall(head("POST", "/translate", 100) + b"{")
        wait_until(lambda: active_requests(server) == 2)
        server.process.send_signal(signal.SIGTERM)
        assert b" 503 " in slow.recv(1000)
        assert server.process.wait(PATIENCE) == 0
        events = [one["event"] for one in server.events()]
        assert "some requests took too long and were not answered" in events
        assert not any("Traceback" in event for event in events)


def test_a_slow_request_that_arrives_while_stopping_does_not_delay_the_end(tiny_run, tmp_path):
    with process(tmp_path, tiny_run) as server, connect(server) as slow:
        server.process.send_signal(signal.SIGTERM)
        server.wait_for("stopping")
        slow.sendall(head("POST", "/translate", 100) + b"{")
        assert b" 503 " in slow.recv(1000)
        assert server.process.wait(PATIENCE) == 0
        events = [one["event"] for one in server.events()]
        assert "some requests took too long and were not answered" not in events


def test_models_are_reloaded_without_losing_a_request(tiny_run, expected, tmp_path):
    folder = shutil.copytree(tiny_run, tmp_path / "run")
    with process(tmp_path, folder, "--watch") as server:
        load_process = start_load(server, expected, 8, 4)
        server.wait_for("request", 8)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("reloaded", 1)
        os.utime(folder / "model.safetensors")
        server.wait_for("reloaded", 2)
        answers = json.loads(load_process.communicate(timeout=PATIENCE)[0])
        assert all(one["status"] == 200 and one["right"] for one in answers)


def head(method, path, length):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {length}"]
    return ("\r\n".join([*lines, "Content-Type: application/json"]) + "\r\n\r\n").encode()


def active_requests(server):
    """Requests that are being answered, the one that asks among them."""
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return next(float(x.split()[1]) for x in lines if x.startswith("regard_requests_inside"))


def wait_until(true):
    until = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /health HTTP/1.1\nHost: localhost\n\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\n",
    ],
)
def test_heads_with_bare_line_feeds_are_refused(server, sent):
    with connect(server) as connection:
        connection.sendall(sent)
        assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")


def test_line_feeds_in_a_body_and_heads_behind_others_are_read(server):
    asked = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = b'{"q": "Elle danse.",\n\n"source": "fr", "target": "en"}'
    with connect(server) as connection:
        connection.sendall(asked + head("POST", "/translate", len(body)) + body)
        answers = b""
        while answers.count(b"HTTP/1.1 200 ") < 2:
            answers += connection.recv(1000)
            assert b" 400 " not in answers


def test_connections_without_a_complete_head_are_closed(server):
    slow = [connect(server) for _ in range(200)]
    for one in slow:
        one.sendall(b"POST /translate HTTP/1.1\r\nHost: loc")
    assert healthy(server)
    for one in slow:
        assert one.recv(100) == b"", "it should be closed"
        one.close()


def test_a_connection_whose_client_reads_nothing_is_closed(server):
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", server.port))
        deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300)
        wait_until(lambda: active_requests(server) == 2)
        wait_until(lambda: active_requests(server) == 1)
    assert healthy(server)


def test_a_body_that_is_too_slow_gets_408(server):
    with connect(server) as slow:
        slow.sendall(head("POST", "/translate", 100) + b'{"q"')
        assert b" 408 " in slow.recv(1000)
    assert healthy(server)


def test_a_huge_body_gets_413(server):
    huge = b"x" * 50_000_000
    answer = httpx.post(f"{server.url}/translate", content=huge, timeout=PATIENCE)
    assert answer.status_code == 415
    kind = {"Content-Type": "application/json"}
    answer = httpx.post(f"{server.url}/translate", content=huge, headers=kind, timeout=PATIENCE)
    assert answer.status_code == 413
    assert "longer than the 100,000 bytes" in answer.json()["error"]
    assert healthy(server)


def test_requests_of_killed_clients_leave_the_queue(server):
    body = json.dumps({**ASKED, "q": [SENTENCE] * 250}).encode()
    gone = [connect(server) for _ in range(30)]
    for one in gone:
        one.sendall(head("POST", "/translate", len(body)) + body)
    wait_until(lambda: active_requests(server) > 20)
    for one in gone:  # closing with what is unread thrown away resets the connection
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
    assert httpx.post(f"{server.url}/translate", json=ASKED, timeout=PATIENCE).status_code == 200
    wait_until(lambda: active_requests(server) == 1)
    lines = httpx.get(f"{server.url}/metrics").text
    assert 'regard_requests_dropped_total{reason="left"}' in lines
    assert 'regard_queue_requests{model="fr-en"} 0.0' in lines


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00" * 100,
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 9999,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"POST /detect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_malformed_requests_do_no_harm(server, garbage):
    with connect(server) as one:
        one.sendall(garbage)
        one.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: one.recv(1000), b""))
    assert received == b"" or b" 400 " in received or b" 431 " in received
    assert received.count(b"HTTP/1.1 ") <= 1
    assert healthy(server)


def test_logs_hold_no_text(server):
    secret = {**ASKED, "q": "Geheimnis"}
    httpx.post(f"{server.url}/translate", json=secret)
    httpx.post(f"{server.url}/translate?q=Geheimnis", json={**secret, "target": "Geheimnis"})
    httpx.get(f"{server.url}/Geheimnis")
    assert healthy(server)
    server.wait_for("request", 4)
    assert "Geheimnis" not in server.log.read_text(encoding="utf-8")
    last = [one for one in server.events() if one["event"] == "request"][-1]
    facts = {"request", "method", "route", "status", "seconds"}
    assert set(last) == {"time", "level", "event", *facts}


def test_the_progress_of_loading_is_logged(tiny_run, tmp_path):
    pytest.importorskip("ctranslate2")
    copied = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(copied / "ctranslate2", ignore_errors=True)
    with process(tmp_path, copied) as server:
        assert [one["event"] for one in server.events()[:3]] == ["loading", "loaded", "listening"]


def test_a_port_in_use_is_an_error(server):
    with pytest.raises(SettingsError, match=f"cannot listen at 127.0.0.1 port {server.port}: "):
        listen(ServerSettings(port=server.port))


def test_connections_have_tcp_nodelay():
    with (
        listen(ServerSettings(port=0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as taken,
    ):
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_url_of_a_server():
    with listen(ServerSettings(port=0)) as listener:
        assert address(listener).startswith("http://127.0.0.1:")
    with listen(ServerSettings(host="::1", port=0)) as listener:
        assert address(listener).startswith("http://[::1]:")


def test_a_system_that_takes_no_unlimited_number_of_files_is_asked_for_fewer(monkeypatch):
    def set_limit(_, limits):
        if limits[0] == resource.RLIM_INFINITY:
            raise ValueError("current limit exceeds maximum limit")  # macOS
        chosen.append(limits)

    chosen, unlimited = [], resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, unlimited))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    raise_file_limit()
    assert chosen == [(MACOS_MAX_FILES, unlimited)]
