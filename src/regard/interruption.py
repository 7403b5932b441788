"""Ctrl-C and SIGTERM while this process is deaf to them: in imports, and in long calls of C++."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ASIDE = "regard-aside"
"""Name of a thread that runs what cannot be interrupted."""

T = TypeVar("T")


class Stopped(KeyboardInterrupt):
    """A signal that nobody waited for politely."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """Within it, a signal ends the process with one line: an exception would be lost in imports."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler not in (signal.SIG_IGN, None):  # as in the background of a shell
            signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"error: interrupted\n")
    os._exit(128 + number)


def interruptible(work: Callable[[], T]) -> T:
    """What `work` gives; a signal ends the wait for it at once, though not the work.

    Python hears no signal while its main thread is inside a call of another language.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    over = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            over.set()

    threading.Thread(target=run, name=ASIDE, daemon=True).start()
    over.wait()
    if errors:
        raise errors[0]
    return results[0]


def is_busy_aside() -> bool:
    """Whether work was left that cannot be ended but with the process."""
    return any(thread.name == ASIDE for thread in threading.enumerate())
