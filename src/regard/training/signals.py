"""Ctrl-C and SIGTERM as requests to stop: finish the step, save, exit."""

import os
import signal
from types import FrameType
from typing import Any, Self

from regard.interruption import SIGNALS, InterruptedBySignal

STOP_MESSAGE = (
    "{signal}: stopping after the current step or validation, and saving; a second signal "
    "stops at once\n"
)


class StopRequests:
    """A context manager that records the first signal, for training to poll. A second signal
    interrupts at once, and so does a first one before the first poll, when there is nothing to
    save.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        """With `quiet`, no message is printed: another process prints it."""
        self._quiet = quiet
        self.received: signal.Signals | None = None
        self._polled = False
        self._previous_handlers: dict[signal.Signals, Any] = {}

    def __call__(self) -> bool:
        """Whether a signal has been received."""
        self._polled = True
        return self.received is not None

    def __enter__(self) -> Self:
        self._previous_handlers = {each: signal.signal(each, self._receive) for each in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None or not self._polled:
            raise InterruptedBySignal(number)
        self.received = signal.Signals(number)
        if not self._quiet:
            message = STOP_MESSAGE.format(signal=self.received.name)
            os.write(2, message.encode())  # not via a stream, which may be in the middle of a write
