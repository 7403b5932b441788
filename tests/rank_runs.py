"""Trains in several processes at once, joined as ranks, and reads what runs have in common."""

import json
import os
import socket

import torch

from forks import FORKS
from regard.recipes.run_folder import RunFolder
from regard.recipes.train_run import train
from regard.training.checkpoints import load_weights
from regard.training.distributed.process_group import joined_ranks
from regard.training.distributed.ranks import ALONE
from tiny import Quiet

PATIENCE = 300  # seconds to wait for a process at most


class Told(Quiet):
    """A reporter that also records what was read."""

    def prepared(self, task, model):
        super().prepared(task, model)
        self.notes += task.summary().values()


def train_run(recipe, path, *, ranks=ALONE, dtype=torch.float64, stop_at=None):
    """Train a recipe of any task with weights of a type, as one of `ranks`; return the reporter."""
    told, steps = Told(), iter(range(1, 1 << 30))
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        train(
            recipe,
            RunFolder(path),
            device=torch.device("cpu"),
            reporter=told,
            stop_requested=lambda: ranks.leads and next(steps) == stop_at,
            ranks=ranks,
        )
    finally:
        torch.set_default_dtype(before)
    return told


def in_ranks(count, work, *args):
    """The exit statuses of `count` processes, joined as ranks, that do `work(ranks, *args)`."""
    started = start_ranks(count, work, *args)
    for process in started:
        process.join(PATIENCE)
    return [process.exitcode for process in started]


def start_ranks(count, work, *args):
    """`count` processes that run `work(ranks, *args)`, started."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [
        FORKS.Process(target=_work_as_rank, args=(number, count, port, work, args))
        for number in range(count)
    ]
    for process in processes:
        process.start()
    return processes


def _work_as_rank(number, count, port, work, args):
    torch.set_num_threads(1)
    os.environ |= {
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    with joined_ranks(torch.device("cpu")) as ranks:
        work(ranks, *args)


def train_all(ranks, cases, dtype=torch.float64):
    """Train recipes in folders, one after the other."""
    for recipe, path in cases:
        train_run(recipe, path, ranks=ranks, dtype=dtype)


def losses(path):
    """The training losses that a run has logged."""
    lines = map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["kind"] == "train"]


def weights(path):
    """The last weights of a run."""
    return load_weights(path / "weights" / "last.safetensors")
