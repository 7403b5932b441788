"""A measured step on one device -> its time on N devices that exchange at a given bandwidth.

    gradients    2 (N - 1) / N · G / B + 2 ⌈log₂ N⌉ · L    (Patarasuk and Yuan 2009)
    sharded      3 (N - 1) / N · G / B + 3 ⌈log₂ N⌉ · L    (two gathers and one reduction)

G are the bytes of all gradients, B the bandwidth of a device in one direction, L the latency of a
message. Nothing is assumed to overlap: a step takes as long as its batch, and then the exchange.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.tasks.translation.recipe import TranslationRecipe
from regard.tasks.translation.trial.dry_run import DryRun, StepStats
from regard.training.settings import TrainingSettings

BYTES_PER_NUMBER = 4
MESSAGE_SECONDS = 30e-6
DEFAULT_BANDWIDTH = 12.5  # GB/s: Ethernet of 100 Gbit/s


class DevicesRow(NamedTuple):
    """A step on several devices, each with a batch as large as that of one."""

    devices: int
    exchange_seconds: float
    step_seconds: float
    tokens_per_second: float
    efficiency: float  # tokens per second, relative to as many devices without exchange
    sharded_seconds: float  # a step with training.sharded
    memory: int  # bytes of each device
    sharded_memory: int


@dataclass(frozen=True)
class DevicePlan:
    """The estimated cost of training on 1, 2, 4 … devices."""

    device: str
    bandwidth: float  # GB/s
    gradient_bytes: int
    rows: tuple[DevicesRow, ...]
    most_devices: int
    """The most devices over which one step can be divided before half of its time is exchange."""

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "rows": [row._asdict() for row in self.rows]}


def plan_devices(trial: DryRun, devices: int, bandwidth: float = DEFAULT_BANDWIDTH) -> DevicePlan:
    """The plan for up to `devices` devices like that of a trial, each with `bandwidth` GB/s."""
    steps, recipe = trial.steps, trial.recipe
    counts = [1 << n for n in range(devices.bit_length()) if 1 << n < devices]
    gradients = BYTES_PER_NUMBER * steps.parameters
    rows = tuple(_row(steps, recipe, count, bandwidth) for count in (*counts, devices))
    most = 1
    while steps.step_seconds / (2 * most) > exchange_seconds(gradients, 2 * most, bandwidth):
        most *= 2
        if most > 1 << 20:
            break
    return DevicePlan(trial.device, bandwidth, gradients, rows, most)


def state_bytes(parameters: int, settings: TrainingSettings) -> int:
    """Bytes of weights, gradients, the optimizer's moments and an average of the weights, which a
    training step needs for any batch size. `muon` has one moment fewer for matrices.
    """
    optimizer = settings.optimizer
    moments = int(optimizer.momentum > 0) if optimizer.kind == "sgd" else 2
    averaged = bool(settings.moving_average or settings.nonmonotone_average)
    return BYTES_PER_NUMBER * parameters * (2 + moments + averaged)


def exchange_seconds(gradients: int, devices: int, bandwidth: float, *, passes: int = 2) -> float:
    """Seconds to sum these bytes of gradients over devices; 3 `passes` if they are sharded."""
    moved = passes * (devices - 1) / devices * gradients / (bandwidth * 1e9)
    return moved + passes * math.ceil(math.log2(devices)) * MESSAGE_SECONDS


def _row(steps: StepStats, recipe: TranslationRecipe, devices: int, bandwidth: float) -> DevicesRow:
    settings, gradients = recipe.training, BYTES_PER_NUMBER * steps.parameters
    exchange = exchange_seconds(gradients, devices, bandwidth)
    seconds = steps.step_seconds + exchange
    state = state_bytes(steps.parameters, settings)
    gathered = 2 * BYTES_PER_NUMBER * steps.gathered  # weights and their gradients
    sharded = max(0, steps.memory - state) + state // devices + gathered
    return DevicesRow(
        devices,
        exchange,
        seconds,
        devices * steps.tokens_per_second * steps.step_seconds / seconds,
        steps.step_seconds / seconds,
        steps.step_seconds + exchange_seconds(gradients, devices, bandwidth, passes=3),
        steps.memory,
        steps.memory if devices == 1 else sharded,
    )
