"""Whether `regard bulk` loses or doubles a line while it is killed, and what Ray costs.

    python -m bench bulk MODEL [--lines N] [--rate-lines N] [--actors N] [--folder DIR]

Makes so many lines of the travel grammar, one in a hundred of them odd, and translates them,
greedily, by `regard translate`. Then `regard bulk` translates them while an actor is killed three
times, the process of the command twice with SIGKILL, and its disk is filled once; each time the
same command goes on. The outputs must be equal byte for byte. Before that, the first --rate-lines
are translated by both without disturbance, and lines a second and seconds of cores are compared.
Filling a disk needs root, to mount a small one; otherwise that is left out, and said. Ends with 1
if a line differs, or if Ray's rate is below 0.9 of the other.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bench.process_tree import MEBI, TreeUse, kill, processes_called
from regard.corpora.generated.travel.grammar import TravelGrammar

GOAL = 0.9
ODD_SHARE = 0.01
DISK_BYTES_PER_LINE = 600  # of the small disk: room for blocks and the merged file
DISK_BYTES = 64 * MEBI  # of the small disk, besides
ACTOR_TITLE = "MapWorker(MapBatches(_TranslationActor))"
POLL_SECONDS = 0.2
MAX_STARTS = 20
EVENTS = (
    (0.05, "actor"),
    (0.15, "driver"),
    (0.25, "actor"),
    (0.40, "disk"),
    (0.55, "driver"),
    (0.75, "actor"),
)
"""Which share of the blocks is finished, at the least, when what is killed or filled."""


class Measured(NamedTuple):
    """What a command used."""

    seconds: float
    core_seconds: float
    peak_mb: float
    root_peak_mb: float


def odd_line(chance: random.Random) -> bytes:
    """A line that a corpus should not have."""
    return chance.choice(
        [
            b"",
            b"   ",
            b"\xff\xfe not UTF-8",
            b"tab\tand \x00 control \x1b[0m",
            "日本語 العربية 👩‍👩‍👧‍👦 e\u0301".encode(),
            b"https://example.com/a?b=c {name} mail@example.com",
            b"mot " * chance.randrange(50, 400),
            b"x" * chance.randrange(100, 2000),
            b"Elle part.\r",
            "\u2028\u2029\x85 Paul".encode(),
        ]
    )


def make_lines(path: Path, number: int) -> None:
    """Sentences of the travel grammar, and odd lines among them."""
    chance = random.Random(1)
    grammar = TravelGrammar(random.Random(2))
    with path.open("wb") as file:
        for _ in range(number):
            odd = chance.random() < ODD_SHARE
            line = odd_line(chance) if odd else grammar.sentence().pair.source.encode()
            file.write(line + b"\n")


def translate_command(model: str, source: Path) -> list[str]:
    return [*regard("translate"), model, str(source), "--beam", "1", "--device", "cpu"]


def bulk_command(model: str, source: Path, out: Path, actors: int) -> list[str]:
    where = ["--out", str(out), "--actors", str(actors)]
    return [*regard("bulk"), model, str(source), "--beam", "1", "--device", "cpu", *where]


def regard(name: str) -> list[str]:
    return [sys.executable, "-m", "regard", name]


def measure(command: list[str], output: Path) -> Measured:
    """Run a command to its end."""
    began = time.perf_counter()
    # Ray starts a dozen Python processes: without compiled modules each would compile its own.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with (
        output.open("wb") as file,
        subprocess.Popen(
            command, stdout=file, stderr=subprocess.DEVNULL, env=environment
        ) as process,
        TreeUse.watch(process.pid) as use,
    ):
        code = process.wait()
    if code:
        raise SystemExit(f"ended with {code}: {' '.join(command)}")
    return Measured(time.perf_counter() - began, use.core_seconds, use.peak_mb, use.root_peak_mb)


def finished_blocks(out: Path) -> int:
    """Blocks that are committed, and not merged yet."""
    folder = out / ".blocks" / "0"
    return sum(1 for _ in folder.glob("*.json")) if folder.is_dir() else 0


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path | None]:
    """A disk of so many bytes; None: it cannot be mounted."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


