"""Commands in processes that have everything imported from the start, and can be killed often."""

import multiprocessing
import os
import sys

import torch

from regard.cli.main import main

FORKS = multiprocessing.get_context("forkserver")  # a process that has run nothing yet is forked
FORKS.set_forkserver_preload(
    [
        "regard.cli.commands.train",
        "regard.cli.commands.serve",
        "regard.cli.commands.compare",
        "torch._dynamo",  # which the first step of an optimizer imports
    ]
)


class Fork:
    """`regard ARGUMENTS` in a process of its own, here; it has no output but `log`.

    As a Popen it can be polled, waited for, killed and sent signals. What is tested for the way it
    starts is no fork; of other programs, to import all anew would be most of their work.
    """

    def __init__(self, log, *arguments, env=()):
        self._log = log
        around = {**os.environ, **dict(env)}
        given = (str(log), os.getcwd(), around, *map(str, arguments))
        self._process = FORKS.Process(target=_obey, args=given)
        self._process.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """However it went, in the end nothing is left running."""
        self.kill()
        self.wait()

    def poll(self):
        """The exit code; None while it lives."""
        return self._process.exitcode

    def kill(self):
        self._process.kill()

    def send_signal(self, number):
        os.kill(self._process.pid, number)

    def wait(self, timeout=None):
        """The exit code when it has ended; None if it has not in so many seconds."""
        self._process.join(timeout)
        return self._process.exitcode

    def said(self):
        return self._log.read_text(encoding="utf-8")


def _obey(log, here, around, *arguments):
    with open(log, "wb") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    os.chdir(here)
    os.environ.clear()
    os.environ.update(around)
    torch.set_num_threads(1)  # for which torch asks the environment when it is imported
    sys.argv = ["regard", *arguments]
    main()
