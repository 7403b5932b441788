import asyncio

from regard.serving.server.doors import Doors
from regard.serving.server.metrics import Metrics


def test_who_is_turned_away_is_heard_out_first():
    """A connection closed with something unread is reset, and its answer may be lost."""
    parts = [{"type": "http.request", "more_body": more} for more in (True, True, False)]
    left, said = list(parts), []

    async def receive():
        return left.pop(0)

    async def send(message):
        said.append((message["type"], message.get("status"), len(left)))

    async def visit():
        doors = Doors(None, Metrics())  # nobody is let in
        doors.shut = True
        await doors({"type": "http", "method": "POST", "path": "/translate"}, receive, send)

    asyncio.run(visit())
    assert said[0] == ("http.response.start", 503, 0)
    assert said[-1][0] == "http.response.body"
