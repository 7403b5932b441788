"""Connections of clients, which are closed when nothing moves any more."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimeoutProtocol(H11Protocol):
    """Closes a connection whose next request has no head after some seconds, or whose client takes
    nothing of its answer for as long.

    A client that sends a byte now and then (slow loris), or reads none, would otherwise hold it,
    and what it was to be sent, for ever.
    """

    seconds: float
    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(self.seconds, self._close_if_idle)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.seconds, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_head_timer()
        self._cancel_write_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_write_timer()

    def resume_writing(self) -> None:
        self._cancel_write_timer()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        if self.transport.get_write_buffer_size():  # it is closed when that has gone
            self._start_write_timer()

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close_if_idle(self) -> None:
        self._head_timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()

    def _start_write_timer(self) -> None:
        self._cancel_write_timer()
        unsent = self.transport.get_write_buffer_size()
        self._write_timer = self.loop.call_later(self.seconds, self._abort_if_stalled, unsent)

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _abort_if_stalled(self, unsent_before: int) -> None:
        if self.transport.get_write_buffer_size() >= unsent_before:
            self.transport.abort()
        else:
            self._start_write_timer()


def protocol_with_timeouts(seconds: float) -> type[TimeoutProtocol]:
    """The protocol with so many seconds; uvicorn makes one of it for each connection."""
    return type("TimeoutProtocol", (TimeoutProtocol,), {"seconds": seconds})
