"""A server from its start to its end: sockets, signals, and the clients that never finish."""

import asyncio
import resource
import signal
import socket
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from regard.errors import SettingsError
from regard.serving.server.app import build_app, open_doors
from regard.serving.server.connections import with_timeouts
from regard.serving.server.doors import Doors
from regard.serving.server.keys import Keys
from regard.serving.server.logs import log, start_logging
from regard.serving.server.metrics import Metrics
from regard.serving.server.models import Asked, Loading, Models
from regard.serving.server.service import make_service
from regard.serving.server.settings import ServerSettings

BACKLOG = 2048
"""Connections that the system holds until we take them."""
HEAD = 32 * 1024
"""Longest head of a request, in bytes."""
KEEP_ALIVE = 15
"""Seconds that a silent connection is kept."""
HANGING_UP = 10
"""Seconds that the last connections are given to close when nobody is inside any more."""


def serve(
    asked: Sequence[Asked],
    settings: ServerSettings,
    keys: Keys,
    loading: Loading,
    *,
    announce: Callable[[str], None],
) -> None:
    """Serve models until told to stop by SIGTERM or SIGINT; `announce` is told the address."""
    start_logging()
    metrics = Metrics()
    models = Models.load(asked, settings, metrics, loading)
    app = build_app(make_service(models, settings, keys, metrics))
    doors = open_doors(app)
    listener = listen(settings)
    raise_file_limit()
    config = uvicorn.Config(
        doors,
        http=with_timeouts(settings.read_timeout),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        h11_max_incomplete_event_size=HEAD,
    )
    announce(address(listener))
    GracefulServer(config, doors, app, settings.grace).run(sockets=[listener])


class GracefulServer(uvicorn.Server):
    """Stops in two steps: first no one new is let in, then, when all are out, it ends.

    A second signal ends it at once. SIGHUP loads the models again.
    """

    def __init__(self, config: uvicorn.Config, doors: Doors, app: FastAPI, grace: float) -> None:
        super().__init__(config)
        self._doors, self._app, self._grace = doors, app, grace
        self._background: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._begin, self._reload)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._told, number)
        log("listening", address=address(sockets[0]) if sockets else "")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Before the start is over, just end."""
        self.should_exit = True

    def _told(self, number: int) -> None:
        if self._doors.shut:
            log("stopping at once")
            self._end_at_once()
        else:
            self._begin(self._stop)

    def _begin(self, work: Callable[[], Any]) -> None:
        task = asyncio.ensure_future(work())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _reload(self) -> None:
        await self._app.state.service.models.reload()

    async def _stop(self) -> None:
        log("stopping")
        if not await self._doors.close(self._grace):
            log("some requests took too long and are not answered")
            self._end_at_once()
            return
        # None would be for ever: who does not read the refusal keeps a connection open.
        self.config.timeout_graceful_shutdown = HANGING_UP
        self.should_exit = True

    def _end_at_once(self) -> None:
        """Let uvicorn cancel what is still under way."""
        self.config.timeout_graceful_shutdown = 0
        self.should_exit = True


def listen(settings: ServerSettings) -> socket.socket:
    """A socket at the settings' address, open before models are asked anything.

    Connections inherit TCP_NODELAY. asyncio sets it only where a socket's protocol is TCP by
    number, which `create_server` leaves at 0; without it the second packet of an answer waits for
    the client to acknowledge the first (Nagle), which clients delay for 40 ms.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    where = (settings.host, settings.port)
    try:
        listener = socket.create_server(where, family=family, backlog=BACKLOG)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise SettingsError(
            f"cannot listen at {settings.host} port {settings.port}: {error.strerror or error}; "
            "give another --host or --port"
        ) from None


def address(listener: socket.socket) -> str:
    """Where a browser finds the server."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def raise_file_limit() -> None:
    """Let the process hold as many connections as the system allows it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
