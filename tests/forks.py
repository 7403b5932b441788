"""Commands in forked processes that have everything imported already, so start quickly."""

import multiprocessing
import os
import signal
import sys

import torch

from regard.cli.main import main

FORKS = multiprocessing.get_context("forkserver")  # forks a process that has run nothing else
FORKS.set_forkserver_preload(
    [
        "regard.cli.commands.train",
        "regard.cli.commands.serve",
        "regard.cli.commands.compare",
        "torch._dynamo",  # which the first step of an optimizer imports
    ]
)

FILE_EVENTS = ("open", "os.mkdir", "os.remove", "os.rename", "os.truncate")


class Fork:
    """`regard ARGUMENTS` in a process of its own, whose output goes to the file `log`.

    Like a Popen it can be polled, waited for, killed and sent signals. Do not use it to test how a
    program starts; in other tests, importing everything again would take most of the time. With
    `dies_at=(folder, N)` it kills itself when it opens or changes files there for the N-th time.
    """

    def __init__(self, log, *arguments, env=(), dies_at=None):
        self._log = log
        environment = {**os.environ, **dict(env)}
        given = (str(log), os.getcwd(), environment, dies_at, *map(str, arguments))
        self._process = FORKS.Process(target=_run_command, args=given)
        self._process.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Kill the process if it still runs."""
        self.kill()
        self.wait()

    @property
    def pid(self):
        return self._process.pid

    def poll(self):
        """The exit code; None while it runs."""
        return self._process.exitcode

    def kill(self):
        self._process.kill()

    def send_signal(self, number):
        os.kill(self.pid, number)

    def wait(self, timeout=None):
        """The exit code, when it has ended; None if it still runs after `timeout` seconds."""
        self._process.join(timeout)
        return self._process.exitcode

    def said(self):
        return self._log.read_text(encoding="utf-8")


def die_at(folder, number):
    """Have this process kill itself when it opens or changes files in a folder for the `number`-th
    time.
    """
    left = [number]

    def count(event, given):
        if event in FILE_EVENTS and str(given[0]).startswith(str(folder)):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def _run_command(log, folder, environment, dies_at, *arguments):
    with open(log, "wb") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(1)  # torch reads OMP_NUM_THREADS only when it is imported
    sys.argv = ["regard", *arguments]
    if dies_at is not None:
        die_at(*dies_at)
    main()