class Disturbance:
    """Runs a command again and again until it ends well, and disturbs it as `EVENTS` say."""

    def __init__(self, command: list[str], out: Path, blocks: int, *, disk: Path | None) -> None:
        self._command, self._out, self._blocks, self._disk = command, out, blocks, disk
        self.starts = 0
        self.peak_mb = self.root_peak_mb = 0.0

    def run(self) -> None:
        events = [event for event in EVENTS if event[1] != "disk" or self._disk]
        while True:
            self.starts += 1
            with (
                subprocess.Popen(self._command, stdout=subprocess.DEVNULL) as process,
                TreeUse.watch(process.pid) as use,
            ):
                while process.poll() is None:
                    is_due = events and finished_blocks(self._out) >= events[0][0] * self._blocks
                    if is_due and self._disturb(process, events[0][1]):
                        events.pop(0)
                    time.sleep(POLL_SECONDS)
            self.peak_mb = max(self.peak_mb, use.peak_mb)
            self.root_peak_mb = max(self.root_peak_mb, use.root_peak_mb)
            say(f"start {self.starts} ended with {process.returncode}")
            if self.starts > MAX_STARTS:
                raise SystemExit("it does not come to its end")
            if process.returncode == 0:
                if events:
                    raise SystemExit(f"it ended before {events}: give it more lines")
                return

    def _disturb(self, process: subprocess.Popen[bytes], what: str) -> bool:
        """Kill or fill; False: there is no actor yet."""
        actors = processes_called(process.pid, ACTOR_TITLE)
        if what == "actor" and not actors:
            return False
        say(f"{finished_blocks(self._out)} of {self._blocks} blocks: {what}")
        if what == "driver":
            process.send_signal(signal.SIGKILL)
        elif what == "actor":
            kill(random.choice(actors))
        else:
            self._fill_disk(process)
        return True

    def _fill_disk(self, process: subprocess.Popen[bytes]) -> None:
        """Fill the disk until the command ends, which it must with an error; then make room."""
        assert self._disk is not None
        filler = self._disk / "filler"
        with filler.open("wb", buffering=0) as file:  # closing it has nothing left to write
            try:
                while True:
                    file.write(bytes(MEBI))
            except OSError:
                pass
        code = process.wait()
        filler.unlink()
        if code != 1:
            raise SystemExit(f"on a full disk it ended with {code}, not with an error")


def say(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {message}", flush=True)


def compare_rates(asked: argparse.Namespace, folder: Path, source: Path) -> float:
    """Lines a second of `regard bulk`, as a share of those of `regard translate`, undisturbed."""
    part = folder / "part.txt"
    with source.open("rb") as lines, part.open("wb") as file:
        file.writelines(islice(lines, asked.rate_lines))
    out, plain = folder / "part.out", folder / "part.plain"
    shutil.rmtree(out, ignore_errors=True)
    alone = measure(translate_command(asked.model, part), plain)
    show("regard translate", asked.rate_lines, alone)
    on_ray = measure(bulk_command(asked.model, part, out, asked.actors), folder / "part.log")
    show("regard bulk", asked.rate_lines, on_ray)
    check_equal(plain, out / part.name)
    shares = alone.seconds / on_ray.seconds, alone.core_seconds / on_ray.core_seconds
    say(
        f"bulk has {shares[0]:.2f} of the rate, and needs {1 / shares[1]:.2f} times the cores' time"
    )
    return shares[0]


def show(name: str, lines: int, used: Measured) -> None:
    say(
        f"{name}: {lines:,} lines, {used.seconds:,.1f} s, {lines / used.seconds:,.0f} lines/s, "
        f"{used.core_seconds:,.1f} s of cores, at most {used.peak_mb:,.0f} MB, of which its own "
        f"process {used.root_peak_mb:,.0f} MB"
    )


def check_equal(expected: Path, found: Path) -> None:
    """An error that names the first line that differs."""
    with expected.open("rb") as left, found.open("rb") as right:
        for number, pair in enumerate(zip(left, right, strict=True), 1):
            if pair[0] != pair[1]:
                raise SystemExit(f"line {number} differs: {pair[0]!r} and {pair[1]!r}")
    say(f"equal, line for line: {number:,} lines")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", help="a run's folder")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--rate-lines", type=int, default=100_000, help="0: rates are left out")
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where to work; otherwise a temporary one")
    asked = parser.parse_args()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="bulk-"))
    folder.mkdir(parents=True, exist_ok=True)
    source, plain = folder / "lines.txt", folder / "plain.txt"
    make_lines(source, max(asked.lines, asked.rate_lines))
    share = compare_rates(asked, folder, source) if asked.rate_lines else 1.0
    if asked.lines:
        disturb(asked, folder, source, plain)
    return 0 if share >= GOAL else 1


def disturb(asked: argparse.Namespace, folder: Path, source: Path, plain: Path) -> None:
    """Translate all lines undisturbed by one command and disturbed by the other; compare."""
    show("regard translate", asked.lines, measure(translate_command(asked.model, source), plain))
    size = DISK_BYTES + DISK_BYTES_PER_LINE * asked.lines
    with small_disk(folder / "disk", size) as disk:
        if disk is None:
            say("no small disk can be mounted here: a full one is left out")
        out = (disk or folder) / "out"
        blocks = -(-asked.lines // 2048)
        command = bulk_command(asked.model, source, out, asked.actors)
        began = time.perf_counter()
        disturbed = Disturbance(command, out, blocks, disk=disk)
        disturbed.run()
        say(
            f"regard bulk, disturbed: {time.perf_counter() - began:,.0f} s, {disturbed.starts} "
            f"starts, at most {disturbed.peak_mb:,.0f} MB, of which its own process "
            f"{disturbed.root_peak_mb:,.0f} MB"
        )
        check_equal(plain, out / source.name)
