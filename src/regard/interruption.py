"""Handling Ctrl-C and SIGTERM where Python does not: in imports and in long native calls."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

SIGNALS = (signal.SIGINT, signal.SIGTERM)
WORKER_THREAD_NAME = "regard-uninterruptible"  # of threads that no signal can interrupt

T = TypeVar("T")


class InterruptedBySignal(KeyboardInterrupt):
    """A signal that ends a command at once, without finishing a step."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """A context in which a signal ends the process with a one-line message: imports might catch an
    exception.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler not in (signal.SIG_IGN, None):  # ignored: a job in the background of a shell
            signal.signal(number, _exit)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def _exit(number: int, frame: FrameType | None) -> None:
    os.write(2, b"error: interrupted\n")
    os._exit(128 + number)


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """A context in which SIGTERM raises `InterruptedBySignal`, as Ctrl-C raises
    `KeyboardInterrupt`.
    """
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or before == signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGTERM, raise_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def raise_interrupt(number: int, frame: FrameType | None) -> None:
    """A signal handler that raises `InterruptedBySignal`."""
    raise InterruptedBySignal(number)


def interruptible(work: Callable[[], T]) -> T:
    """The result of `work`, run in a thread; a signal ends the wait for it at once, not the work.

    Python runs no signal handler while its main thread is inside a native call.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=WORKER_THREAD_NAME, daemon=True).start()
    return future.result()


def has_running_work() -> bool:
    """Whether work of `interruptible` is still running, which only the end of the process
    can stop.
    """
    return any(thread.name == WORKER_THREAD_NAME for thread in threading.enumerate())
