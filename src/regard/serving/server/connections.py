"""Connections of clients, which are closed when nothing moves any more."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedConnection(H11Protocol):
    """Closes a connection whose next request has no head after some seconds, or whose client takes
    nothing of its answer for as long.

    A client that sends a byte now and then (slow loris), or reads none, would otherwise hold it,
    and what it was to be sent, for ever.
    """

    seconds: float
    _waiting: asyncio.TimerHandle | None = None
    _sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._waiting = self.loop.call_later(self.seconds, self._give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self.seconds, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_sending()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_sending()

    def resume_writing(self) -> None:
        self._stop_sending()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        if self.transport.get_write_buffer_size():  # it is closed when that has gone
            self._watch_sending()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()

    def _watch_sending(self) -> None:
        self._stop_sending()
        unsent = self.transport.get_write_buffer_size()
        self._sending = self.loop.call_later(self.seconds, self._check_sent, unsent)

    def _stop_sending(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _check_sent(self, before: int) -> None:
        if self.transport.get_write_buffer_size() >= before:
            self.transport.abort()
        else:
            self._watch_sending()


def with_timeouts(seconds: float) -> type[TimedConnection]:
    """The protocol with so many seconds; uvicorn makes one of it for each connection."""
    return type("TimedConnection", (TimedConnection,), {"seconds": seconds})
