"""Work that goes on in a process of its own, where it does not hold up this one's threads.

It is a plain subprocess, told by its standard input what to make and answering on its standard
output. Unlike multiprocessing it never runs the caller's own script again, and a caller that is
killed leaves nothing behind: it ends when nobody reads from it any more.
"""

import contextlib
import itertools
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class _End(NamedTuple):
    """Behind the last item: why there is none, if it is an error."""

    reason: Exception | None


def apart(
    makes: Sequence[Callable[[], Iterator[T]]], gone: Callable[[int], Exception]
) -> Generator[T, None, None]:
    """The items of each `make()` in turn, each made by a process of its own, till one has no more.

    `makes` and the items must be picklable. All processes are started when the first item is asked
    for. Where one ends before its time, `gone` makes an error of its status.
    """
    with contextlib.ExitStack() as started:
        workers = [started.enter_context(_working(make)) for make in makes]
        for worker in itertools.cycle(workers):
            item: T | _End = _receive(worker, gone)
            if isinstance(item, _End):
                if item.reason is not None:
                    raise item.reason
                return
            yield item


@contextlib.contextmanager
def _working(make: Callable[[], Iterator[T]]) -> "Iterator[subprocess.Popen[bytes]]":
    """A process that sends the items of `make()`; it is ended with the context."""
    command = [sys.executable, "-c", f"from {__name__} import answer; answer()"]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdin is not None  # as asked for
    assert worker.stdout is not None
    try:
        with contextlib.suppress(BrokenPipeError), worker.stdin as told:
            pickle.dump(make, told)
        yield worker
    finally:
        worker.stdout.close()
        worker.terminate()
        worker.wait()


def _receive(worker: "subprocess.Popen[bytes]", gone: Callable[[int], Exception]) -> "T | _End":
    assert worker.stdout is not None  # as asked for
    try:
        received: T | _End = pickle.load(worker.stdout)
    except (EOFError, pickle.UnpicklingError):
        raise gone(worker.wait()) from None
    return received


def answer() -> None:
    """Be the other process: send what is asked for, until it ends or nobody reads it any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it will end it
    answers, end = os.fdopen(os.dup(sys.stdout.fileno()), "wb"), _End(None)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else is printed is no answer
    try:
        for item in pickle.load(sys.stdin.buffer)():
            pickle.dump(item, answers)
            answers.flush()
    except BrokenPipeError:
        os._exit(0)  # no last flush, which would complain
    except Exception as error:  # it is for whoever waits for the next item
        end = _End(error)
    pickle.dump(end, answers)
    answers.flush()
