"""uvicorn with connection timeouts and a graceful stop: sockets and signals of one server."""

import asyncio
import re
import resource
import signal
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import SettingsError
from regard.server.app import build_app
from regard.server.middleware.lifecycle import RequestLifecycle
from regard.server.served_models import LoadOptions, ModelSpec
from regard.server.service import Service
from regard.server.settings import ServerSettings
from regard.server.telemetry import configure_logging, log

BACKLOG = 2048  # connections that the system queues until they are accepted
MACOS_MAX_FILES = 10_240  # OPEN_MAX of macOS
MAX_HEAD_BYTES = 32 * 1024
KEEP_ALIVE_SECONDS = 15  # seconds after which an idle connection is closed
BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
END_OF_HEAD = re.compile(rb"\r\n\r\n")
CLOSE_SECONDS = 10  # seconds for the last connections to close when all requests are answered


def serve(
    specs: Sequence[ModelSpec],
    settings: ServerSettings,
    keys: Sequence[str],
    load_options: LoadOptions,
    *,
    on_listening: Callable[[str], None],
) -> None:
    """Serve models until SIGTERM or SIGINT; `on_listening` is called with the address."""
    configure_logging()
    app = build_app(Service(specs, settings, keys, load_options))
    listener = listen(settings)
    raise_file_limit()
    config = uvicorn.Config(
        app.state.lifecycle,
        http=type("Protocol", (TimeoutProtocol,), {"seconds": settings.read_timeout}),
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
    GracefulServer(config, app).run(sockets=[listener])


class GracefulServer(uvicorn.Server):
    """On a signal it refuses new requests and stops when all active ones are answered; on a second
    signal it stops at once. SIGHUP reloads the models.
    """

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._service: Service = app.state.service
        self._lifecycle: RequestLifecycle = app.state.lifecycle
        self._background_tasks: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._start_task, self._service.models.reload)
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signal_number, self._handle_stop_signal)
        log("listening", address=address(sockets[0]) if sockets else "")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal during startup ends the server at once."""
        self.should_exit = True

    def _handle_stop_signal(self) -> None:
        if self._lifecycle.stopping:
            log("stopping at once")
            self._end(timeout=0)
        else:
            self._start_task(self._stop)

    def _start_task(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.ensure_future(work())
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def _stop(self) -> None:
        log("stopping")
        if await self._lifecycle.close(self._service.settings.grace):
            self._end(timeout=CLOSE_SECONDS)
        else:
            log("some requests took too long and were not answered")
            self._end(timeout=0)

    def _end(self, timeout: int) -> None:
        """Let uvicorn close the connections, and cancel requests after `timeout` seconds."""
        self.config.timeout_graceful_shutdown = timeout
        self.should_exit = True


class TimeoutProtocol(H11Protocol):
    """Closes a connection whose next request has no complete head after `seconds` (slow loris
    attacks), or whose client reads nothing of its response for that time.
    """

    seconds: float

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._set_timer("head", self._close_if_idle)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._set_timer("head")
        elif "head" not in self._timers:
            self._set_timer("head", self._close_if_idle)

    def handle_events(self) -> None:
        """As uvicorn does, but a head with a bare line feed is refused: a proxy in front of the
        server may not end a line there, and see other requests than the server does.
        """
        if self.conn.their_state is h11.IDLE:
            unread, _ = self.conn.trailing_data
            head, *_ = END_OF_HEAD.split(unread, maxsplit=1)
            if BARE_LINE_FEED.search(head):
                self.send_400_response("A line of the head ends in a line feed alone.")
                return
        super().handle_events()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timer("head")
        self._set_timer("write")
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_write_timer()

    def resume_writing(self) -> None:
        self._set_timer("write")
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        if self.transport.get_write_buffer_size():  # it is closed only when that is sent
            self._start_write_timer()

    def _set_timer(self, name: str, call: Callable[..., None] | None = None, *args: int) -> None:
        """Cancel a timer, and restart it if there is something to call."""
        if timer := self._timers.pop(name, None):
            timer.cancel()
        if call:
            self._timers[name] = self.loop.call_later(self.seconds, call, *args)

    def _close_if_idle(self) -> None:
        self._set_timer("head")
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()

    def _start_write_timer(self) -> None:
        self._set_timer("write", self._abort_if_stalled, self.transport.get_write_buffer_size())

    def _abort_if_stalled(self, unsent_before: int) -> None:
        if self.transport.get_write_buffer_size() >= unsent_before:
            self.transport.abort()
        else:
            self._start_write_timer()


def listen(settings: ServerSettings) -> socket.socket:
    """A socket that listens at the settings' address.

    Connections inherit TCP_NODELAY, which asyncio does not set here: without it a response's second
    packet may wait 40 ms for the ACK of the first.
    """
    host, port = settings.host, settings.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        reason = f"{error.strerror or error}; give another --host or --port"
        raise SettingsError(f"cannot listen at {host} port {port}: {reason}") from None


def raise_file_limit() -> None:
    """Raise the limit of open files to the system's maximum: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (hard, max(soft, MACOS_MAX_FILES)):
        with suppress(ValueError):  # macOS takes no number above its own, even if it is allowed
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return


def address(listener: socket.socket) -> str:
    """The URL of the server."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
