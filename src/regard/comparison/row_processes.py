"""Processes of the rows of a comparison: several train at once, one at a time is measured."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from regard.atomic_io import append_file, remove_file
from regard.comparison.measurements import Failure, load_row
from regard.comparison.plan import ComparisonFolder, ComparisonPlan, PlanEntry
from regard.comparison.results import Outcome
from regard.comparison.rows import is_trained
from regard.training.loop import StopRequested

Goal = Literal["time", "train", "measure"]
"""A process's task: time steps for a budget, train a run, or train and measure it."""
POLL_SECONDS = 0.2
THREADS_VARIABLE = "OMP_NUM_THREADS"
CLI_ERROR = re.compile(r"^error: ((?:(?!^error: |^Traceback).)+)\Z", re.MULTILINE | re.DOTALL)
"""The message of an error that a user can cause, at the end of a log."""
EXCEPTION_LINE = re.compile(r"^[\w.]+(?:Error|Exception|Interrupt)\b.*", re.MULTILINE)
"""The first line of the exception after a traceback: torch's messages have more lines."""


class RowJob(NamedTuple):
    """A row, and its process's task."""

    entry: PlanEntry
    goal: Goal


StartProcess = Callable[[RowJob, Path], "subprocess.Popen[bytes]"]
"""Starts the process of a job; its output is appended to a log file."""


class PoolObserver(Protocol):
    """Shows the progress of the processes."""

    def started(self, job: RowJob) -> None: ...
    def polled(self, running: Sequence[RowJob]) -> None: ...
    def ended(self, job: RowJob, outcome: Outcome) -> None: ...


def unmeasured_entries(plan: ComparisonPlan, folder: ComparisonFolder) -> list[PlanEntry]:
    """The rows that were not measured, including those that failed, which are tried again."""
    return [entry for entry in plan.entries if isinstance(load_row(folder, entry), Failure | None)]


def untrained_entries(plan: ComparisonPlan, folder: ComparisonFolder) -> list[PlanEntry]:
    """The rows that were not measured and whose run is not finished."""
    return [entry for entry in unmeasured_entries(plan, folder) if not is_trained(entry, folder)]


class RowProcesses(NamedTuple):
    """Runs the processes of rows, and saves their failures."""

    folder: ComparisonFolder
    start: StartProcess
    observer: PoolObserver
    stop_requested: StopRequested

    def run_plan(self, plan: ComparisonPlan, num_processes: int) -> None:
        """Train and measure every unmeasured row; steps and translations are timed with no other
        process running.

        Runs that rows start from are trained first.
        """
        unmeasured = unmeasured_entries(plan, self.folder)
        for entry in (*unmeasured, *plan.starts):
            remove_file(self.folder.row(entry))  # a failure, which is tried again
        for level in start_levels(plan):
            self._run([x for x in level if not is_trained(x, self.folder)], "train", num_processes)
        if not plan.rows.timed:
            self._run(unmeasured, "train", num_processes)  # each is measured, too
            return
        if num_processes > 1:
            untrained = untrained_entries(plan, self.folder)
            if plan.budget.minutes is not None:
                first: dict[str, PlanEntry] = {}  # of each system
                for entry in untrained:
                    first.setdefault(entry.label, entry)
                untimed = [one for one in first.values() if not self.folder.steps(one).exists()]
                self._run(untimed, "time")
            self._run(untrained, "train", num_processes)
        self._run(unmeasured, "measure")

    def _run(self, entries: Sequence[PlanEntry], goal: Goal, num_processes: int = 1) -> None:
        """Run a process for each row, some at a time; rows that have failed are skipped."""
        waiting = [RowJob(entry, goal) for entry in entries if load_row(self.folder, entry) is None]
        running: list[tuple[RowJob, subprocess.Popen[bytes], int]] = []
        stopping = False
        while running or (waiting and not stopping):
            while waiting and len(running) < num_processes and not self.stop_requested():
                job = waiting.pop(0)
                log = self.folder.log(job.entry)
                log.parent.mkdir(parents=True, exist_ok=True)
                offset = log.stat().st_size if log.exists() else 0
                self.observer.started(job)
                running.append((job, self.start(job, log), offset))
            if self.stop_requested() and not stopping:
                stopping = True
                for _, process, _ in running:
                    process.terminate()
            for item in list(running):
                job, process, offset = item
                if (code := process.poll()) is not None:
                    running.remove(item)
                    if not self.stop_requested():
                        self.observer.ended(job, self._outcome(job.entry, code, offset))
            self.observer.polled([job for job, _, _ in running])
            if running:
                time.sleep(POLL_SECONDS)

    def _outcome(self, entry: PlanEntry, code: int, offset: int) -> Outcome:
        """The measurements of a row whose process has ended; its failure is saved."""
        if code != 0:
            reason = failure_reason(self.folder.log(entry), offset, code)
            failure = Failure(label=entry.label, seed=entry.seed, reason=reason)
            failure.save(self.folder.row(entry))
        return load_row(self.folder, entry)


def start_levels(plan: ComparisonPlan) -> list[list[PlanEntry]]:
    """The runs that rows start from, in groups; those of a group start from runs of earlier
    groups.
    """
    depths: dict[str, int] = {}
    levels: list[list[PlanEntry]] = []
    for entry in plan.starts:  # each after the one it starts from
        depth = 1 + depths[entry.start] if entry.start else 0
        depths[entry.start_name or ""] = depth
        if depth == len(levels):
            levels.append([])
        levels[depth].append(entry)
    return levels


def failure_reason(log: Path, offset: int, code: int) -> str:
    """Why a process ended with `code`: a signal, or the error at the end of its log."""
    if code < 0:
        name = signal.Signals(-code).name
        hint = ": was there too little memory?" if -code == signal.SIGKILL else ""
        return f"its process was ended by {name}{hint}"
    output = log.read_bytes()[offset:].decode(errors="replace").strip()
    if ours := CLI_ERROR.search(output):
        return ours[1]
    if raised := EXCEPTION_LINE.findall(output):
        return str(raised[-1])
    silent = (
        f"its process ended with the exit code {code} and without a message in {log}; is the disk "
    )
    return output.splitlines()[-1] if output else f"{silent}full?"


def start_process(folder: ComparisonFolder, device: str, jobs: int) -> StartProcess:
    """Starts `regard compare` for one row; processes that train at once share the cores."""
    command = [sys.executable, "-m", "regard", "compare", "--out", str(folder.path)]
    command += ["--parent", str(os.getpid())]
    shared = {THREADS_VARIABLE: str(max(1, (os.cpu_count() or 1) // jobs))} if jobs > 1 else {}

    def start(job: RowJob, log: Path) -> "subprocess.Popen[bytes]":
        row = ["--row", job.entry.name, "--goal", job.goal, "--device", device]
        threads = shared if job.goal == "train" else {}
        with append_file(log) as file:
            return subprocess.Popen(
                [*command, *row],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**threads, **os.environ},
                start_new_session=True,  # Ctrl-C reaches only this process, which stops them
            )

    return start


def die_with_parent(parent: int) -> None:
    """End this process with its parent: a resumed comparison starts another for the same row."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
