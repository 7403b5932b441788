import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from ladders import made_up_row, small_recipe
from regard.atomic_io import write_atomic
from regard.comparison import row_processes as module
from regard.comparison.measurements import Failure, load_row
from regard.comparison.plan import Budget, ComparisonFolder, entries_of, make_plan
from regard.comparison.row_processes import (
    RowJob,
    RowProcesses,
    failure_reason,
    start_process,
    untrained_entries,
)
from regard.tasks.translation.comparison.results import MeasuredRow


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(module, "POLL_SECONDS", 0.0)


class Workshop:
    """Fake processes: each ends when it has been polled three times."""

    def __init__(self, folder, failing=()):
        self.folder, self.failing = folder, failing
        self.log, self.running, self.most, self.stop = [], 0, 0, False
        self.terminated = []

    def start(self, job, log):
        self.log.append((job.entry.name, job.goal))
        self.running += 1
        self.most = max(self.most, self.running)
        return _Process(self, job, log)

    def finish(self, job, log):
        self.running -= 1
        if job.entry.name in self.failing:
            log.write_text("reading\nerror: too many words\n")
            return 1
        if job.goal == "measure":
            row = made_up_row(job.entry.label, 30.0, seed=job.entry.seed)
            write_atomic(self.folder.row(job.entry), row.model_dump_json().encode())
        if job.goal in ("train", "measure"):
            write_atomic(self.folder.run(job.entry).card, b"done")
        if job.goal == "time":
            write_atomic(self.folder.steps(job.entry), b"7")
        return 0

    # the methods of a `PoolObserver`
    def started(self, job): ...
    def polled(self, running): ...
    def ended(self, job, outcome):
        self.log.append((job.entry.name, type(outcome).__name__))

    def run_rows(self, plan, jobs=1):
        RowProcesses(self.folder, self.start, self, lambda: self.stop).run_plan(plan, jobs)


class _Process:
    def __init__(self, workshop, job, log):
        self.workshop, self.job, self.log, self.looks = workshop, job, log, 0

    def poll(self):
        self.looks += 1
        if self.job.entry.name in self.workshop.terminated:
            return -signal.SIGTERM
        return self.workshop.finish(self.job, self.log) if self.looks == 3 else None

    def terminate(self):
        self.workshop.terminated.append(self.job.entry.name)


@pytest.fixture
def folder(tmp_path):
    return ComparisonFolder(tmp_path)


def plan(budget=None):
    """Three rows: a-seed1, a-seed2, b-seed1."""
    budget = budget or Budget(steps=5)
    a = entries_of(small_recipe("plain"), "a", [1, 2], budget)
    b = entries_of(small_recipe("search"), "b", [1], budget)
    return make_plan([*a, *b], budget, 5)


def rows(folder):
    return [load_row(folder, entry) for entry in plan().entries]


def test_one_by_one_each_row_is_trained_and_measured_in_one_go(folder):
    shop = Workshop(folder)
    shop.run_rows(plan())
    names = ["a-seed1", "a-seed2", "b-seed1"]
    assert shop.log == [(name, what) for name in names for what in ("measure", "MeasuredRow")]
    assert shop.most == 1
    assert all(isinstance(row, MeasuredRow) for row in rows(folder))


def test_a_row_that_was_measured_needs_no_run(folder):
    assert untrained_entries(plan(), folder) == list(plan().entries)
    Workshop(folder).run_rows(plan())
    shutil.rmtree(folder.path / "runs")
    assert untrained_entries(plan(), folder) == []
    folder.row(plan().entries[1]).unlink()
    assert untrained_entries(plan(), folder) == [plan().entries[1]]


def test_several_train_at_once_but_are_timed_and_measured_alone(folder):
    shop = Workshop(folder)
    shop.run_rows(plan(Budget(minutes=1)), jobs=2)
    goals = [goal for _, goal in shop.log]
    assert [entry for entry in shop.log if entry[1] == "time"] == [
        ("a-seed1", "time"),
        ("b-seed1", "time"),
    ]
    assert goals.count("train") == goals.count("measure") == 3
    assert goals.index("train") > max(place for place, goal in enumerate(goals) if goal == "time")
    last = max(place for place, goal in enumerate(goals) if goal == "train")
    assert goals.index("measure") > last
    assert shop.most == 2


