import asyncio

import pytest

from regard.server.metrics import ServerMetrics
from regard.server.middleware import lifecycle as module
from regard.server.middleware.lifecycle import RequestLifecycle

PART = {"type": "http.request", "more_body": True}
LAST = {"type": "http.request", "more_body": False}


def scope(**headers):
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": "POST", "path": "/translate", "headers": pairs}


def stopping_lifecycle(deadline=float("inf")):
    lifecycle = RequestLifecycle(None, ServerMetrics())  # nobody is let in
    lifecycle.shut, lifecycle._deadline = True, deadline
    return lifecycle


def send_request(lifecycle, receive, **headers):
    """A request, and what it is answered."""
    said = []

    async def send(message):
        said.append(message)

    return lifecycle(scope(**headers), receive, send), said


def status(said):
    return said[0]["status"], said[-1]["type"]


REFUSED = (503, "http.response.body")


async def trickle():
    await asyncio.sleep(0.01)
    return PART


async def silence():
    await asyncio.sleep(60)


def test_who_is_turned_away_is_heard_out_first():
    """A connection closed with something unread is reset, and its answer may be lost."""
    left = [PART, PART, LAST]

    async def receive():
        return left.pop(0)

    async def ask():
        answering, said = send_request(stopping_lifecycle(), receive)
        await answering
        return said

    assert status(asyncio.run(ask())) == REFUSED
    assert not left


@pytest.mark.parametrize("receive", [trickle, silence])
@pytest.mark.parametrize("left", [0.1, 60])
def test_who_takes_too_long_to_say_it_is_told_before(receive, left, monkeypatch):
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.05 if left > 1 else 60)

    async def ask():
        answering, said = send_request(
            stopping_lifecycle(asyncio.get_running_loop().time() + left), receive
        )
        await asyncio.wait_for(answering, 10)
        return said

    assert status(asyncio.run(ask())) == REFUSED


def test_who_waits_to_be_asked_for_a_body_is_not():
    async def receive():
        raise AssertionError("nobody is to ask for it")

    async def ask():
        answering, said = send_request(stopping_lifecycle(), receive, expect="100-Continue")
        await answering
        return said

    assert status(asyncio.run(ask())) == REFUSED


def test_doors_close_in_time_whoever_knocks(monkeypatch):
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(module, "DRAIN_SECONDS", 30)

    async def close():
        lifecycle, said = RequestLifecycle(None, ServerMetrics()), []
        closing = asyncio.create_task(lifecycle.close(0.5))
        await asyncio.sleep(0)
        for _ in range(3):
            answering, heard = send_request(lifecycle, trickle)
            said.append((asyncio.create_task(answering), heard))
        time_limit = await asyncio.wait_for(closing, 10)
        return time_limit, [status(heard) for task, heard in said]

    assert asyncio.run(close()) == (True, [REFUSED] * 3)


@pytest.mark.parametrize("shut", [True, False])
def test_who_is_inside_when_the_time_is_over_is_told_so(shut):
    async def never(scope, receive, send):
        await asyncio.sleep(60)

    async def stay():
        lifecycle = RequestLifecycle(never, ServerMetrics())
        answering, said = send_request(lifecycle, silence)
        task = asyncio.create_task(answering)
        await asyncio.sleep(0)
        time_limit = await lifecycle.close(0.05) if shut else None
        task.cancel()
        await asyncio.wait([task])
        return time_limit, task.cancelled(), said

    time_limit, cancelled, said = asyncio.run(stay())
    assert cancelled is not shut
    assert (time_limit, status(said)) == (False, REFUSED) if shut else not said
