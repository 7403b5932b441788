"""Record what commands and servers answer, so that two trees can be compared byte for byte.

    python -m bench recorded_outputs make RUNS
    python -m bench recorded_outputs record DIR --runs RUNS
    python -m bench recorded_outputs compare DIR1 DIR2

The code that answers is the one that PYTHONPATH names: to compare another tree, set it and use the
same RUNS. What is asked stands in recorded_outputs.yaml.
"""

import argparse
import atexit
import difflib
import gc
import hashlib
import http.client
import importlib
import io
import json
import os
import pkgutil
import re
import runpy
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import regard
from bench.recorded_files import write_files
from bench.volatile import OTHER_EACH_TIME, UNSTABLE_HEADERS, normalised

CASES = Path(__file__).with_suffix(".yaml")
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where commands run: in memory, since runs sync every file to the disk."""
LIMIT = 600.0
"""Seconds after which a command is killed, and a server given up."""
INLINE_BYTES = 3000
"""Written texts up to this length are shown; of all other files, the digest is."""
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # sums in another order have other last bits
    "PYTHONHASHSEED": "0",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "MPLBACKEND": "agg",
    "RAY_USAGE_STATS_ENABLED": "0",
}
UNWANTED = ("COLUMNS", "LINES", "REGARD_CACHE", "REGARD_API_KEYS", "FORCE_COLOR", "LANG")
"""Variables of the user's that would change answers."""
PRELOADED = ("torch", "torch._dynamo", "regard")
"""Imported before the first command, the last one with all its modules."""
NOT_PRELOADED = ("__main__", "cluster")
"""Ray starts threads when it is imported."""


class Cases(NamedTuple):
    """The contents of recorded_outputs.yaml."""

    files: dict[str, str]
    settings: dict[str, list[str]]
    runs: list[str]
    commands: dict[str, str | list[str]]
    servers: dict[str, dict[str, Any]]


class Command(NamedTuple):
    """Arguments of `regard`, and the files of its standard input and output."""

    arguments: list[str]
    stdin: str
    stdout: str


