"""What was measured of a run's engines on this machine: kept in the run, so that nobody guesses."""

import os
import platform
import re
from pathlib import Path
from typing import Literal

from pydantic import PositiveInt

from regard.atomic_io import write_atomic
from regard.engines.ctranslate2.export_artifact import Precision
from regard.errors import DamagedError
from regard.json_files import read_json
from regard.manifest import check_file
from regard.settings import Settings

MEASURED_FILE = "measured.json"
CPU_BUDGET, CT2_BUDGET = 4096, 2048
"""Positions searched at a time on a CPU, by the native engine and by a worker of CTranslate2, where
nothing was measured: each hypothesis counts."""
CPU_INFO = Path("/proc/cpuinfo")


class EngineConfig(Settings):
    """How a run is translated with."""

    engine: Literal["native", "ctranslate2"]
    """Which engine."""
    precision: Precision
    """What its weights are kept in."""
    workers: PositiveInt
    """How many batches are searched side by side, each by one thread, where an engine can."""
    budget: PositiveInt
    """Positions that are searched at a time, counted once for each hypothesis."""


class EngineMeasurement(Settings):
    """The way that was found to be the fastest for a stream of sentences, and where."""

    machine: str
    """As `this_machine` has it: what was measured on one says nothing of another."""
    date: str
    """When, in UTC."""
    fastest: EngineConfig


def this_machine() -> str:
    """What tells this machine's speed from another's: the processor, and the cores to be used."""
    return f"{processor_name()}, {count_cores()} cores"


def processor_name() -> str:
    """The processor's name, as Linux or Python knows it."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", CPU_INFO.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def count_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_tuned_engine(run: Path) -> EngineConfig | None:
    """What was found to be the fastest for the run in a folder on this machine, if it is known.

    What is damaged, or was measured elsewhere, is as good as nothing.
    """
    try:
        check_file(run / MEASURED_FILE)
        found = read_json(run / MEASURED_FILE, EngineMeasurement)
    except (OSError, ValueError, DamagedError):
        return None
    return found.fastest if found.machine == this_machine() else None


def save_tuned_engine(run: Path, measured: EngineMeasurement) -> None:
    """Keep what was measured of a run in its folder."""
    write_atomic(run / MEASURED_FILE, f"{measured.model_dump_json(indent=1)}\n".encode())
