"""The machine that figures come from, and how busy it was."""

import os
import time
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from bench.peers import PEERS, is_installed
from regard.comparison.measurements import this_machine, today

IDLE = 0.1
"""Of all cores, the share that may be busy before figures are doubted."""
WATCHED = 1.0
"""Seconds for which the machine is watched before anything is measured."""


@dataclass(frozen=True)
class MachineState:
    """Where and when figures came about."""

    date: str
    machine: str
    peers: dict[str, str]
    """Name -> version, of those that are installed."""
    missing: tuple[str, ...]
    load: float
    """Processes that ran or waited in the minute before."""
    busy: float | None
    """Share of all cores that were at work just before; None where that is not known."""

    def warn(self) -> str:
        """Why the figures are to be doubted, or an empty text."""
        busy = self.busy if self.busy is not None else self.load / (os.cpu_count() or 1)
        if busy <= IDLE:
            return ""
        return (
            f"the machine is not idle: {busy:.0%} of its cores were at work before anything was "
            f"measured (load {self.load:.1f}). Ratios suffer less than figures; measure again when "
            "it is quiet"
        )

    def lines(self) -> list[str]:
        """What to print above figures."""
        versions = ", ".join(f"{name} {number}" for name, number in self.peers.items())
        lines = [f"{self.date}, {self.machine}", f"with {versions}; load {self.load:.1f}"]
        if self.missing:
            lines.append(f"not installed: {', '.join(self.missing)}; pip install -e '.[bench]'")
        if self.warn():
            lines.append(f"WARNING: {self.warn()}")
        return lines

    def write(self) -> dict[str, object]:
        return {**asdict(self), "warning": self.warn()}


def measure_machine_state(device: str = "cpu") -> MachineState:
    """The machine as it is now."""
    here = [key for key in PEERS if is_installed(key)]
    return MachineState(
        today(),
        str(this_machine(torch.device(device))),
        {PEERS[key].name: _version(key) for key in here if key != "regard"},
        tuple(listed.name for key, listed in PEERS.items() if key not in here),
        os.getloadavg()[0],
        _busy(),
    )


def _version(key: str) -> str:
    """The version of a peer that can be imported; a checkout need not say one."""
    try:
        return version(PEERS[key].package)
    except PackageNotFoundError:
        return ""


def _busy() -> float | None:
    """The share of all cores that are at work, watched for a second."""
    before = _ticks()
    time.sleep(WATCHED)
    after = _ticks()
    if before is None or after is None:
        return None
    return 1 - (after[0] - before[0]) / max(1, after[1] - before[1])


def _ticks() -> tuple[int, int] | None:
    """Idle and all ticks of all cores since the machine started, as Linux counts them."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return None
    ticks = [int(field) for field in first.split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)
