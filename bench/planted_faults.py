"""Whether the tests notice faults that are planted on purpose.

    python -m bench planted_faults [--list] [--only TEXT] [--tests PATH ...] [--jobs N]

Each fault of `bench/fault_table.py` is planted alone in a copy of the tree, and the tests that
should notice it run there: caught, or not. The same tests pass without any fault, which is tried
first. A fault whose text is no longer in its file is stale: the code has changed, and the row is
to be written again from the behaviour that it states.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, NamedTuple

from bench.contenders import ROOT
from bench.fault_table import FAULTS, Fault
from regard.errors import SettingsError

COPIED = ("src", "tests", "bench", "docs", "pyproject.toml", "README.md", "CHANGELOG.md")
PASSED, FAILED = 0, 1  # pytest's exit codes; the others say that tests could not run
Verdict = Literal["caught", "NOT CAUGHT", "stale", "broken"]


class Outcome(NamedTuple):
    """What became of a fault."""

    verdict: Verdict
    detail: str  # the first test that failed, or why there is no verdict
    seconds: float


def _file(fault: Fault, tree: Path) -> Path:
    return tree / "src" / "regard" / fault.file


def is_there(fault: Fault, tree: Path) -> bool:
    """Whether a tree has the text of a fault, once."""
    file = _file(fault, tree)
    return file.is_file() and file.read_text(encoding="utf-8").count(fault.old) == 1


@contextmanager
def planted(fault: Fault, tree: Path) -> Iterator[None]:
    """A context in which the tree has the fault."""
    file = _file(fault, tree)
    sound = file.read_text(encoding="utf-8")
    _write(file, sound.replace(fault.old, fault.new))
    try:
        yield
    finally:
        _write(file, sound)


def _write(file: Path, text: str) -> None:
    """Write a module that is newer, by a second, than its bytecode."""
    time_written = file.stat().st_mtime + 1
    file.write_text(text, encoding="utf-8")
    os.utime(file, (time_written, time_written))


def run_tests(tree: Path, tests: Sequence[str]) -> tuple[int, str]:
    """pytest's exit code for some tests of a tree, and the first failure or the last line."""
    env = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # each process would compile torch anew
    options = ("-x", "-q", "--no-header", "--tb=no", "-p", "no:randomly", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-rfE", *tests],
        cwd=tree,
        env=env,
        capture_output=True,
        text=True,
    )
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]]
    failed = (line for line in lines if line.startswith(("FAILED ", "ERROR ")))
    return done.returncode, next(failed, lines[-1])


def examine(fault: Fault, tree: Path, tests: Sequence[str] = ()) -> Outcome:
    """Plant a fault in a tree, run its tests or those given, and make the tree sound again."""
    begun = time.monotonic()
    if not is_there(fault, tree):
        return Outcome("stale", f"{fault.file} does not have its text once", 0.0)
    with planted(fault, tree):
        status, detail = run_tests(tree, tests or fault.tests.split())
    verdicts: dict[int, Verdict] = {PASSED: "NOT CAUGHT", FAILED: "caught"}
    return Outcome(verdicts.get(status, "broken"), detail, time.monotonic() - begun)


@contextmanager
def copies(count: int) -> Iterator[SimpleQueue[Path]]:
    """So many copies of the tree, to be taken and put back."""
    with tempfile.TemporaryDirectory() as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            tree = Path(folder) / str(number)
            for name in COPIED:
                source, copy = ROOT / name, tree / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
            trees.put(tree)
        yield trees


def _chosen(only: str | None) -> list[Fault]:
    """The faults whose behaviour or file has a text."""
    found = [one for one in FAULTS if only is None or only in f"{one.behaviour} {one.file}"]
    if not found:
        raise SettingsError(f"--only {only}: no fault has this in its behaviour or its file")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Whether the tests notice planted faults.")
    parser.add_argument("--list", action="store_true", help="only print the faults")
    parser.add_argument("--only", metavar="TEXT", help="faults whose behaviour or file has TEXT")
    parser.add_argument("--tests", nargs="+", default=(), help="run these tests, not those named")
    parser.add_argument("--jobs", type=int, default=1, help="faults examined at a time")
    asked = parser.parse_args()
    faults = _chosen(asked.only)
    if asked.list:
        for fault in faults:
            stale = "" if is_there(fault, ROOT) else "STALE: "
            print(f"{fault.kind}  {stale}{fault.behaviour}  ({fault.file}; {fault.tests})")
        return 0
    with copies(asked.jobs) as trees:
        tests = asked.tests or sorted({one for fault in faults for one in fault.tests.split()})
        tree = trees.get()
        status, detail = run_tests(tree, tests)
        trees.put(tree)
        if status != PASSED:
            raise SettingsError(f"the tests do not pass without a fault: {detail}")

        def examine_next(fault: Fault) -> Outcome:
            tree = trees.get()
            try:
                return examine(fault, tree, asked.tests)
            finally:
                trees.put(tree)

        verdicts = []
        with ThreadPoolExecutor(asked.jobs) as pool:
            for fault, found in zip(faults, pool.map(examine_next, faults), strict=True):
                verdicts.append(found.verdict)
                print(f"{found.verdict:<10} {found.seconds:5.0f} s  {fault.kind}  ", end="")
                print(f"{fault.behaviour}\n{'':<20}{found.detail}", flush=True)
    caught = verdicts.count("caught")
    print(f"{caught} of {len(faults)} caught")
    return int(caught < len(faults))
