"""Contenders in processes of their own, asked in turn."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.peers import PEERS, is_installed
from bench.peers.contract import PeerConfig
from regard.errors import SettingsError
from regard.recipes.process_memory import read_proc_kb

ROOT = Path(__file__).parents[1]
MIN_ROUNDS = 3
"""Fewer rounds show no spread."""
MEBI = 1 << 20

Answer = dict[str, Any]
ShowProgress = Callable[[str], None]


@dataclass(frozen=True)
class Contender:
    """A peer in one configuration, which is measured."""

    name: str
    peer: str
    """A file of `peers`."""
    setup: PeerConfig = field(default_factory=PeerConfig)

    @property
    def ours(self) -> bool:
        return self.peer == "regard"


@dataclass
class RoundResults:
    """What the rounds gave."""

    answers: dict[str, list[Answer]]
    """Of each contender that has not failed, by rounds."""
    dropped: dict[str, str]
    """Contenders that failed, and why."""


def choose(contenders: Sequence[Contender], asked: str) -> tuple[list[Contender], dict[str, str]]:
    """Those of the `asked` peers that can run here, and why the others cannot."""
    wanted = set(PEERS) if asked == "all" else {"regard", *asked.split(",")} - {"none"}
    if unknown := wanted - set(PEERS):
        raise SettingsError(
            f"--peers: no such peer: {', '.join(sorted(unknown))}; there are all, none, "
            f"{', '.join(PEERS)}"
        )
    chosen, left = [], {}
    for one in contenders:
        if one.peer in wanted and is_installed(one.peer):
            chosen.append(one)
        elif one.peer in wanted:
            left[one.name] = f"{PEERS[one.peer].package} is not installed"
    return chosen, left


def check_rounds(rounds: int) -> None:
    """An error if there are too few."""
    if rounds < MIN_ROUNDS:
        raise SettingsError(f"--rounds: {rounds} show no spread; ask for at least {MIN_ROUNDS}")


def environment(threads: int) -> dict[str, str]:
    """What processes are started in: ours is this checkout, and torch has so many threads."""
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
    }


class ContenderProcess:
    """A contender's process."""

    def __init__(self, contender: Contender, task: Mapping[str, Any]) -> None:
        self.contender = contender
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=environment(contender.setup.threads),
        )
        try:
            self.ask({"peer": contender.peer, "setup": asdict(contender.setup), **task})
        except BaseException:
            self.close()
            raise

    def ask(self, request: Mapping[str, Any]) -> Answer:
        """What the contender makes of a request; an error of its own is a RuntimeError here."""
        assert self._process.stdin is not None  # as asked for
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"its process ended with status {self._process.wait()}")
        answer: Answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer | {"peak_mb": process_tree_peak_memory(self._process.pid)}

    def close(self) -> None:
        """End the process by closing its standard input."""
        assert self._process.stdin is not None  # as asked for
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running_contenders(
    contenders: Sequence[Contender],
    task_of: Callable[[Contender], Mapping[str, Any]],
    show_progress: ShowProgress,
) -> Iterator[tuple[list[ContenderProcess], dict[str, str]]]:
    """All contenders ready to be asked, and why some are not."""
    with ExitStack() as stack:
        ready, dropped = [], {}
        for contender in contenders:
            show_progress(f"loading {contender.name}")
            try:
                running = ContenderProcess(contender, task_of(contender))
            except RuntimeError as error:
                dropped[contender.name] = str(error)
                continue
            stack.callback(running.close)
            ready.append(running)
        yield ready, dropped


def alternate_rounds(
    runners: Sequence[ContenderProcess],
    request: Mapping[str, Any],
    rounds: int,
    show_progress: ShowProgress,
) -> RoundResults:
    """The answers of each to the same request, asked in turn: A B C A B C ...

    The first round warms up and is not kept. A contender that fails is not asked again. After an
    interrupt the complete rounds are returned, if there are any.
    """
    check_rounds(rounds)
    results = RoundResults({one.contender.name: [] for one in runners}, {})
    try:
        for number in range(rounds + 1):
            _round(results, runners, request, number, show_progress)
    except KeyboardInterrupt:
        whole = min(map(len, results.answers.values()), default=0)
        if not whole:
            raise
        show_progress(f"interrupted after {whole} of {rounds} rounds")
        results.answers = {name: answers[:whole] for name, answers in results.answers.items()}
    return results


def _round(
    results: RoundResults,
    runners: Sequence[ContenderProcess],
    request: Mapping[str, Any],
    number: int,
    show_progress: ShowProgress,
) -> None:
    """Ask each once; round 0 is not kept."""
    for runner in runners:
        name = runner.contender.name
        if name in results.dropped:
            continue
        show_progress(f"round {number}: {name}" if number else f"warming up: {name}")
        try:
            answer = runner.ask(request)
        except RuntimeError as error:
            results.dropped[name] = str(error)
            del results.answers[name]
            continue
        if number:
            results.answers[name].append(answer)


def process_tree_peak_memory(pid: int) -> float:
    """The sum of the peak memory, in MiB, of a process and its descendants; 0: not known.

    Pages that they share are counted once for each.
    """
    total = (read_proc_kb(Path(f"/proc/{pid}/status"), "VmHWM") or 0) / MEBI
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            below = child.read_text(encoding="ascii").split()
        except OSError:
            continue
        total += sum(process_tree_peak_memory(int(one)) for one in below)
    return total
