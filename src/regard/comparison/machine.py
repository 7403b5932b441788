"""What a row was measured on and with: part of its receipt."""

import os
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

from regard import __version__
from regard.comparison.plan import Record
from regard.recipes.trial import describe_device

PROCESSORS = Path("/proc/cpuinfo")


class Machine(Record):
    """Where and with what numbers came about."""

    processor: str
    device: str
    """A GPU by its name, or how many threads of the processor."""
    system: str
    versions: str

    def __str__(self) -> str:
        return f"{self.device} ({self.processor}), {self.system}, {self.versions}"


def this_machine(device: torch.device) -> Machine:
    """The machine that this runs on."""
    return Machine(
        processor=f"{_processor()}, {os.cpu_count()} logical cores",
        device=describe_device(device),
        system=f"{platform.system()} {platform.machine()}",
        versions=(
            f"regard {__version__}, Python {platform.python_version()}, torch {torch.__version__}, "
            f"sacrebleu {version('sacrebleu')}"
        ),
    )


def today() -> str:
    """The date, in UTC."""
    return datetime.now(UTC).date().isoformat()


def _processor() -> str:
    """The processor's name, as Linux or Python knows it."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", PROCESSORS.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()
