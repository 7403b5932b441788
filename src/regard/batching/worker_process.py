"""A worker process: it receives jobs and returns results, as pickles through its stdin and stdout.

It is a plain subprocess. Unlike multiprocessing it never imports the caller's main script, and it
ends by itself when the process that started it is killed.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import IO, Any, Generic, TypeVar

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

SAME_ENV: Mapping[str, str] = MappingProxyType({})
COMMAND = f"from {__name__} import worker_main; worker_main()"


class WorkerDiedError(Exception):
    """A worker process has ended before its time, with this `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with status {status}")
        self.status = status


class Worker(Generic[JobT, ResultT]):
    """Another process, which does jobs with the function that `factory()` returns there."""

    def __init__(
        self,
        factory: Callable[[], Callable[[JobT], ResultT]],
        extra_env: Mapping[str, str] = SAME_ENV,
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | dict(extra_env),
        )
        self._terminate = weakref.finalize(self, _terminate, self._process)
        self._is_ready = False
        self._send(factory)

    def wait_until_ready(self) -> None:
        """Wait until `factory()` has returned there, which may take many imports."""
        if not self._is_ready:
            self._receive()
            self._is_ready = True

    def request(self, job: JobT) -> ResultT:
        """The result of a job; raises the job's own error, or a WorkerDiedError."""
        self.wait_until_ready()
        self._send(job)
        result: ResultT | Exception = self._receive()
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        """End the process."""
        self._terminate()

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended, which the next `_receive` reports
            _send(message, self._process.stdin)

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        try:
            return pickle.load(self._process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):  # ValueError: it was closed
            raise WorkerDiedError(self._process.wait()) from None


def _terminate(process: "subprocess.Popen[bytes]") -> None:
    process.kill()  # a thread that waits for a result then gets a WorkerDiedError
    process.wait()
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(BrokenPipeError):  # of a message that was not read
            if stream is not None:
                stream.close()


def worker_main() -> None:
    """Run in the worker process: do jobs until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # prints of a job are no results
    try:
        work = pickle.load(sys.stdin.buffer)()
        _send(None, results)
        while True:
            job = pickle.load(sys.stdin.buffer)
            try:
                result = work(job)
            except Exception as error:
                result = error
            _send(result, results)
    except (EOFError, BrokenPipeError):  # the parent has ended
        os._exit(0)  # without flushing `results`, which would fail


def _send(message: object, stream: IO[bytes]) -> None:
    pickle.dump(message, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()
