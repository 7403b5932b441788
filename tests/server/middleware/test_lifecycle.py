import asyncio

import pytest

from regard.server.errors import RequestError, error_response
from regard.server.middleware import lifecycle as module
from regard.server.middleware.lifecycle import RequestLifecycle, host_name
from regard.server.settings import ServerSettings
from regard.server.telemetry import ServerMetrics

PART = {"type": "http.request", "more_body": True}
QUERY = {"query_string": b""}
LAST = {"type": "http.request", "more_body": False}


def scope(**headers):
    named = {"host": "localhost", **headers}
    pairs = [(name.encode(), value.encode()) for name, value in named.items()]
    return {"type": "http", "method": "POST", "path": "/translate", "headers": pairs} | QUERY


def make_lifecycle(app=None, **settings):
    return RequestLifecycle(app, ServerSettings(**settings), ServerMetrics())


def stopping_lifecycle(deadline=float("inf")):
    lifecycle = make_lifecycle()
    lifecycle.stopping, lifecycle._deadline = True, deadline
    return lifecycle


def send_request(lifecycle, receive, **headers):
    """A coroutine that serves a request, and the list of messages it will send."""
    messages = []

    async def send(message):
        messages.append(message)

    return lifecycle(scope(**headers), receive, send), messages


def status(messages):
    return messages[0]["status"], messages[-1]["type"]


REFUSED = (503, "http.response.body")


async def trickle():
    await asyncio.sleep(0.01)
    return PART


async def silence():
    await asyncio.sleep(60)


def test_a_refused_request_is_read_to_its_end():
    """A connection closed with something unread is reset, and its answer may be lost."""
    left = [PART, PART, LAST]

    async def receive():
        return left.pop(0)

    async def ask():
        answering, messages = send_request(stopping_lifecycle(), receive)
        await answering
        return messages

    assert status(asyncio.run(ask())) == REFUSED
    assert not left


@pytest.mark.parametrize("receive", [trickle, silence])
@pytest.mark.parametrize("left", [0.1, 60])
def test_a_slow_refused_request_is_not_read_to_its_end(receive, left, monkeypatch):
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.05 if left > 1 else 60)

    async def ask():
        answering, messages = send_request(
            stopping_lifecycle(asyncio.get_running_loop().time() + left), receive
        )
        await asyncio.wait_for(answering, 10)
        return messages

    assert status(asyncio.run(ask())) == REFUSED


def test_nothing_is_read_of_a_refused_request_that_expects_100_continue():
    async def receive():
        raise AssertionError("no body is to be read")

    async def ask():
        answering, messages = send_request(stopping_lifecycle(), receive, expect="100-Continue")
        await answering
        return messages

    assert status(asyncio.run(ask())) == REFUSED


def test_closing_ends_in_time_though_requests_keep_coming(monkeypatch):
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(module, "DRAIN_SECONDS", 30)

    async def close():
        lifecycle, sent = make_lifecycle(), []
        closing = asyncio.create_task(lifecycle.close(0.5))
        await asyncio.sleep(0)
        for _ in range(3):
            answering, messages = send_request(lifecycle, trickle)
            sent.append((asyncio.create_task(answering), messages))
        in_time = await asyncio.wait_for(closing, 10)
        return in_time, [status(messages) for _, messages in sent]

    assert asyncio.run(close()) == (True, [REFUSED] * 3)


def test_refused_requests_that_never_pause_do_not_use_up_the_grace_period(monkeypatch):
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.02)
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.1)

    async def close():
        lifecycle = make_lifecycle()
        closing = asyncio.create_task(lifecycle.close(60))
        await asyncio.sleep(0)
        late = set()
        while not closing.done():  # each is read for longer than it takes until the next one
            late.add(asyncio.create_task(send_request(lifecycle, trickle)[0]))
            await asyncio.sleep(0.01)
            assert len(late) < 1000
        return closing.result()

    assert asyncio.run(close())


@pytest.mark.parametrize("stopping", [True, False])
def test_a_request_active_at_the_end_of_the_grace_period_gets_503(stopping):
    async def never(scope, receive, send):
        await asyncio.sleep(60)

    async def stay():
        lifecycle = make_lifecycle(never)
        answering, messages = send_request(lifecycle, silence)
        task = asyncio.create_task(answering)
        await asyncio.sleep(0)
        in_time = await lifecycle.close(0.05) if stopping else None
        task.cancel()
        await asyncio.wait([task])
        return in_time, task.cancelled(), messages

    in_time, cancelled, messages = asyncio.run(stay())
    assert cancelled is not stopping
    assert (in_time, status(messages)) == (False, REFUSED) if stopping else not messages


def receiver(parts, log, pause=0.0):
    """An ASGI `receive` that takes a body out of `parts`."""

    async def receive():
        await asyncio.sleep(pause)
        log.append("read")
        if not parts:
            return {"type": "http.disconnect"}
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    return receive


def read(parts, *, pause=0.0, **settings):
    """The whole body that the application receives; an error refuses it."""
    received = []

    async def app(scope, receive, send):
        try:
            while (message := await receive())["type"] != "http.disconnect":
                received.append(message["body"])
        except RequestError as refused:
            received.append(refused)

    lifecycle = make_lifecycle(app, **settings)
    asyncio.run(lifecycle(scope(), receiver(parts, [], pause), None))
    if isinstance(received[-1], RequestError):
        raise received[-1]
    return b"".join(received)


def answer(parts, headers=None, **settings):
    """What happens, in order, when the application refuses a body; the refusal."""
    log, refusals = [], []

    async def send(message):
        body = message["type"] == "http.response.body"
        log.append(("body" if message.get("more_body") else "end") if body else "head")

    async def app(scope, receive, send):
        try:
            while True:
                await receive()
        except RequestError as refused:
            refusals.append(refused)
            await error_response(refused)(scope, receive, send)

    lifecycle = make_lifecycle(app, **settings)
    asyncio.run(lifecycle(scope(**(headers or {})), receiver(parts, log), send))
    return log, refusals[0]


def test_a_body_within_the_limit_is_received():
    assert read([b"ab", b"", b"cd"], max_bytes=4) == b"abcd"


@pytest.mark.parametrize(
    ("declared", "log"),
    [
        ({}, ["read", "read", "read", "head", "body", "end"]),
        ({"content-length": "2"}, ["read", "read", "read", "head", "body", "end"]),
        ({"content-length": "5"}, ["head", "body", "read", "read", "read", "end"]),
        ({"content-length": "5", "expect": "100-continue"}, ["head", "body", "end"]),
    ],
    ids=["chunked", "false length", "true length", "expects 100 Continue"],
)
def test_a_body_that_is_too_long_gets_413_and_is_discarded(declared, log):
    found, refused = answer([b"ab", b"cd", b"e"], declared, max_bytes=4)
    assert found == log
    assert refused.status_code == 413
    assert "longer than the 4 bytes that are allowed" in refused.detail
    assert refused.headers == {"Connection": "close"}


def test_the_discarded_rest_of_a_refused_body_is_limited(monkeypatch):
    monkeypatch.setattr(module, "MAX_DISCARDED_BYTES", 10)
    endless = [b"x" * 4] * 100
    answer(endless, max_bytes=4)
    assert len(endless) == 97


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
            await asyncio.sleep(0.005)
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        await limited(scope(), receive, None)

    async def run():
        limited = make_lifecycle(app, max_bytes=60, max_bytes_held=80)
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
