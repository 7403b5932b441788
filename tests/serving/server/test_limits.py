import asyncio

import pytest
from starlette.datastructures import Headers

from regard.serving.server.limits import BodyReader, allowed_hosts, host_name
from regard.serving.server.refusals import RequestError
from regard.serving.server.settings import ServerSettings


def read(parts, *, declared=None, pause=0.0, **settings):
    """The whole body, as a reader lets it through; it is taken out of `parts`."""

    async def receive():
        await asyncio.sleep(pause)
        if not parts:
            return {"type": "http.disconnect"}
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def run():
        headers = Headers({} if declared is None else {"content-length": str(declared)})
        reader = BodyReader(receive, headers, ServerSettings(**settings))
        whole, more = b"", True
        while more:
            message = await reader()
            whole, more = whole + message["body"], message["more_body"]
        assert (await reader())["type"] == "http.disconnect"
        return whole

    return asyncio.run(run())


def test_a_body_within_the_limit_comes_through():
    assert read([b"ab", b"", b"cd"], max_bytes=4) == b"abcd"


@pytest.mark.parametrize("declared", [None, 2, 5], ids=["chunked", "lied", "declared"])
def test_a_body_that_is_too_long(declared):
    with pytest.raises(RequestError, match="longer than the 4 bytes that are allowed") as refused:
        read([b"ab", b"cd", b"e"], declared=declared, max_bytes=4)
    assert refused.value.status == 413
    assert refused.value.headers == {"Connection": "close"}


def test_no_more_than_some_of_it_is_thrown_away(monkeypatch):
    monkeypatch.setattr("regard.serving.server.limits.DISCARD", 10)
    endless = [b"x" * 4] * 100
    with pytest.raises(RequestError, match="longer than the 4 bytes"):
        read(endless, max_bytes=4)
    assert len(endless) == 97


def test_a_body_that_comes_too_slowly():
    with pytest.raises(RequestError, match="came too slowly") as refused:
        read([b"a"] * 100, pause=0.01, read_timeout=0.05)
    assert refused.value.status == 408


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost:5000", "localhost"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]:5000", "::1"),
        ("[::1]", "::1"),
        ("evil.example:5000", "evil.example"),
        ("", ""),
    ],
)
def test_the_name_in_a_host_header(header, name):
    assert host_name(header) == name


def test_a_loopback_server_answers_to_loopback_names_alone():
    assert set(allowed_hosts(ServerSettings())) == {"localhost", "127.0.0.1", "::1"}
    assert "box.local" in allowed_hosts(ServerSettings(hosts=("box.local",)))
    assert "127.0.0.9" in allowed_hosts(ServerSettings(host="127.0.0.9"))


def test_a_server_in_the_network_answers_to_all_names_unless_told():
    assert allowed_hosts(ServerSettings(host="0.0.0.0")) == ()
    assert allowed_hosts(ServerSettings(host="0.0.0.0", hosts=("a",))) == ("a",)
