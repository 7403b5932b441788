import asyncio

import pytest

from regard.serving.server import doors as module
from regard.serving.server.doors import Doors
from regard.serving.server.metrics import Metrics

PART = {"type": "http.request", "more_body": True}
LAST = {"type": "http.request", "more_body": False}


def scope(**headers):
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": "POST", "path": "/translate", "headers": pairs}


def shut_doors(ends=float("inf")):
    doors = Doors(None, Metrics())  # nobody is let in
    doors.shut, doors._ends = True, ends
    return doors


def visit(doors, receive, **headers):
    """A request, and what it is answered."""
    said = []

    async def send(message):
        said.append(message)

    return doors(scope(**headers), receive, send), said


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

    async def knock():
        answering, said = visit(shut_doors(), receive)
        await answering
        return said

    assert status(asyncio.run(knock())) == REFUSED
    assert not left


@pytest.mark.parametrize("receive", [trickle, silence])
@pytest.mark.parametrize("left", [0.1, 60])
def test_who_takes_too_long_to_say_it_is_told_before(receive, left, monkeypatch):
    monkeypatch.setattr(module, "QUIET", 0.05)
    monkeypatch.setattr(module, "LINGER", 0.05 if left > 1 else 60)

    async def knock():
        answering, said = visit(shut_doors(asyncio.get_running_loop().time() + left), receive)
        await asyncio.wait_for(answering, 10)
        return said

    assert status(asyncio.run(knock())) == REFUSED


def test_who_waits_to_be_asked_for_a_body_is_not():
    async def receive():
        raise AssertionError("nobody is to ask for it")

    async def knock():
        answering, said = visit(shut_doors(), receive, expect="100-Continue")
        await answering
        return said

    assert status(asyncio.run(knock())) == REFUSED


def test_doors_close_in_time_whoever_knocks(monkeypatch):
    monkeypatch.setattr(module, "QUIET", 0.05)
    monkeypatch.setattr(module, "LINGER", 30)

    async def close():
        doors, said = Doors(None, Metrics()), []
        closing = asyncio.create_task(doors.close(0.5))
        await asyncio.sleep(0)
        for _ in range(3):
            answering, heard = visit(doors, trickle)
            said.append((asyncio.create_task(answering), heard))
        in_time = await asyncio.wait_for(closing, 10)
        return in_time, [status(heard) for task, heard in said]

    assert asyncio.run(close()) == (True, [REFUSED] * 3)


@pytest.mark.parametrize("shut", [True, False])
def test_who_is_inside_when_the_time_is_over_is_told_so(shut):
    async def never(scope, receive, send):
        await asyncio.sleep(60)

    async def stay():
        doors = Doors(never, Metrics())
        answering, said = visit(doors, silence)
        task = asyncio.create_task(answering)
        await asyncio.sleep(0)
        in_time = await doors.close(0.05) if shut else None
        task.cancel()
        await asyncio.wait([task])
        return in_time, task.cancelled(), said

    in_time, cancelled, said = asyncio.run(stay())
    assert cancelled is not shut
    assert (in_time, status(said)) == (False, REFUSED) if shut else not said
