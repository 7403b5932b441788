"""All rows, each by a process of its own: several at once to train, one alone to be measured.

A process that runs out of memory, or is killed, takes nothing with it but its own row.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from regard.comparison.folder import ComparisonFolder
from regard.comparison.measuring import Failure, Row, load_row
from regard.comparison.plan import Entry, Plan
from regard.comparison.running import trained
from regard.files import growing_file, remove, write_whole
from regard.training.loop import StopAsked

Goal = Literal["time", "train", "measure"]
"""How far a process takes its row: to its steps, to a trained run examined, to all its numbers."""
PAUSE = 0.2
"""Seconds between two looks at the processes."""
THREADS = "OMP_NUM_THREADS"
OUR_REASON = re.compile(r"^error: ((?:(?!^error: |^Traceback).)+)\Z", re.MULTILINE | re.DOTALL)
"""What the command line says last of an error that a user can cause."""
RAISED = re.compile(r"^[\w.]+(?:Error|Exception|Interrupt)\b.*", re.MULTILINE)
"""The first line of what a traceback ends with: torch goes on with advice on debugging."""


class Job(NamedTuple):
    """What one process is to do."""

    entry: Entry
    goal: Goal


class Process(Protocol):
    """A running process, as `subprocess.Popen` has it."""

    def poll(self) -> int | None: ...
    def terminate(self) -> None: ...


Start = Callable[[Job, Path], Process]
"""Starts the process of a job, whose words go to the end of a file."""


class Watcher(Protocol):
    """Whoever shows a person how it goes."""

    def started(self, job: Job) -> None: ...
    def looked(self, running: Sequence[Job]) -> None: ...
    def ended(self, job: Job, outcome: Row | Failure | None) -> None: ...


def unmeasured(plan: Plan, folder: ComparisonFolder) -> list[Entry]:
    """The rows that have no numbers yet; those that failed are tried again."""
    return [entry for entry in plan.entries if not isinstance(load_row(folder.row(entry)), Row)]


def to_train(plan: Plan, folder: ComparisonFolder) -> list[Entry]:
    """The rows whose run is not finished; one that was measured needs no run any more."""
    return [entry for entry in unmeasured(plan, folder) if not trained(entry, folder)]


def carry_out(
    plan: Plan,
    folder: ComparisonFolder,
    *,
    jobs: int,
    start: Start,
    watcher: Watcher,
    stop_asked: StopAsked,
) -> None:
    """Bring every row of the plan that is not finished to its end; those that fail are noted.

    With several `jobs` at once, all that is timed is still timed alone: steps for a budget in
    minutes before any row is trained, and the measurements after all of them are. What needs no
    clock is found of each as soon as it is trained.
    """
    todo = unmeasured(plan, folder)
    for entry in todo:
        remove(folder.row(entry))  # a failure: it is tried again
    pool = _Pool(folder, start, watcher, stop_asked)
    if jobs > 1:
        untrained = to_train(plan, folder)
        if plan.budget.minutes is not None:
            first: dict[str, Entry] = {}  # of each system
            for entry in untrained:
                first.setdefault(entry.label, entry)
            unknown = [entry for entry in first.values() if not folder.steps(entry).exists()]
            pool.run([Job(entry, "time") for entry in unknown], 1)
        pool.run([Job(entry, "train") for entry in untrained], jobs)
    pool.run([Job(entry, "measure") for entry in todo], 1)


@dataclass(frozen=True, eq=False)
class _Running:
    job: Job
    process: Process
    offset: int
    """Where in the log its own words begin."""


@dataclass(frozen=True)
class _Pool:
    folder: ComparisonFolder
    start: Start
    watcher: Watcher
    stop_asked: StopAsked

    def run(self, jobs: Sequence[Job], at_once: int) -> None:
        """Do the jobs, some at once; rows that failed before are left alone."""
        waiting = [job for job in jobs if load_row(self.folder.row(job.entry)) is None]
        running: list[_Running] = []
        told = False
        while running or (waiting and not self.stop_asked()):
            while waiting and len(running) < at_once and not self.stop_asked():
                running.append(self._begin(waiting.pop(0)))
            if self.stop_asked() and not told:
                told = True
                for one in running:
                    one.process.terminate()
            for one in list(running):
                if (code := one.process.poll()) is not None:
                    running.remove(one)
                    self._end(one.job, code, one.offset)
            self.watcher.looked([one.job for one in running])
            if running:
                time.sleep(PAUSE)

    def _begin(self, job: Job) -> _Running:
        log = self.folder.log(job.entry)
        log.parent.mkdir(parents=True, exist_ok=True)
        offset = log.stat().st_size if log.exists() else 0
        self.watcher.started(job)
        return _Running(job, self.start(job, log), offset)

    def _end(self, job: Job, code: int, offset: int) -> None:
        if self.stop_asked():
            return
        entry, path = job.entry, self.folder.row(job.entry)
        if code != 0:
            reason = read_reason(self.folder.log(entry), offset, code)
            failure = Failure(label=entry.label, seed=entry.seed, reason=reason)
            write_whole(path, failure.model_dump_json(indent=1).encode())
        self.watcher.ended(job, load_row(path))


def read_reason(log: Path, offset: int, code: int) -> str:
    """Why a process ended with `code`: by a signal, or by what it said last."""
    if code < 0:
        name = signal.Signals(-code).name
        hint = ": was there too little memory?" if -code == signal.SIGKILL else ""
        return f"its process was ended by {name}{hint}"
    said = log.read_bytes()[offset:].decode(errors="replace").strip()
    if ours := OUR_REASON.search(said):
        return ours[1]
    if raised := RAISED.findall(said):
        return str(raised[-1])
    if said:
        return said.splitlines()[-1]
    return (
        f"its process ended with the exit code {code} and left no word in {log}; is the disk full?"
    )


def start_process(folder: ComparisonFolder, device: str, jobs: int) -> Start:
    """Starts `regard compare` for one row; the cores are shared by those that train at once."""
    command = [sys.executable, "-m", "regard", "compare", "--out", str(folder.path)]
    command += ["--parent", str(os.getpid())]
    shared = {THREADS: str(max(1, (os.cpu_count() or 1) // jobs))} if jobs > 1 else {}

    def start(job: Job, log: Path) -> Process:
        row = ["--row", job.entry.name, "--goal", job.goal, "--device", device]
        threads = shared if job.goal == "train" else {}
        with growing_file(log) as file:
            return subprocess.Popen(
                [*command, *row],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**threads, **os.environ},
                start_new_session=True,  # Ctrl-C is for us: we tell them, once
            )

    return start


def die_with_parent(parent: int) -> None:
    """Let this process end as soon as the one of that number has, which started it, in any way.

    A row can be taken up wherever it was left; two processes at one row would be in each other's
    way.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PAUSE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
