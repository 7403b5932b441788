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

SAME_ENV: Mapping[str, str] = MappingProxyType({})


class WorkerDiedError(Exception):
    """A process ended before its time, with this `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with status {status}")
        self.status = status


class WorkerProcess:
    """A process that does what `answer()` of a module does, which talks to this by a `Caller`."""

    def __init__(self, module: str, extra_env: Mapping[str, str] = SAME_ENV) -> None:
        """`surroundings` are variables of its environment, where it differs from this one's."""
        command = [sys.executable, "-c", f"from {module} import answer; answer()"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | dict(extra_env),
        )
        assert self._process.stdin is not None  # as asked for
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._terminate = weakref.finalize(self, _terminate, self._process)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: object) -> None:
        with contextlib.suppress(OSError):  # it is gone, as will be found when it is heard
            _send(message, self._stdin)

    def receive(self) -> Any:
        """What it says next."""
        try:
            return pickle.load(self._stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise WorkerDiedError(self._process.wait()) from None

    def close(self) -> None:
        """End it."""
        self._terminate()


def _terminate(process: "subprocess.Popen[bytes]") -> None:
    process.kill()  # it holds nothing that could be lost; a thread that hears it waits no more
    process.wait()
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(BrokenPipeError):  # of what it was not told any more
            if stream is not None:
                stream.close()


class ParentPipe:
    """Who started this process, as it knows it."""

    def __init__(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it will end it
        self._stdout = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else is printed is no answer

    def send(self, message: object) -> None:
        """Answer; the process ends if nobody is there any more."""
        try:
            _send(message, self._stdout)
        except BrokenPipeError:
            os._exit(0)  # no last flush, which would complain

    def receive(self) -> Any:
        """What it is told next; the process ends if nobody is there any more."""
        try:
            return pickle.load(sys.stdin.buffer)
        except EOFError:
            os._exit(0)


def _send(message: object, stream: IO[bytes]) -> None:
    pickle.dump(message, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()
