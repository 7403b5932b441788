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

from regard.atomic_io import append_file, remove_file, write_atomic
from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.measurements import Failure, MeasuredRow, load_row
from regard.comparison.plan import ComparisonPlan, PlanEntry
from regard.comparison.row_training import is_trained
from regard.training.loop import StopRequested

Goal = Literal["time", "train", "measure"]
"""How far a process takes its row: to its steps, to a trained run examined, to all its numbers."""
POLL_SECONDS = 0.2
"""Seconds between two looks at the processes."""
THREADS_VARIABLE = "OMP_NUM_THREADS"
CLI_ERROR = re.compile(r"^error: ((?:(?!^error: |^Traceback).)+)\Z", re.MULTILINE | re.DOTALL)
"""What the command line says last of an error that a user can cause."""
EXCEPTION_LINE = re.compile(r"^[\w.]+(?:Error|Exception|Interrupt)\b.*", re.MULTILINE)
"""The first line of what a traceback ends with: torch goes on with advice on debugging."""


class RowJob(NamedTuple):
    """What one process is to do."""

    entry: PlanEntry
    goal: Goal


class ProcessHandle(Protocol):
    """A running process, as `subprocess.Popen` has it."""

    def poll(self) -> int | None: ...
    def terminate(self) -> None: ...


StartProcess = Callable[[RowJob, Path], ProcessHandle]
"""Starts the process of a job, whose words go to the end of a file."""


class PoolObserver(Protocol):
    """Whoever shows a person how it goes."""

    def started(self, job: RowJob) -> None: ...
    def polled(self, running: Sequence[RowJob]) -> None: ...
    def ended(self, job: RowJob, outcome: MeasuredRow | Failure | None) -> None: ...


def unmeasured_entries(plan: ComparisonPlan, folder: ComparisonFolder) -> list[PlanEntry]:
    """The rows that have no numbers yet; those that failed are tried again."""
    return [
        entry for entry in plan.entries if not isinstance(load_row(folder.row(entry)), MeasuredRow)
    ]


def untrained_entries(plan: ComparisonPlan, folder: ComparisonFolder) -> list[PlanEntry]:
    """The rows whose run is not finished; one that was measured needs no run any more."""
    return [entry for entry in unmeasured_entries(plan, folder) if not is_trained(entry, folder)]


def run_rows(
    plan: ComparisonPlan,
    folder: ComparisonFolder,
    *,
    jobs: int,
    start: StartProcess,
    watcher: PoolObserver,
    stop_requested: StopRequested,
) -> None:
    """Bring every row of the plan that is not finished to its end; those that fail are noted.

    With several `jobs` at once, all that is timed is still timed alone: steps for a budget in
    minutes before any row is trained, and the measurements after all of them are. What needs no
    clock is found of each as soon as it is trained.
    """
    todo = unmeasured_entries(plan, folder)
    for entry in todo:
        remove_file(folder.row(entry))  # a failure: it is tried again
    pool = _ProcessPool(folder, start, watcher, stop_requested)
    if jobs > 1:
        untrained = untrained_entries(plan, folder)
        if plan.budget.minutes is not None:
            first: dict[str, PlanEntry] = {}  # of each system
            for entry in untrained:
                first.setdefault(entry.label, entry)
            unknown = [entry for entry in first.values() if not folder.steps(entry).exists()]
            pool.run([RowJob(entry, "time") for entry in unknown], 1)
        pool.run([RowJob(entry, "train") for entry in untrained], jobs)
    pool.run([RowJob(entry, "measure") for entry in todo], 1)


@dataclass(frozen=True, eq=False)
class _RunningJob:
    job: RowJob
    process: ProcessHandle
    offset: int
    """Where in the log its own words begin."""


@dataclass(frozen=True)
class _ProcessPool:
    folder: ComparisonFolder
    start: StartProcess
    watcher: PoolObserver
    stop_requested: StopRequested

    def run(self, jobs: Sequence[RowJob], at_once: int) -> None:
        """Do the jobs, some at once; rows that failed before are left alone."""
        waiting = [job for job in jobs if load_row(self.folder.row(job.entry)) is None]
        running: list[_RunningJob] = []
        terminated = False
        while running or (waiting and not self.stop_requested()):
            while waiting and len(running) < at_once and not self.stop_requested():
                running.append(self._start_job(waiting.pop(0)))
            if self.stop_requested() and not terminated:
                terminated = True
                for one in running:
                    one.process.terminate()
            for one in list(running):
                if (code := one.process.poll()) is not None:
                    running.remove(one)
                    self._finish_job(one.job, code, one.offset)
            self.watcher.polled([one.job for one in running])
            if running:
                time.sleep(POLL_SECONDS)

    def _start_job(self, job: RowJob) -> _RunningJob:
        log = self.folder.log(job.entry)
        log.parent.mkdir(parents=True, exist_ok=True)
        offset = log.stat().st_size if log.exists() else 0
        self.watcher.started(job)
        return _RunningJob(job, self.start(job, log), offset)

    def _finish_job(self, job: RowJob, code: int, offset: int) -> None:
        if self.stop_requested():
            return
        entry, path = job.entry, self.folder.row(job.entry)
        if code != 0:
            reason = failure_reason(self.folder.log(entry), offset, code)
            failure = Failure(label=entry.label, seed=entry.seed, reason=reason)
            write_atomic(path, failure.model_dump_json(indent=1).encode())
        self.watcher.ended(job, load_row(path))


def failure_reason(log: Path, offset: int, code: int) -> str:
    """Why a process ended with `code`: by a signal, or by what it said last."""
    if code < 0:
        name = signal.Signals(-code).name
        hint = ": was there too little memory?" if -code == signal.SIGKILL else ""
        return f"its process was ended by {name}{hint}"
    output = log.read_bytes()[offset:].decode(errors="replace").strip()
    if ours := CLI_ERROR.search(output):
        return ours[1]
    if raised := EXCEPTION_LINE.findall(output):
        return str(raised[-1])
    if output:
        return output.splitlines()[-1]
    return (
        f"its process ended with the exit code {code} and left no word in {log}; is the disk full?"
    )


def start_process(folder: ComparisonFolder, device: str, jobs: int) -> StartProcess:
    """Starts `regard compare` for one row; the cores are shared by those that train at once."""
    command = [sys.executable, "-m", "regard", "compare", "--out", str(folder.path)]
    command += ["--parent", str(os.getpid())]
    shared = {THREADS_VARIABLE: str(max(1, (os.cpu_count() or 1) // jobs))} if jobs > 1 else {}

    def start(job: RowJob, log: Path) -> ProcessHandle:
        row = ["--row", job.entry.name, "--goal", job.goal, "--device", device]
        threads = shared if job.goal == "train" else {}
        with append_file(log) as file:
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
            time.sleep(POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
