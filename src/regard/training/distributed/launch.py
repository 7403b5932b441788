"""How `--devices` or `torchrun` started this process, read from the environment."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from regard.atomic_io import write_atomic
from regard.errors import LostRankError, RegardError, SettingsError
from regard.json_files import dump_json
from regard.settings import quoted

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
"""The variables that `--devices` and `torchrun` set for each process that they start."""
ADDRESS_VARIABLES = ("MASTER_ADDR", "MASTER_PORT")  # where processes of torchrun meet
STORE_VARIABLE = "REGARD_RANKS_STORE"  # the file in which processes of `--devices` meet
PARENT_VARIABLE = "REGARD_RANKS_PARENT"  # the process number of `--devices`
RESTARTS_VARIABLE = "TORCHELASTIC_RESTART_COUNT"
ERROR_FILE_VARIABLE = "TORCHELASTIC_ERROR_FILE"
OWN_RESTARTS_VARIABLE = "REGARD_RESTART_COUNT"
"""The variable in which `--devices` sets how often it has restarted the processes."""
LOST = "lost"  # the entry of an error that says whether another process was lost
PARENT_POLL_SECONDS = 0.5


class Launch(NamedTuple):
    """The parameters that a process gets from what has started it."""

    ranks: int = 0  # processes of the training; 0: it was started alone
    number: int = 0  # of this process among them
    local_number: int = 0  # of this process among those of its machine
    address: str = ""  # where they meet: HOST:PORT, or a file if `--devices` has started them
    restarts: int = 0  # how often they were restarted
    parent: int = 0  # the process of `--devices`; 0: something else has started it

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> "Launch":
        """The launch of this process. Raises an error if the environment has only a part of it."""
        place = (STORE_VARIABLE,) if STORE_VARIABLE in environment else ADDRESS_VARIABLES
        wanted = (*VARIABLES, *place)
        given = [name for name in wanted if environment.get(name)]
        if not given:
            return cls()
        if missing := [name for name in wanted if name not in given]:
            raise SettingsError(
                f"the environment has {', '.join(given)} but not {', '.join(missing)}: part of "
                "what torchrun sets for each process; start with torchrun or --devices, or unset "
                f"{'it' if len(given) == 1 else 'them'}"
            )
        counts = (PARENT_VARIABLE, RESTARTS_VARIABLE, OWN_RESTARTS_VARIABLE)
        texts = {name: environment.get(name, "0") for name in (*VARIABLES, *counts)}
        for name, text in texts.items():
            if not text.isdigit():
                raise SettingsError(f"{name}={text} in the environment: not a number from 0 on")
        number, ranks, local_number, parent, *restarts = map(int, texts.values())
        if number >= ranks:
            raise SettingsError(
                f"RANK={number} in the environment must be less than WORLD_SIZE={ranks}"
            )
        address = ":".join(environment[name] for name in place)
        return cls(ranks, number, local_number, address, sum(restarts), parent)

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, or the only process."""
        return self.number == 0

    def resume_command(self, folder: Path) -> str:
        """The command that continues a run, started as this process was."""
        again = f"regard train --resume --out {quoted(folder)}"
        if self.parent:
            return f"{again} --devices {self.ranks}"
        if not self.ranks:
            return again
        return f"torchrun … -m {again} (what torchrun prints next reports the signal, no defect)"

    def check_options(self, devices: int | None, max_restarts: int | None) -> None:
        """Raise an error if the command's options contradict the launch."""
        if self.ranks and devices not in (None, self.ranks):
            raise SettingsError(
                f"--devices {devices}: torchrun has started {self.ranks} processes; leave it out"
            )
        if max_restarts is not None and devices is None:
            raise SettingsError("--max-restarts is for --devices; torchrun has its own option")

    @contextmanager
    def errors_to_launcher(self, environment: Mapping[str, str] = os.environ) -> Iterator[None]:
        """A context in which an error that a user can cause is written where the launcher reads it.
        With `--devices`, the launcher shows it once for all processes, which end without a message.
        """
        try:
            yield
        except RegardError as error:
            if (file := environment.get(ERROR_FILE_VARIABLE)) is not None:
                lost = isinstance(error, LostRankError)
                told = {"message": str(error), "timestamp": int(time.time()), LOST: lost}
                write_atomic(Path(file), dump_json(told).encode())
            if not self.parent:
                raise
            sys.exit(1)

    def own_device(self, name: str) -> str:
        """The name of this process's device; `name` (auto, cuda, cpu) was given for all of them."""
        if not self.ranks:
            return name
        if shared_kind(name) == "cpu":
            return "cpu"
        if self.local_number >= (there := torch.cuda.device_count()):
            less = "start no more processes than that" if there else "leave out --device"
            raise SettingsError(
                f"process {self.local_number} of this machine, counted from 0, has no GPU: there "
                f"{'is' if there == 1 else 'are'} {there or 'none'}; {less}, or give --device cpu"
            )
        return f"cuda:{self.local_number}"


def shared_kind(name: str) -> str:
    """The type, cuda or cpu, of the devices of several processes, given by `name`."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cuda", "cpu"):
        raise SettingsError(
            f"--device {name}: each of several processes has its own device; give cuda or cpu"
        )
    return name


def end_with_parent(launch: Launch) -> None:
    """Have this process get a SIGTERM when its parent, which started all processes, ends."""
    parent = launch.parent or os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
