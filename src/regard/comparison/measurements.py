"""The measurements of a row of a comparison, as they are saved."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

import torch
from pydantic import TypeAdapter

from regard import __version__
from regard.comparison.plan import ComparisonFolder, PlanEntry, SavedRecord
from regard.engines.engine_tuning import processor_name
from regard.json_files import load_json
from regard.manifest import is_intact
from regard.recipes.run_folder import describe_device


class Machine(SavedRecord):
    """The machine and the software on which numbers were measured."""

    processor: str
    device: str  # the name of a GPU, or the number of the processor's threads
    system: str
    versions: str

    def __str__(self) -> str:
        return f"{self.device} ({self.processor}), {self.system}, {self.versions}"


def this_machine(device: torch.device) -> Machine:
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


class RowScore(SavedRecord):
    """A score of a row, with its 95% bootstrap interval."""

    name: str
    value: float
    low: float
    high: float
    signature: str


class ComparedRow(SavedRecord):
    """One system with one seed, measured. The rows of all tasks have these fields, and others."""

    if TYPE_CHECKING:
        label: str
        seed: int
        parameters: int
        steps: int
        seconds: float  # of the training steps, on a machine that may have been shared
        machine: Machine
        date: str

    @property
    def main_score(self) -> RowScore:
        """The score by which systems are ranked."""
        raise NotImplementedError

    def headline(self) -> str:
        """The result in a few words."""
        steps = f"{self.steps:,} steps in {self.seconds:,.0f} s"
        return f"{self.main_score.name} {self.main_score.value:.2f} after {steps}"


class TaskRow(ComparedRow):
    """A row that was measured on the examples of its run's task."""

    label: str
    seed: int
    corpus: str  # rows of one corpus are compared with each other
    family: str
    parameters: int
    steps: int
    seconds: float  # of the training steps, on a machine that may have been shared
    start_seconds: float  # of the training of the runs that it was initialised from
    split: str
    examples: int
    digest: str  # of the examples
    score: RowScore
    lower_is_better: bool
    drawn: tuple[float, ...]  # scores on resampled examples, the same resamples for all rows
    numbers: dict[str, float]  # all measurements
    machine: Machine
    date: str

    @property
    def main_score(self) -> RowScore:
        return self.score


class Failure(SavedRecord):
    """Why a row was not measured."""

    label: str
    seed: int
    reason: str


def load_row(folder: ComparisonFolder, entry: PlanEntry) -> ComparedRow | Failure | None:
    """The measurements or the failure of a row; None if there are none or they are damaged."""
    path = folder.row(entry)
    if not is_intact(path):
        return None
    known: TypeAdapter[ComparedRow | Failure] = TypeAdapter(entry.rows.record | Failure)
    return load_json(path, known, advice="remove it to measure the row again")