def test_saved_steps_are_not_timed_again(folder):
    write_atomic(folder.steps(plan().entries[0]), b"7")
    shop = Workshop(folder)
    shop.run_rows(plan(Budget(minutes=1)), jobs=2)
    assert [entry for entry in shop.log if entry[1] == "time"] == [("b-seed1", "time")]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_row_that_fails_stops_no_other(folder, jobs):
    shop = Workshop(folder, failing=["a-seed2"])
    shop.run_rows(plan(), jobs)
    good, bad, other = rows(folder)
    assert bad == Failure(label="a", seed=2, reason="too many words")
    assert isinstance(good, MeasuredRow)
    assert isinstance(other, MeasuredRow)
    assert [name for name, goal in shop.log if goal in ("train", "measure")].count("a-seed2") == 1


def test_a_failed_row_is_tried_again_the_next_time(folder):
    Workshop(folder, failing=["a-seed2"]).run_rows(plan())
    shop = Workshop(folder)
    shop.run_rows(plan())
    assert shop.log == [("a-seed2", "measure"), ("a-seed2", "MeasuredRow")]


def test_a_stop_ends_what_runs_and_begins_nothing(folder):
    shop = Workshop(folder)
    shop.polled = lambda running: setattr(shop, "stop", True)
    shop.run_rows(plan(), jobs=2)
    assert shop.terminated == ["a-seed1", "a-seed2"]
    assert rows(folder) == [None, None, None]
    assert shop.log == [("a-seed1", "train"), ("a-seed2", "train")]


@pytest.mark.parametrize(
    ("output", "code", "reason"),
    [
        (
            "reading\nerror: a.txt: no such file;\nlook elsewhere",
            1,
            "a.txt: no such file;\nlook elsewhere",
        ),
        (
            "Traceback\n  x\ntorch.OutOfMemoryError: CUDA out of memory.\n",
            1,
            "torch.OutOfMemoryError: CUDA out of memory.",
        ),
        (
            "Traceback\n  x\nRuntimeError: CUDA error: an illegal access\nCompile with a flag.\n",
            1,
            "RuntimeError: CUDA error: an illegal access",
        ),
        ("error: one\nTraceback\n  x\nKeyError: 'y'\n", 1, "KeyError: 'y'"),
        ("error: one\nerror: two\n", 1, "two"),
        ("usage:\nno such option\n", 2, "no such option"),
        ("all well", -9, "its process was ended by SIGKILL: was there too little memory?"),
        ("all well", -11, "its process was ended by SIGSEGV"),
    ],
)
def test_a_failure_has_the_error_at_the_end_of_the_log(tmp_path, output, code, reason):
    log = tmp_path / "log"
    log.write_text(f"error: an older one\n{output}")
    assert failure_reason(log, len("error: an older one\n"), code) == reason


def test_a_process_is_told_its_row(folder, monkeypatch, tmp_path):
    seen = []

    def popen(command, **options):
        seen.append((command, options))

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    entry = plan().entries[1]
    for jobs, goal in ((3, "train"), (3, "measure"), (1, "measure")):
        start_process(folder, "cuda:1", jobs)(RowJob(entry, goal), tmp_path / "log")
    (command, options), alone, single = seen
    assert command[1:] == [
        *("-m", "regard", "compare", "--out", str(folder.path)),
        *(
            "--parent",
            str(os.getpid()),
            "--row",
            "a-seed2",
            "--goal",
            "train",
            "--device",
            "cuda:1",
        ),
    ]
    assert options["env"]["OMP_NUM_THREADS"] == "2"
    assert options["start_new_session"]
    assert "OMP_NUM_THREADS" not in alone[1]["env"]
    assert "OMP_NUM_THREADS" not in single[1]["env"]


@pytest.mark.slow
def test_a_process_does_not_outlive_the_one_that_started_it(tmp_path):
    child = (
        "import os, time; from regard.comparison.row_processes import die_with_parent; "
        "die_with_parent(os.getppid()); "
        f"open({str(tmp_path / 'ready')!r}, 'w').close(); time.sleep(60)"
    )
    parent = (
        "import subprocess, sys, time; "
        f"p = subprocess.Popen([sys.executable, '-c', {child!r}]); print(p.pid, flush=True); "
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        number = int(process.stdout.readline())
        deadline = time.monotonic() + 60
        while not (tmp_path / "ready").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
    while _is_alive(number):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_that_was_left_before_it_could_look_ends():
    code = (
        "import os, time; from regard.comparison.row_processes import die_with_parent; "
        "die_with_parent(os.getppid() + 1); time.sleep(60)"
    )
    ended = subprocess.run([sys.executable, "-c", code], timeout=50, check=False)
    assert ended.returncode == 1


def _is_alive(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{number}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
