"""The fastest engine settings of a run on this machine, measured and saved in its folder."""

import os
import platform
import re
from pathlib import Path
from typing import Literal

from pydantic import PositiveInt

from regard.atomic_io import write_atomic
from regard.engines.ctranslate2.export_artifact import ExportPrecision
from regard.errors import DamagedError
from regard.json_files import read_json
from regard.manifest import check_file
from regard.recipes.paths import check_not_packaged
from regard.settings import Settings

MEASURED_FILE = "measured.json"
CPU_BUDGET, CT2_BUDGET = 4096, 2048  # default positions: native engine on a CPU, CTranslate2 worker
CPU_INFO = Path("/proc/cpuinfo")
EngineName = Literal["native", "ctranslate2"]


class EngineConfig(Settings):
    """An engine and its settings."""

    engine: EngineName
    precision: ExportPrecision
    """The precision of the weights."""
    workers: PositiveInt
    """Batches that are searched in parallel, each by one thread, if the engine supports it."""
    budget: PositiveInt
    """Positions that are searched at a time, counted once for each hypothesis."""


class EngineMeasurement(Settings):
    """The fastest settings for a stream of sentences, and where this was measured."""

    machine: str
    """As `this_machine` names it."""
    date: str
    """In UTC."""
    fastest: EngineConfig


def this_machine() -> str:
    """The processor, and the number of cores to be used."""
    return f"{processor_name()}, {count_cores()} cores"


def processor_name() -> str:
    """The processor's name, from Linux or Python."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", CPU_INFO.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def count_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_tuned_engine(run: Path) -> EngineConfig | None:
    """The fastest settings for a run on this machine; None if unknown, or the file is damaged."""
    try:
        check_file(run / MEASURED_FILE)
        found = read_json(run / MEASURED_FILE, EngineMeasurement)
    except (OSError, ValueError, DamagedError):
        return None
    return found.fastest if found.machine == this_machine() else None


def save_tuned_engine(run: Path, measured: EngineMeasurement) -> None:
    """Write a measurement of a run into its folder."""
    check_not_packaged(run, "no measurement is")
    write_atomic(run / MEASURED_FILE, f"{measured.model_dump_json(indent=1)}\n".encode())
