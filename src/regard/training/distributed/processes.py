"""Starts the processes of a training on this machine, as `torchrun` does."""

import logging
import os
import signal
import sys
import uuid
from collections.abc import Callable

import torch
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from regard.errors import LostRankError, RegardError, SettingsError, TrainingError
from regard.interruption import SIGNALS
from regard.settings import counted
from regard.training.distributed.launch import LOST, OWN_RESTARTS_VARIABLE, shared_kind

ELASTIC_LOGGERS = ("torch.distributed.elastic", "torch.distributed.elastic.agent.server.api")
"""The loggers of torch's launcher; the second, which reports signals, has its own level."""
STOPPED = tuple(128 + number for number in SIGNALS)  # exit statuses after a request to stop


def start_processes(count: int, device: str, max_restarts: int, tell: Callable[[str], None]) -> int:
    """Run this command in `count` processes, as torchrun would on one machine: the exit status.

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
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (cores or 1) // count)))
    for name in ELASTIC_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for restarts in range(max_restarts + 1):
        os.environ[OWN_RESTARTS_VARIABLE] = str(restarts)
        try:
            elastic_launch(_launch_config(count), sys.executable)("-m", "regard", *sys.argv[1:])
        except SignalException as stopped:
            return 128 + stopped.sigval
        except ChildFailedError as failed:
            rank, failure = _cause(failed)
            if restarts == max_restarts or failure.exitcode in STOPPED:
                return _exit_status(rank, failure)
            tell(f"the process of rank {rank} {_how_it_ended(failure)}; all are restarted")
            continue
        break
    return 0


def _launch_config(count: int) -> LaunchConfig:
    """One launch of `count` processes on this machine."""
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )


def _cause(failed: ChildFailedError) -> tuple[int, ProcessFailure]:
    """The rank whose process failed first, and how it ended. If a process has left an error that a
    user can cause, raises that error.
    """
    data = {rank: failure.error_file_data for rank, failure in failed.failures.items()}
    for told in data.values():
        if told.get(LOST) is False:
            raise RegardError(told["message"])
    causes = {rank: one for rank, one in failed.failures.items() if LOST not in data[rank]}
    return ChildFailedError(failed.name, causes or failed.failures).get_first_failure()


def _how_it_ended(failure: ProcessFailure) -> str:
    if failure.exitcode < 0:
        return f"was ended by {signal.Signals(-failure.exitcode).name}"
    return f"ended with status {failure.exitcode}"


def _exit_status(rank: int, failure: ProcessFailure) -> int:
    """The exit status of the process that failed first. Raises an error if it was killed or
    lost.
    """
    if LOST in failure.error_file_data:
        raise LostRankError(failure.message)
    if failure.exitcode < 0:
        raise TrainingError(
            f"the process of rank {rank} {_how_it_ended(failure)}, and the others with it; "
            "checkpoints are intact, continue with --resume. --max-restarts does this automatically"
        )
    return int(failure.exitcode)
