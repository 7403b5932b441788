"""Starts the processes of a training on this machine, as `torchrun` does."""

import logging
import os
import signal
import sys
import uuid

import torch
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from regard.errors import SettingsError, TrainingError
from regard.training.distributed.launch import shared_kind

ELASTIC_LOGGERS = ("torch.distributed.elastic", "torch.distributed.elastic.agent.server.api")
"""Of torch's launcher; the second, which tells of signals, has a level of its own."""


def start_processes(count: int, device: str, max_restarts: int) -> int:
    """Run this command in `count` processes, as torchrun would on one machine: the exit status."""
    if shared_kind(device) == "cuda" and count > (there := torch.cuda.device_count()):
        raise SettingsError(
            f"--devices {count}: this machine has {there} GPU{'s' if there != 1 else ''}; give "
            "--devices so many, or --device cpu"
        )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (cores or 1) // count)))
    for name in ELASTIC_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=max_restarts,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "regard", *sys.argv[1:])
    except SignalException as stopped:
        return 128 + stopped.sigval
    except ChildFailedError as failed:
        return _exit_status(failed)
    return 0


def _exit_status(failed: ChildFailedError) -> int:
    """The exit status of the process that failed first; an error if it was killed."""
    rank, failure = failed.get_first_failure()
    if failure.exitcode < 0:
        name = signal.Signals(-failure.exitcode).name
        raise TrainingError(
            f"the process of rank {rank} was ended by {name}, and the others with it; checkpoints "
            "are whole, go on with --resume. --max-restarts does so by itself"
        )
    return int(failure.exitcode)
