"""Starts the processes of a training on this machine, which no other machine can reach."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NamedTuple

import torch

from regard.errors import LostRankError, RegardError, SettingsError, TrainingError
from regard.interruption import SIGNALS
from regard.json_files import read_json
from regard.settings import counted
from regard.training.distributed.launch import (
    ERROR_FILE_VARIABLE,
    LOST,
    OWN_RESTARTS_VARIABLE,
    PARENT_VARIABLE,
    STORE_VARIABLE,
    shared_kind,
)

STOPPED = tuple(128 + number for number in SIGNALS)  # exit statuses after a request to stop
TOLD = (*STOPPED, -signal.SIGTERM)  # those of processes that were told to end
SHUTDOWN_SECONDS = 30.0  # until processes that were told to end at once are killed
POLL_SECONDS = 0.1
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
LOOPBACK_VARIABLES = {"GLOO_SOCKET_IFNAME": LOOPBACK, "NCCL_SOCKET_IFNAME": LOOPBACK}
"""The network interface at which gloo and NCCL listen; otherwise they choose one."""


class Ending(NamedTuple):
    """How a process ended, and the error that it has left, if a user can cause it."""

    status: int  # negative: the number of the signal that ended it
    error: str | None = None
    lost: bool = False  # whether it ended because another one did

    def __str__(self) -> str:
        if self.status < 0:
            return f"was ended by {signal.Signals(-self.status).name}"
        return f"ended with status {self.status}"


def start_processes(count: int, device: str, max_restarts: int, tell: Callable[[str], None]) -> int:
    """Run this command in `count` processes: the exit status.

    If one of them is killed or crashes, all are restarted, at most `max_restarts` times. A request
    to stop ends the launch, as does an error that a user can cause, which is raised here.
    """
    if shared_kind(device) == "cuda" and count > (there := torch.cuda.device_count()):
        instead = f"give --devices {there}" if there else "leave out --device"
        raise SettingsError(
            f"--devices {count} --device {device}: this machine has "
            f"{counted(there, 'GPU') if there else 'no GPU'}; {instead}, or give --device cpu"
        )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = {"OMP_NUM_THREADS": str(max(1, (cores or 1) // count))}
    command = [sys.executable, "-m", "regard", *sys.argv[1:]]
    for restarts in range(max_restarts + 1):
        variables = {**threads, **os.environ, OWN_RESTARTS_VARIABLE: str(restarts)}
        stopped, failed = _run(command, variables, count)
        if stopped:
            return 128 + stopped
        if not failed:
            break
        rank, ending = _cause(failed)
        if restarts == max_restarts or ending.status in STOPPED:
            return _exit_status(rank, ending)
        tell(f"the process of rank {rank} {ending}; all are restarted")
    return 0


def _run(
    command: Sequence[str], variables: Mapping[str, str], count: int
) -> tuple[int | None, dict[int, Ending]]:
    """Run a command in `count` processes, which meet in a file that only this user can open: the
    signal that was received meanwhile, and how the ranks that failed first have ended.
    """
    with TemporaryDirectory(prefix="regard-ranks-") as folder, _received_signals() as received:
        errors = [Path(folder, f"error-{rank}.json") for rank in range(count)]
        shared = {
            **variables,
            **LOOPBACK_VARIABLES,
            STORE_VARIABLE: str(Path(folder, "store")),
            PARENT_VARIABLE: str(os.getpid()),
            "WORLD_SIZE": str(count),
        }
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank, file in enumerate(errors):
                own = {"RANK": str(rank), "LOCAL_RANK": str(rank), ERROR_FILE_VARIABLE: str(file)}
                # in a session of its own: Ctrl-C reaches it only through this process
                one = subprocess.Popen(command, env=shared | own, start_new_session=True)
                processes.append(one)
            statuses = _wait(processes, received)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        failed = {rank: _ending(status, errors[rank]) for rank, status in statuses.items()}
        return (received[0] if received else None), failed


def _wait(processes: Sequence["subprocess.Popen[bytes]"], received: list[int]) -> dict[int, int]:
    """Pass signals on until all processes have ended. Once one has failed, the others are told to
    end. Returns the statuses of the ranks that failed, but not by that, in this order.
    """
    failed: dict[int, int] = {}
    passed_on, deadline = 0, math.inf
    while True:
        running = [one for one in processes if one.poll() is None]
        told = TOLD if failed else ()
        for rank, process in enumerate(processes):
            if process.returncode and process.returncode not in told:
                failed.setdefault(rank, process.returncode)
        if not running:
            return failed
        numbers = received[passed_on:]
        passed_on += len(numbers)
        if failed and not told and not received:
            numbers.append(signal.SIGTERM)
        for number in numbers:
            for process in running:
                process.send_signal(number)
        if (failed and not told) or (numbers and passed_on > 1):
            deadline = time.monotonic() + SHUTDOWN_SECONDS
        if time.monotonic() > deadline:
            return failed
        time.sleep(POLL_SECONDS)


@contextmanager
def _received_signals() -> Iterator[list[int]]:
    """A context in which signals are appended to a list instead of handled."""
    received: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, receive) for number in SIGNALS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ending(status: int, error_file: Path) -> Ending:
    try:
        told = read_json(error_file, dict[str, Any])
    except FileNotFoundError:
        return Ending(status)
    return Ending(status, str(told["message"]), told[LOST] is True)


def _cause(failed: Mapping[int, Ending]) -> tuple[int, Ending]:
    """The rank whose process failed first, and how it ended. If a process has left an error that a
    user can cause, raises that error.
    """
    for ending in failed.values():
        if ending.error is not None and not ending.lost:
            raise RegardError(ending.error)
    causes = {rank: one for rank, one in failed.items() if not one.lost} or failed
    return next(iter(causes.items()))


def _exit_status(rank: int, ending: Ending) -> int:
    """The exit status of the process that failed first. Raises an error if it was killed or
    lost.
    """
    if ending.lost:
        raise LostRankError(ending.error)
    if ending.status < 0:
        raise TrainingError(
            f"the process of rank {rank} {ending}, and the others with it; "
            "checkpoints are intact, continue with --resume. --max-restarts does this automatically"
        )
    return ending.status
