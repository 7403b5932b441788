"""Seconds and memory of a whole command that translates one line, beside the peers.

Ours is `regard translate RUN`; a peer's is a script that loads its own format and translates. Each
is started afresh in every round, on one thread; what it reads is in the system's cache.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from bench.contenders import MEBI, MIN_ROUNDS, Contender, check_rounds, choose, environment
from bench.engines import add_model, check_model, one_thread
from bench.exports import exported, test_set
from bench.machine_state import measure_machine_state
from bench.peers.contract import Clock
from bench.report import Table, begin, console, options, rows_of, save, show, show_progress


class CommandRun(NamedTuple):
    """What a command took."""

    seconds: float
    peak_mb: float
    """Of the largest process in it."""
    text: str


def command(one: Contender, folder: Path, beam: int) -> list[str]:
    """What a user would type for this contender."""
    if one.ours:
        words = [sys.executable, "-m", "regard", "translate", str(folder), "--beam", str(beam)]
        if one.setup.engine != "native":
            return words
        return [*words, "--engine", "native", "--precision", one.setup.precision]
    setup = json.dumps(asdict(one.setup))
    return [
        sys.executable,
        "-m",
        "bench.peer_translate",
        one.peer,
        str(folder),
        setup,
        "--beam",
        str(beam),
    ]


LAUNCH = """
import os, sys, time
quiet = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
began = time.perf_counter()
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, used = os.wait4(process, 0)
wall, spent = time.perf_counter() - began, used.ru_utime + used.ru_stime
print(wall, spent, used.ru_maxrss, os.waitstatus_to_exitcode(status), file=sys.stderr)
"""
"""Run in a small process of its own: on Linux the peak memory of a program is at least what the
process that started it held."""


def run(words: Sequence[str], line: str, clock: Clock = "wall") -> CommandRun:
    """Run a command with `line` on its standard input, to its end; seconds are the clock's."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCH, *words],
        input=f"{line}\n",
        capture_output=True,
        encoding="utf-8",
        env=environment(threads=1),
        check=True,
    )
    wall, processor, peak, status = done.stderr.split()
    if int(status) or not done.stdout.strip():
        raise RuntimeError(f"{' '.join(words[1:4])} ended with status {status}")
    seconds = float(wall if clock == "wall" else processor)
    return CommandRun(seconds, mebibytes(int(peak)), done.stdout.strip())


def mebibytes(peak: int) -> float:
    """What `wait4` calls the peak of a program, which macOS counts in bytes and Linux in KiB."""
    return peak * (1 if sys.platform == "darwin" else 1024) / MEBI


def main() -> None:
    parser = options(__doc__, rounds=5)
    add_model(parser)
    parser.add_argument("--beam", type=int, default=5, help="(%(default)s)")
    asked = parser.parse_args()
    rounds = MIN_ROUNDS if asked.quick else asked.rounds
    check_rounds(rounds)
    check_model(asked)
    machine_state = measure_machine_state()
    chosen, left = choose(one_thread(asked.clock), asked.peers)
    begin(machine_state, left)
    line = test_set(asked.model, 1).sources[0]
    found: dict[str, list[CommandRun]] = {one.name: [] for one in chosen}
    with exported(asked.model, chosen, show_progress) as exports:
        left |= exports.failed
        for number in range(rounds + 1):  # the first fills the system's cache
            for one in chosen:
                if one.name in left:
                    continue
                show_progress(f"round {number} of {rounds}: {one.name}")
                try:
                    took = run(
                        command(one, exports.folders[one.peer], asked.beam), line, asked.clock
                    )
                except RuntimeError as error:
                    left[one.name] = str(error)
                    continue
                found[one.name] += [took] if number else []
    for name, why in left.items():
        console.print(f"[red]without {name}[/red]: {why}")
    came = {name: takes for name, takes in found.items() if name not in left}
    seconds = {name: [took.seconds for took in takes] for name, takes in came.items()}
    memory = {name: [took.peak_mb for took in takes] for name, takes in came.items()}
    said = {name: {"text": takes[-1].text[:40]} for name, takes in came.items()}
    tables = [
        Table(
            f"cold start to the end of one translation, {asked.clock} clock",
            "s",
            rows_of(chosen, seconds, said),
            "less",
        ),
        Table("memory of that command", "peak MB", rows_of(chosen, memory, {}), "less"),
    ]
    for table in tables:
        show(table)
    save(asked, machine_state, tables, left=left, setting={"model": str(asked.model)})
