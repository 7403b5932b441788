"""Training on this machine's cores, alone and beside a busy process, for each way in which threads
wait.

OpenMP's threads spin while they wait for each other, on cores that another process could use.
`GOMP_SPINCOUNT` bounds that: a thread that has spun so often gives up its core. Rounds alternate.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.machine_state import measure_machine_state
from bench.report import console, show_progress
from bench.statistics import summarise
from regard.cli.display.tables import plain_table
from regard.training.metric_log import read_metrics

OURS = "regard train"
WAYS = {
    OURS: {},
    "the library's default": {"GOMP_SPINCOUNT": "300000"},
    **{f"{spins:,} spins": {"GOMP_SPINCOUNT": str(spins)} for spins in (30_000, 10_000, 1_000)},
    "OMP_WAIT_POLICY=passive": {"OMP_WAIT_POLICY": "passive"},
}
BUSY = "while True: pass"


def measure_speed(environment: dict[str, str], steps: int, others: int) -> float:
    """Tokens a second of the second half of a training beside `others` busy processes."""
    inherited = {name: value for name, value in os.environ.items() if "OMP_" not in name}
    settings = {"steps": steps, "log_every": 10, "validation.every": steps, "save_every": steps}
    changes = [f"--set=training.{name}={value}" for name, value in settings.items()]
    with tempfile.TemporaryDirectory() as folder, busy_processes(others):
        run = Path(folder) / "run"
        subprocess.run(
            [sys.executable, "-m", "regard", "train", "travel", "--out", str(run), *changes],
            env=inherited | environment,
            capture_output=True,
            check=True,
        )
        logged = [one for one in read_metrics(run / "metrics.jsonl") if one["kind"] == "train"]
    return summarise(
        [one["tokens_per_second"] for one in logged if one["step"] > steps // 2]
    ).median


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
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--others", type=int, nargs="+", default=[0, 1], help="busy processes")
    asked = parser.parse_args()
    for line in measure_machine_state().lines():
        console.print(line)
    speeds: dict[tuple[str, int], list[float]] = {}
    for _ in range(asked.rounds):
        for others in asked.others:
            for way, environment in WAYS.items():
                speed = measure_speed(environment, asked.steps, others)
                speeds.setdefault((way, others), []).append(speed)
                show_progress(f"{way}, beside {others} busy: {speed:,.0f}")
    columns = [f"beside {others} busy" if others else "alone" for others in asked.others]
    rows = [(way, *(_cell(speeds[way, others]) for others in asked.others)) for way in WAYS]
    title = "target tokens/s: median (lowest, highest)"
    console.print(plain_table("threads wait by", *columns, title=title, right=columns, rows=rows))


def _cell(speeds: list[float]) -> str:
    middle, low, high = summarise(speeds)
    return f"{middle:,.0f} ({low:,.0f}, {high:,.0f})"
