import asyncio

import pytest

from regard.server.middleware import lifecycle as module
from regard.server.middleware.lifecycle import RequestLifecycle
from regard.server.middleware.limits import RequestLimits
from regard.server.settings import ServerSettings
from regard.server.telemetry import ServerMetrics

PART = {"type": "http.request", "more_body": True}
LAST = {"type": "http.request", "more_body": False}


def scope(**headers):
    named = {"host": "localhost", **headers}
    pairs = [(name.encode(), value.encode()) for name, value in named.items()]
    return {"type": "http", "method": "POST", "path": "/translate", "headers": pairs}


def make_lifecycle(app=None):
    return RequestLifecycle(RequestLimits(app, ServerSettings()), ServerMetrics())


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
