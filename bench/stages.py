"""Measurements in stages, for machines that are available for minutes.

Each stage runs in a process of its own, so that one which fails loses nothing of the others, and
writes a line of JSON for each thing that it finds as soon as it is found. Where time runs out the
last stages are left out.
"""

import argparse
import json
import os
import statistics
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Records = Iterator[dict[str, Any]]

MIN_STAGE_SECONDS = 10.0
"""Seconds that must be left to begin a stage."""
ABLATION_ROUNDS = 7
MIN_GAIN = 0.03
"""A part that gains less than this is not worth its code."""


def add_options(parser: argparse.ArgumentParser, file: str, seconds: float) -> None:
    """Add the options of all measurements in stages; `file` and `seconds` are defaults."""
    where = Path(os.environ.get("OUT", ".")) / file
    told = "add what is found there (%(default)s)"
    parser.add_argument("--out", type=Path, default=where, metavar="FILE", help=told)
    parser.add_argument(
        "--seconds", type=float, default=seconds, metavar="N", help="in all (%(default)s)"
    )
    parser.add_argument("--stage", help=argparse.SUPPRESS)


def run_stage(name: str, find: Callable[[], Records], file: Path) -> int:
    """Run a stage here and add its records to `file`; 1 if it fails, or a record is not ok."""
    wrong = 0
    with file.open("a", encoding="utf-8") as out:

        def record(fact: dict[str, Any]) -> None:
            line = json.dumps({"stage": name, **fact})
            print(line, file=out, flush=True)
            print(line, flush=True)

        try:
            for fact in find():
                record(fact)
                wrong |= not fact.get("ok", True)
        except Exception as error:
            record({"failed": repr(error)[:500], "where": traceback.format_exc()[-1500:]})
            wrong = 1
    return wrong


def run_stages(
    names: Sequence[str], command: Callable[[str], Sequence[str]], seconds: float
) -> dict[str, str]:
    """How each stage ended; they run in turn, each by its command, for `seconds` in all."""
    until, ended = time.monotonic() + seconds, {}
    for name in names:
        left = until - time.monotonic()
        if left < MIN_STAGE_SECONDS:
            ended[name] = "left out"
            continue
        began = time.monotonic()
        try:
            code = subprocess.run(command(name), timeout=left).returncode
            ended[name] = "ok" if code == 0 else f"failed ({code})"
        except subprocess.TimeoutExpired:
            ended[name] = "out of time"
        ended[name] += f", {time.monotonic() - began:.0f} s"
    return ended


def read_records(file: Path) -> list[dict[str, Any]]:
    """The records in a file; none if there is no file."""
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines]


def ablation(parts: Sequence[str], speed: Callable[[str], float]) -> Records:
    """The `speed` without each part, the first of which is `nothing`, in alternating rounds.

    `times` is the speed relative to that without `nothing`, the median of the rounds' ratios.
    """
    speeds: dict[str, list[float]] = {part: [] for part in parts}
    for number in range(ABLATION_ROUNDS):
        first = number % len(parts)
        for part in (*parts[first:], *parts[:first]):
            speeds[part].append(speed(part))
    for part in parts:
        ratios = [own / full for own, full in zip(speeds[part], speeds[parts[0]], strict=True)]
        yield {
            "without": part,
            "median": statistics.median(speeds[part]),
            "least": min(speeds[part]),
            "most": max(speeds[part]),
            "times": statistics.median(ratios),
            "rounds": ABLATION_ROUNDS,
        }


def print_ablation(records: list[dict[str, Any]], title: str) -> None:
    """Print the speed without each part, and what the part gains."""
    records = [record for record in records if "without" in record]
    if not records:
        return
    print(f"\n{title}, {records[0]['rounds']} alternating rounds")
    print(f"{'without':<32} {'median':>10} {'least':>10} {'most':>10}  gain of the part")
    for record in records:
        speeds = " ".join(f"{record[name]:>10,.0f}" for name in ("median", "least", "most"))
        gain = 1 / record["times"] - 1
        note = "" if gain >= MIN_GAIN or record["without"] == "nothing" else "  (below 3%)"
        print(f"{record['without']:<32} {speeds}  {gain:+.1%}{note}")
