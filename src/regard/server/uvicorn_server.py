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
from regard.server.app import build_app, wrap_in_middleware
from regard.server.connection_timeouts import protocol_with_timeouts
from regard.server.logs import configure_logging, log
from regard.server.metrics import ServerMetrics
from regard.server.middleware.api_keys import ApiKeys
from regard.server.middleware.lifecycle import RequestLifecycle
from regard.server.models import LoadOptions, Models, ModelSpec
from regard.server.service import make_service
from regard.server.settings import ServerSettings

BACKLOG = 2048
"""Connections that the system holds until we take them."""
MAX_HEAD_BYTES = 32 * 1024
"""Longest head of a request, in bytes."""
KEEP_ALIVE_SECONDS = 15
"""Seconds that a silent connection is kept."""
CLOSE_SECONDS = 10
"""Seconds that the last connections are given to close when nobody is inside any more."""


def serve(
    specs: Sequence[ModelSpec],
    settings: ServerSettings,
    keys: ApiKeys,
    load_options: LoadOptions,
    *,
    on_listening: Callable[[str], None],
) -> None:
    """Serve models until told to stop by SIGTERM or SIGINT; `announce` is told the address."""
    configure_logging()
    metrics = ServerMetrics()
    models = Models.load(specs, settings, metrics, load_options)
    app = build_app(make_service(models, settings, keys, metrics))
    lifecycle = wrap_in_middleware(app)
    listener = listen(settings)
    raise_file_limit()
    config = uvicorn.Config(
        lifecycle,
        http=protocol_with_timeouts(settings.read_timeout),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    on_listening(address(listener))
    GracefulServer(config, lifecycle, app, settings.grace).run(sockets=[listener])


class GracefulServer(uvicorn.Server):
    """Stops in two steps: first no one new is let in, then, when all are out, it ends.

    A second signal ends it at once. SIGHUP loads the models again.
    """

    def __init__(
        self, config: uvicorn.Config, lifecycle: RequestLifecycle, app: FastAPI, grace: float
    ) -> None:
        super().__init__(config)
        self._lifecycle, self._app, self._grace = lifecycle, app, grace
        self._background_tasks: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._start_task, self._reload)
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signal_number, self._handle_signal, signal_number)
        log("listening", address=address(sockets[0]) if sockets else "")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Before the start is over, just end."""
        self.should_exit = True

    def _handle_signal(self, signal_number: int) -> None:
        if self._lifecycle.shut:
            log("stopping at once")
            self._stop_now()
        else:
            self._start_task(self._stop)

    def _start_task(self, work: Callable[[], Any]) -> None:
        task = asyncio.ensure_future(work())
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def _reload(self) -> None:
        await self._app.state.service.models.reload()

    async def _stop(self) -> None:
        log("stopping")
        if not await self._lifecycle.close(self._grace):
            log("some requests took too long and are not answered")
            self._stop_now()
            return
        # None would be for ever: who does not read the refusal keeps a connection open.
        self.config.timeout_graceful_shutdown = CLOSE_SECONDS
        self.should_exit = True

    def _stop_now(self) -> None:
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
    address_and_port = (settings.host, settings.port)
    try:
        listener = socket.create_server(address_and_port, family=family, backlog=BACKLOG)
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
