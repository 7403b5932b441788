"""Training on this machine's cores, alone and beside a busy process, for each way in which threads
wait.

OpenMP's threads spin while they wait for each other, on cores that another process could use.
`GOMP_SPINCOUNT` bounds that: a thread that has spun so often gives up its core. Rounds alternate.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from bench.machine_state import measure_machine_state
from bench.report import console
from bench.statistics import summarise
from regard.cli.display.tables import plain_table
from regard.training.metric_log import read_metrics

WAYS = {
    "the library's default": {},
    **{f"{spins:,} spins": {"GOMP_SPINCOUNT": str(spins)} for spins in (30_000, 10_000, 3_000)},
    "OMP_WAIT_POLICY=passive": {"OMP_WAIT_POLICY": "passive"},
}
BUSY = "while True: pass"


def begin_run(folder: Path) -> None:
    """Begin a training whose corpus is read and whose first steps are taken."""
    settings = {"steps": 100_000, "log_every": 10, "validation.every": 100_000, "save_every": 10}
    changes = [f"--set=training.{name}={value}" for name, value in settings.items()]
    train = [sys.executable, "-m", "regard", "train", "travel", "--out", str(folder), *changes]
    _train_until(train, dict(os.environ), folder, 10)


def measure_speed(begun: Path, environment: dict[str, str], steps: int, others: int) -> float:
    """Tokens a second of so many steps of a begun training beside `others` busy processes."""
    inherited = {name: value for name, value in os.environ.items() if "OMP_" not in name}
    with tempfile.TemporaryDirectory() as folder, busy_processes(others):
        run = Path(shutil.copytree(begun, Path(folder) / "run"))
        train = [sys.executable, "-m", "regard", "train", "--resume", "--out", str(run)]
        logged = _train_until(train, inherited | environment, run, 10 + steps)
    later = [one["tokens_per_second"] for one in logged if one["step"] > 30]
    return summarise(later).median


def _train_until(
    command: list[str], environment: dict[str, str], run: Path, step: int
) -> list[dict[str, Any]]:
    """What a training logs until a step, behind which it is killed."""
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    logged: list[dict[str, Any]] = []
    while process.poll() is None and (not logged or logged[-1]["step"] < step):
        time.sleep(0.2)
        if (run / "metrics.jsonl").exists():
            logged = [one for one in read_metrics(run / "metrics.jsonl") if one["kind"] == "train"]
    process.kill()
    process.wait()
    return logged


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Processes that each want a whole core."""
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--others", type=int, nargs="+", default=[0, 1], help="busy processes")
    asked = parser.parse_args()
    for line in measure_machine_state().lines():
        console.print(line)
    speeds: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        begun = Path(folder) / "begun"
        begin_run(begun)
        for _, others, way in product(range(asked.rounds), asked.others, WAYS):
            speed = measure_speed(begun, WAYS[way], asked.steps, others)
            speeds.setdefault((way, others), []).append(speed)
            console.print(f"{way}, beside {others} busy: {speed:,.0f}", style="dim")
    columns = [f"beside {others} busy" if others else "alone" for others in asked.others]
    rows = [(way, *(_cell(speeds[way, others]) for others in asked.others)) for way in WAYS]
    title = "target tokens/s: median (lowest, highest)"
    console.print(plain_table("threads wait by", *columns, title=title, right=columns, rows=rows))


def _cell(speeds: list[float]) -> str:
    middle, low, high = summarise(speeds)
    return f"{middle:,.0f} ({low:,.0f}, {high:,.0f})"
