"""Ctrl-C and SIGTERM as a polite request: finish the step, save, leave."""

import os
import signal
from types import FrameType, TracebackType
from typing import Self

from regard.interruption import SIGNALS, InterruptedBySignal

STOP_MESSAGE = b"asked to stop: the step is finished and saved first; once more stops at once\n"


class StopRequests:
    """While entered, remembers the first signal; a second one interrupts at once.

    So does the first, before training has begun to ask for requests: while a corpus is read there
    is nothing to save.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._polled = False
        self._previous_handlers: dict[signal.Signals, object] = {}

    def __call__(self) -> bool:
        """Whether somebody has asked to stop."""
        self._polled = True
        return self.received is not None

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._previous_handlers[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in SIGNALS:
            signal.signal(number, self._previous_handlers[number])  # type: ignore[arg-type]  # as it was

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None or not self._polled:
            raise InterruptedBySignal(number)
        self.received = signal.Signals(number)
        os.write(2, STOP_MESSAGE)  # not by a stream, which may be in the middle of a line
