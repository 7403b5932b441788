"""Commands in processes that have everything imported from the start, and can be killed often."""

import multiprocessing
import os
import sys

from regard.cli.main import main

_FORKS = multiprocessing.get_context("forkserver")  # a process that has run nothing yet is forked
_FORKS.set_forkserver_preload(["regard.cli.train"])


class Fork:
    """`regard ARGUMENTS` in a process of its own; it has no output but `log`."""

    def __init__(self, log, *arguments):
        self._log = log
        self._process = _FORKS.Process(target=_obey, args=(str(log), *map(str, arguments)))
        self._process.start()

    def poll(self):
        """The exit code, as that of a Popen: None while it lives."""
        return self._process.exitcode

    def kill(self):
        self._process.kill()

    def wait(self, timeout=None):
        """The exit code when it has ended."""
        self._process.join(timeout)
        return self._process.exitcode

    def said(self):
        return self._log.read_text(encoding="utf-8")


def _obey(log, *arguments):
    with open(log, "wb") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    sys.argv = ["regard", *arguments]
    main()
