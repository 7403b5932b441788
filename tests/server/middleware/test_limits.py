import asyncio

import pytest

from regard.server.errors import RequestError, error_response
from regard.server.middleware.limits import (
    RequestLimits,
    allowed_hosts,
    host_name,
)
from regard.server.settings import ServerSettings

HOST = (b"host", b"localhost")


def read(parts, *, declared=None, pause=0.0, **settings):
    """The whole body that the application receives; it is taken out of `parts`."""
    received = []

    async def receive():
        await asyncio.sleep(pause)
        if not parts:
            return {"type": "http.disconnect"}
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def app(scope, receive, send):
        more = True
        while more:
            message = await receive()
            received.append(message["body"])
            more = message["more_body"]
        assert (await receive())["type"] == "http.disconnect"

    headers = [HOST] if declared is None else [HOST, (b"content-length", b"%d" % declared)]
    limits = RequestLimits(app, ServerSettings(**settings))
    asyncio.run(limits({"type": "http", "headers": headers}, receive, None))
    return b"".join(received)


def answer(parts, headers=None, **settings):
    """What happens, in order, when the application refuses a body that is too long."""
    log = []

    async def receive():
        log.append("read")
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message):
        body = message["type"] == "http.response.body"
        log.append(("body" if message.get("more_body") else "end") if body else "head")

    async def app(scope, receive, send):
        try:
            while True:
                await receive()
        except RequestError as refused:
            await error_response(refused)(scope, receive, send)

    raw = [HOST, *((name.encode(), value.encode()) for name, value in (headers or {}).items())]
    limited = RequestLimits(app, ServerSettings(**settings))
    asyncio.run(limited({"type": "http", "headers": raw}, receive, send))
    return log


def test_a_body_within_the_limit_is_received():
    assert read([b"ab", b"", b"cd"], max_bytes=4) == b"abcd"


@pytest.mark.parametrize("declared", [None, 2, 5], ids=["chunked", "lied", "declared"])
def test_a_body_that_is_too_long_gets_413(declared):
    with pytest.raises(RequestError, match="longer than the 4 bytes that are allowed") as refused:
        read([b"ab", b"cd", b"e"], declared=declared, max_bytes=4)
    assert refused.value.status_code == 413
    assert refused.value.headers == {"Connection": "close"}


def test_the_discarded_rest_of_a_refused_body_is_limited(monkeypatch):
    monkeypatch.setattr("regard.server.middleware.limits.MAX_DISCARDED_BYTES", 10)
    endless = [b"x" * 4] * 100
    with pytest.raises(RequestError, match="longer than the 4 bytes"):
        read(endless, max_bytes=4)
    assert len(endless) == 98
    answer(endless, max_bytes=4)
    assert len(endless) == 95


def test_a_content_length_that_is_too_long_is_refused_before_the_body_is_read():
    parts = [b"ab", b"cd", b"e"]
    with pytest.raises(RequestError, match="longer than the 4 bytes"):
        read(parts, declared=5, max_bytes=4)
    assert len(parts) == 3
    log = answer(parts, {"content-length": "5"}, max_bytes=4)
    assert log == ["head", "body", "read", "read", "read", "end"]


def test_nothing_is_read_of_a_refused_body_that_expects_100_continue():
    head = {"content-length": "5", "expect": "100-continue"}
    assert answer([b"abcde"], head, max_bytes=4) == ["head", "body", "end"]


def test_bodies_that_exceed_the_held_bytes_together_get_503():
    """Two concurrent bodies in halves: one is refused, and its room is free again."""
    log = []

    async def app(scope, receive, send):
        try:
            while (await receive())["more_body"]:
                pass
        except RequestError as refused:
            log.append((refused.status_code, refused.headers))
            await asyncio.sleep(0.01)  # still active
        else:
            log.append("whole")

    async def ask(limited):
        parts = [b"x" * 30, b"x" * 30]

        async def receive():
            await asyncio.sleep(0)
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        await limited({"type": "http", "headers": [HOST]}, receive, None)

    async def run():
        limited = RequestLimits(app, ServerSettings(max_bytes=60, max_bytes_held=80))
        await asyncio.gather(ask(limited), ask(limited))
        await ask(limited)  # there is room again

    asyncio.run(run())
    assert sorted(log, key=str) == [(503, {"Retry-After": "1"}), "whole", "whole"]


def test_a_body_that_is_too_slow_gets_408():
    with pytest.raises(RequestError, match="came too slowly") as refused:
        read([b"a"] * 100, pause=0.01, read_timeout=0.05)
    assert refused.value.status_code == 408


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost:5000", "localhost"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]:5000", "::1"),
        ("[::1]", "::1"),
        ("evil.example:5000", "evil.example"),
        ("localhost:", "localhost"),
        ("", ""),
        ("127.0.0.1:80@evil", None),
        ("127.0.0.1:80:80", None),
        ("evil@127.0.0.1", None),
        ("localhost/x", None),
        ("localhost:80 evil", None),
        ("[::1", None),
        ("::1", None),
        ("localhost:123456", None),
        ("localhost:٣", None),
    ],
)
def test_the_name_in_a_host_header(header, name):
    assert host_name(header) == name


def test_a_loopback_server_accepts_loopback_names_alone():
    assert set(allowed_hosts(ServerSettings())) == {"localhost", "127.0.0.1", "::1"}
    assert "box.local" in allowed_hosts(ServerSettings(hosts=("box.local",)))
    assert "127.0.0.9" in allowed_hosts(ServerSettings(host="127.0.0.9"))


def test_a_server_in_the_network_accepts_all_names_by_default():
    assert allowed_hosts(ServerSettings(host="0.0.0.0")) == ()
    assert allowed_hosts(ServerSettings(host="0.0.0.0", hosts=("a",))) == ("a",)