class Ended(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    stdout: bytes
    stderr: bytes


class Recorder:
    """Runs the cases, each in a new folder with the files and the runs that it names."""

    def __init__(self, cases: Cases, runs: Path, *, forked: bool = True) -> None:
        self._cases, self._runs, self._forked = cases, runs, forked
        self._paths = {
            str(runs.resolve()): "<runs>",
            str(Path(regard.__file__).parent): "<regard>",
            os.environ.get("REGARD_DATA", "/nowhere"): "<data>",
        }

    def make_runs(self) -> None:
        """Write the files and train the runs, here."""
        self._runs.mkdir(parents=True, exist_ok=True)
        write_files(self._runs, self._cases.files)
        for number, line in enumerate(self._cases.runs):
            log, started = self._runs / f"log-{number}", time.monotonic()
            ended = self._invoke(self._parse(line), self._runs, log)
            print(f"{time.monotonic() - started:6.1f} s  {line}", flush=True)
            if ended.code:
                raise SystemExit(f"error: {line}: exit code {ended.code}\n{ended.stderr.decode()}")

    def record(self, names: Sequence[str], out: Path, jobs: int = 1) -> int:
        """Record the named cases in files, `jobs` at a time; how many could not be recorded."""
        failed, running = 0, dict[int, str]()
        for name in names:
            if len(running) == jobs:
                failed += self._collect(running)
            if not (process := os.fork()):
                self._record_in_child(name, out)
            running[process] = name
        while running:
            failed += self._collect(running)
        return failed

    def _collect(self, running: dict[int, str]) -> bool:
        process, status = os.wait()
        name = running.pop(process)
        print(f"{'failed' if status else 'recorded'}  {name}", flush=True)
        return status != 0

    def _record_in_child(self, name: str, out: Path) -> None:
        """Record a case in this process, which then ends."""
        code = 1
        try:
            text = self.answer_of(name)
            file = out / f"{name}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            code = 0
        except Exception as error:
            print(f"{name}: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)

    def answer_of(self, name: str) -> str:
        """All that can be seen of a case, without what is volatile."""
        scratch = Path(tempfile.mkdtemp(prefix="regard-case-", dir=SCRATCH))
        folder, logs = scratch / "in", scratch / "logs"
        logs.mkdir()
        try:  # no TemporaryDirectory: forks would remove it when they end
            if name in self._cases.servers:
                said = self._ask_server(self._cases.servers[name], folder, logs)
            else:
                said = self._run_commands(self._cases.commands[name], folder, logs)
            return normalised("".join(said), {str(folder): "<folder>", **self._paths})
        finally:
            shutil.rmtree(scratch)

    def _run_commands(self, lines: str | list[str], folder: Path, logs: Path) -> Iterator[str]:
        lines = [lines] if isinstance(lines, str) else lines
        before = self._fill(folder, " ".join(lines))
        for number, line in enumerate(lines):
            ended = self._invoke(self._parse(line), folder, logs / str(number))
            yield f"$ regard {line}\n"
            yield f"exit code {ended.code}\n"
            yield section("stdout", ended.stdout)
            yield section("stderr", ended.stderr)
        yield from self._written(folder, before)

    def _ask_server(self, server: dict[str, Any], folder: Path, logs: Path) -> Iterator[str]:
        line = f"serve {server['serve']} --port 0 --device cpu"
        self._fill(folder, line)
        process = self._start(self._parse(line), folder, logs / "0")
        try:
            port = wait_for_port(logs / "0.stderr", process)
            for request in server["requests"]:
                yield from ask(port, request, folder)
        finally:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
            code = wait_for(process)
        yield f"exit code {code}\n"

    def _fill(self, folder: Path, named: str) -> dict[str, str]:
        """Put the files and the named runs into a folder; the digest of each file in it."""
        folder.mkdir()
        shutil.copytree(self._runs, folder, ignore=_is_no_input, dirs_exist_ok=True)
        for run in sorted({*re.findall(r"runs/([\w-]+)", named)}):
            source = self._runs / "runs" / run
            if source.is_dir():
                shutil.copytree(source, folder / "runs" / run, symlinks=True)
        return dict(self._digests(folder))

    def _digests(self, folder: Path) -> Iterator[tuple[str, str]]:
        for file in sorted(folder.rglob("*")):
            name = str(file.relative_to(folder))
            if file.is_file() and not name.startswith(("cache/", "home/")):
                yield name, hashlib.sha256(file.read_bytes()).hexdigest()

    def _written(self, folder: Path, before: Mapping[str, str]) -> Iterator[str]:
        """What was written: the text of short files, the digest of others."""
        after = dict(self._digests(folder))
        yield from (f"removed {name}\n" for name in before if name not in after)
        for name, digest in after.items():
            if before.get(name) == digest:
                continue
            content = (folder / name).read_bytes()
            if OTHER_EACH_TIME.search(name):
                yield f"wrote {name}\n"
                continue
            with suppress(UnicodeDecodeError):
                text = normalised(content.decode("utf-8"), {str(folder): "<folder>", **self._paths})
                content = text.encode()
                if len(content) <= INLINE_BYTES:
                    yield section(f"wrote {name}", content)
                    continue
            digest = hashlib.sha256(content).hexdigest()[:16]
            yield f"wrote {name}: {len(content)} bytes, sha256 {digest}\n"

    def _parse(self, line: str) -> Command:
        words: list[str] = []
        for word in shlex.split(os.path.expandvars(line)):
            settings = self._cases.settings.get(word[1:-1]) if word.startswith("{") else None
            words += [word] if settings is None else [w for s in settings for w in ("--set", s)]
        ends = {"<": os.devnull, ">": ""}
        while len(words) > 1 and words[-2] in ends:
            file = words.pop()
            ends[words.pop()] = file
        return Command(words, stdin=ends["<"], stdout=ends[">"])

    def _invoke(self, command: Command, folder: Path, log: Path) -> Ended:
        process = self._start(command, folder, log)
        code = wait_for(process)
        stdout, stderr = (log.with_name(f"{log.name}.{name}") for name in ("stdout", "stderr"))
        if command.stdout:
            shutil.copyfile(stdout, folder / command.stdout)
        return Ended(code, stdout.read_bytes(), stderr.read_bytes())

    def _start(self, command: Command, folder: Path, log: Path) -> int:
        """The id of a process that runs a command."""
        if process := os.fork():
            return process
        code = 70
        try:
            enter(command, folder, log)
            if not self._forked:
                os.execv(sys.executable, [sys.executable, "-m", "regard", *command.arguments])
            code = run_module(command.arguments)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)


def enter(command: Command, folder: Path, log: Path) -> None:
    """Make this process that of a command: its folder, environment and streams."""
    os.chdir(folder)
    os.environ["REGARD_CACHE"] = str(folder / "cache")
    for number, file, flags in (
        (0, command.stdin, os.O_RDONLY),
        (1, f"{log}.stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, f"{log}.stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        opened = os.open(file, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8")  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8")  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(open(2, "wb", closefd=False), "utf-8", line_buffering=True)  # noqa: SIM115


def run_module(arguments: Sequence[str]) -> int:
    """Run `python -m regard` in this process; its exit code."""
    sys.argv = ["regard", *arguments]
    code: Any = 0
    try:
        runpy.run_module("regard", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()  # os._exit, by which a fork ends, leaves them out
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    return code if isinstance(code, int) else int(code is not None)


def wait_for(process: int) -> int:
    """The exit code of a process, which is killed when it takes too long."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise TimeoutError(f"still running after {LIMIT:.0f} seconds")


def wait_for_port(log: Path, process: int) -> int:
    """The port that a server says it listens at."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        text = log.read_text(encoding="utf-8") if log.exists() else ""
        if listening := re.search(r'"listening".*?127\.0\.0\.1:(\d+)', text):
            return int(listening[1])
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            raise ChildProcessError(f"the server has ended: {text}")
        time.sleep(0.05)
    raise TimeoutError("the server does not listen")


def ask(port: int, request: dict[str, Any], folder: Path) -> Iterator[str]:
    """Send a request; its answer, without headers that differ from one time to the next."""
    method, _, path = request["ask"].partition(" ")
    sent, body = dict(request.get("headers", {})), b""
    if "json" in request:
        sent.setdefault("Content-Type", "application/json")
        body = json.dumps(request["json"], ensure_ascii=False).encode()
    elif "form" in request:
        sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        body = request["form"].encode()
    elif "file" in request:
        sent["Content-Type"] = "multipart/form-data; boundary=edge"
        body = multipart(folder / request["file"], request["fields"])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    connection.request(method, path, body, sent)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    yield f"{request['ask']}  {' '.join(f'{k}={v}' for k, v in request.items() if k != 'ask')}\n"
    yield f"status {response.status}\n"
    headers = {name.lower(): value for name, value in response.getheaders()}
    kept = sorted(headers.keys() - UNSTABLE_HEADERS)
    yield "".join(f"{name}: {headers[name]}\n" for name in kept)
    yield section("body", content[content.find(request.get("from", "").encode()) :])
    if "then" in request:  # a request whose path the answer names
        path = re.sub(r"^https?://[^/]*", "", str(json.loads(content)[request["then"]]))
        yield from ask(port, {"ask": f"GET {path}"}, folder)


def multipart(file: Path, fields: Mapping[str, str]) -> bytes:
    """The body of a form with a file."""
    parts = [
        f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    head = f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{file.name}"\r\n\r\n'
    return b"".join([*parts, head.encode(), file.read_bytes(), b"\r\n--edge--\r\n"])


def section(title: str, content: bytes) -> str:
    """A part of a record; empty if there is nothing in it, its digest if it is no text."""
    if not content:
        return ""
    if b"\0" in content:
        digest = hashlib.sha256(content).hexdigest()[:16]
        return f"--- {title}: {len(content)} bytes, sha256 {digest}\n"
    text = content.decode("utf-8", "backslashreplace")
    return f"--- {title}\n{text}" + ("" if text.endswith("\n") else "\n\\ no newline at the end\n")


def _is_no_input(folder: str, names: list[str]) -> set[str]:
    top = Path(folder, "runs").is_dir()
    return {name for name in names if top and name.startswith(("runs", "cache", "log-"))}


def read_cases(path: Path = CASES) -> Cases:
    return Cases(**yaml.safe_load(path.read_text(encoding="utf-8")))


def preload() -> None:
    """Import what commands need, so that forks of this process start at once."""
    for name in PRELOADED:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        if not any(part in NOT_PRELOADED for part in module.name.split(".")):
            with suppress(ImportError):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # nanobind checks for leaks at exit


def differences(old: Path, new: Path) -> Iterator[tuple[str, list[str]]]:
    """Each case of two recordings, and the lines of its unified diff: none if both are equal."""
    files = [file.relative_to(folder) for folder in (old, new) for file in folder.rglob("*.txt")]
    names = {str(file.with_suffix("")) for file in files}
    for name in sorted(names):
        before, after = (
            normalised(_text_of(folder / f"{name}.txt")).splitlines()  # also by newer patterns
            for folder in (old, new)
        )
        diff = difflib.unified_diff(
            before, after, f"{old}/{name}.txt", f"{new}/{name}.txt", n=1, lineterm=""
        )
        yield name, list(diff)


def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def compare(old: Path, new: Path, only: str) -> int:
    """Print how two recordings differ; 1 if they do."""
    found = {name: diff for name, diff in differences(old, new) if re.search(only, name)}
    different = {name: diff for name, diff in found.items() if diff}
    for diff in different.values():
        print("\n".join(diff), end="\n\n")
    print(f"{len(found) - len(different)} cases equal, {len(different)} different")
    print("".join(f"  {name}\n" for name in different), end="")
    return int(bool(different) or not found)


def parse_arguments() -> argparse.Namespace:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(sys.argv[0], description=__doc__, formatter_class=layout)
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("make", help="make the runs that are asked")
    record = verbs.add_parser("record", help="record all answers in a folder")
    record.add_argument("out", type=Path, metavar="DIR")
    record.add_argument("--runs", type=Path, required=True, help="made by `make`, by any tree")
    record.add_argument("--jobs", type=int, default=1, help="cases at a time")
    check = verbs.add_parser("compare", help="show how two recordings differ")
    check.add_argument("old", type=Path)
    check.add_argument("new", type=Path)
    make.add_argument("runs", type=Path)
    for verb in (record, check):
        verb.add_argument("--only", default="", help="cases whose names match this expression")
    for verb in (make, record):
        slower = "start each command as users do: slower"
        verb.add_argument("--processes", action="store_true", help=slower)
    return parser.parse_args()


def main() -> int:
    """Make runs, record, or compare."""
    options = parse_arguments()
    if options.verb == "compare":
        return compare(options.old, options.new, options.only)
    wanted = {k: v for k, v in os.environ.items() if k not in UNWANTED} | ENVIRONMENT
    if dict(os.environ) != wanted:  # some are read when Python and its libraries start
        command = [sys.executable, "-m", "bench", "recorded_outputs", *sys.argv[1:]]
        os.execve(sys.executable, command, wanted)
    if not options.processes:
        preload()
    cases = read_cases()
    recorder = Recorder(cases, options.runs.resolve(), forked=not options.processes)
    if options.verb == "make":
        recorder.make_runs()
        return 0
    names = [name for name in (*cases.commands, *cases.servers) if re.search(options.only, name)]
    started = time.monotonic()
    failed = recorder.record(names, options.out.resolve(), options.jobs)
    print(f"{len(names) - failed} of {len(names)} cases in {time.monotonic() - started:.0f} s")
    return int(bool(failed))
