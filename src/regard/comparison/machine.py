"""What a row was measured on and with: part of its receipt."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version

import torch

from regard import __version__
from regard.comparison.plan import SavedRecord
from regard.engines.tuned_engine import processor_name
from regard.recipes.dry_run import describe_device


class Machine(SavedRecord):
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
        processor=f"{processor_name()}, {os.cpu_count()} logical cores",
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
