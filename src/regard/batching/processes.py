"""Another process, which is told things and answers: in pickles, by its standard input and output.

It is a plain subprocess. Unlike multiprocessing it never runs the caller's own script again, and a
caller that is killed leaves nothing behind: it ends when nobody tells it or hears it any more.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping
from types import MappingProxyType
from typing import IO, Any

AS_HERE: Mapping[str, str] = MappingProxyType({})


class GoneError(Exception):
    """A process ended before its time, with this `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with status {status}")
        self.status = status


class Process:
    """A process that does what `answer()` of a module does, which talks to this by a `Caller`."""

    def __init__(self, module: str, surroundings: Mapping[str, str] = AS_HERE) -> None:
        """`surroundings` are variables of its environment, where it differs from this one's."""
        command = [sys.executable, "-c", f"from {module} import answer; answer()"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | dict(surroundings),
        )
        assert self._process.stdin is not None  # as asked for
        assert self._process.stdout is not None
        self._told, self._answers = self._process.stdin, self._process.stdout
        self._end = weakref.finalize(self, _end, self._process)

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, something: object) -> None:
        with contextlib.suppress(OSError):  # it is gone, as will be found when it is heard
            _send(something, self._told)

    def hear(self) -> Any:
        """What it says next."""
        try:
            return pickle.load(self._answers)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise GoneError(self._process.wait()) from None

    def close(self) -> None:
        """End it."""
        self._end()


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()  # it holds nothing that could be lost; a thread that hears it waits no more
    process.wait()
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(BrokenPipeError):  # of what it was not told any more
            if stream is not None:
                stream.close()


class Caller:
    """Who started this process, as it knows it."""

    def __init__(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it will end it
        self._answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else is printed is no answer

    def tell(self, something: object) -> None:
        """Answer; the process ends if nobody is there any more."""
        try:
            _send(something, self._answers)
        except BrokenPipeError:
            os._exit(0)  # no last flush, which would complain

    def hear(self) -> Any:
        """What it is told next; the process ends if nobody is there any more."""
        try:
            return pickle.load(sys.stdin.buffer)
        except EOFError:
            os._exit(0)


def _send(something: object, where: IO[bytes]) -> None:
    pickle.dump(something, where, pickle.HIGHEST_PROTOCOL)
    where.flush()
