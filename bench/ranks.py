"""Training on several devices: two processes of one thread against one of two, on a CPU; on a GPU
one process of torchrun against one that trains alone, and one that sums its gradients with itself
under NCCL, inside captured steps, as each of several does.

Both sides do the same work: a step of the one that is alone accumulates as many batches. Rounds
alternate, so that what else the machine does slows both down, and speeds are compared at the same
steps, those of the second half, when graphs are captured. What `regard doctor --devices` plans for
two ranks, from steps of one thread and the bandwidth that is measured here, is held against them.
With --kill, processes of a training on two ranks, and the one that started them, are killed at
random, behind a checkpoint and then twice while the run is resumed, and the weights in the end are
compared with those of a run that was left alone.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench.report import console
from bench.statistics import ratio, summarise
from regard.tasks.translation.trial.device_plan import exchange_seconds
from regard.training.checkpoints import list_checkpoints
from regard.training.metric_log import read_metrics

STEPS = 60
LOG_EVERY = {"cpu": 5, "cuda": 50}  # steps; a GPU computes while the host waits for no log line
PAYLOAD = 1 << 22  # numbers that are exchanged to measure a bandwidth
EXCHANGES = 20
KILLED_STEPS, SAVE_EVERY = 120, 4
RESUME_SECONDS = 4.0  # within which a run that is resumed is killed again
BANDWIDTH = """
import os, time, torch, torch.distributed as dist
device = torch.device({device!r})
dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
x = torch.ones({payload}, device=device)
dist.all_reduce(x)
dist.barrier()
began = time.perf_counter()
for _ in range({times}):
    dist.all_reduce(x)
float(x[0])
if dist.get_rank() == 0:
    print((time.perf_counter() - began) / {times})
dist.destroy_process_group()
"""
EVEN_ONE = """
from functools import partial
from regard.__main__ import run
from regard.cli.commands import train
train.joined_ranks = partial(train.joined_ranks, even_one=True)
run()
"""
"""`python -m regard`, where a single rank exchanges with itself, as several do."""

Speeds = dict[int, float]
"""Tokens a second by the step at which they were logged."""


class Exchange(NamedTuple):
    """What it takes to sum numbers over ranks."""

    size: int  # bytes
    seconds: float
    bandwidth: float  # GB/s


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--recipe", default="travel")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--kill", type=int, metavar="N", help="kill processes so often instead")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def torchrun(count: int) -> list[str]:
    """The beginning of a command that runs in so many processes."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*run, "--nproc-per-node", str(count)]


def train(
    asked: argparse.Namespace, folder: Path, start: list[str], threads: int, *settings: str
) -> Speeds:
    """The speeds of a training that `start` starts, and of all its processes together."""
    few = (f"training.steps={asked.steps}", f"training.log_every={LOG_EVERY[asked.device]}")
    never = (f"training.validation.every={asked.steps}", f"training.save_every={asked.steps}")
    command = [*start, "train", asked.recipe, "--device", asked.device, "--out", str(folder)]
    for one in (*few, *never, *settings):
        command += ["--set", one]
    subprocess.run(command, env=one_of(threads), check=True, capture_output=True)
    lines = [one for one in read_metrics(folder / "metrics.jsonl") if one["kind"] == "train"]
    return {
        int(one["step"]): float(one["tokens_per_second"])
        for one in lines
        if asked.steps // 2 < one["step"] < asked.steps  # the last one is followed by validation
    }


def one_of(threads: int) -> dict[str, str]:
    """The environment of a process of so many threads."""
    return os.environ | {"OMP_NUM_THREADS": str(threads)}


def compare(asked: argparse.Namespace) -> None:
    """Alternate the two sides, and print the speeds and their ratio."""
    on_gpu = asked.device == "cuda"
    ranks, threads = (1, os.cpu_count() or 1) if on_gpu else (2, 1)
    alone: list[float] = []
    together: list[float] = []
    single: list[float] = []
    regard, many = [sys.executable, "-m", "regard"], f"training.accumulate={ranks}"
    with tempfile.TemporaryDirectory() as temporary:
        script = Path(temporary) / "even_one.py"
        script.write_text(EVEN_ONE)
        for number in range(asked.rounds):
            folder = Path(temporary) / f"{number}"
            one = train(asked, folder / "one", regard, threads * ranks, many)
            both = train(asked, folder / "ranks", [*torchrun(ranks), str(script)], threads)
            alone += one.values()
            together += both.values()
            middles = summarise(list(one.values())).median, summarise(list(both.values())).median
            console.print(f"alone {middles[0]:,.0f} tokens/s, {ranks} ranks {middles[1]:,.0f}")
            start = [*torchrun(1), "-m", "regard"] if on_gpu else regard
            single += train(asked, folder / "single", start, threads).values()
        exchange = measure_exchange(asked, ranks, Path(temporary))
    found = ratio(together, alone)
    console.print(
        f"{ranks} ranks of {threads} threads train {found.median:.3f} times as fast together as "
        f"one process of {threads * ranks} (the median of {len(alone)} stretches of "
        f"{LOG_EVERY[asked.device]} "
        f"steps in {asked.rounds} alternating rounds)"
    )
    if on_gpu:
        console.print(
            f"the rank above exchanges with itself; one that torchrun starts, which does not, "
            f"trains {ratio(single, alone).median:.3f} times as fast"
        )
    else:
        compare_plan(asked, ratio(together, single).median, ranks, exchange)


def measure_exchange(asked: argparse.Namespace, ranks: int, folder: Path) -> Exchange:
    """Sum numbers over ranks some times."""
    script = folder / "bandwidth.py"
    script.write_text(BANDWIDTH.format(device=asked.device, payload=PAYLOAD, times=EXCHANGES))
    command = [*torchrun(ranks), str(script)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=one_of(1))
    size, seconds = 4 * PAYLOAD, float(said.stdout.split()[-1])
    moved = 2 * (ranks - 1) / ranks * size if ranks > 1 else size
    bandwidth = moved / seconds / 1e9
    console.print(f"{size / 1e6:.0f} MB are summed in {1e3 * seconds:.2f} ms: {bandwidth:.2f} GB/s")
    return Exchange(size, seconds, bandwidth)


def compare_plan(
    asked: argparse.Namespace, measured: float, ranks: int, exchange: Exchange
) -> None:
    """Print what `regard doctor --devices` plans beside what was measured."""
    alike = exchange_seconds(exchange.size, ranks, exchange.bandwidth)
    command = [sys.executable, "-m", "regard", "doctor", asked.recipe, "--device", asked.device]
    command += ["--devices", str(ranks), "--bandwidth", f"{exchange.bandwidth:.3f}", "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=one_of(1))
    one, *_, several = json.loads(said.stdout)["devices"]["rows"]
    planned = several["tokens_per_second"] / one["tokens_per_second"]
    console.print(
        f"`regard doctor --devices {ranks}` says {1e3 * alike:.2f} ms for that, and that {ranks} "
        f"ranks train {planned:.3f} times as fast as one: {1e3 * several['exchange_seconds']:.1f} "
        f"ms of {1e3 * several['step_seconds']:.1f} are exchange; measured: {measured:.3f} times"
    )


def kill_often(asked: argparse.Namespace) -> int:
    """Kill ranks and the launcher of a training; whether it ends as if it had been left alone."""
    chance = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as temporary:
        whole, broken = Path(temporary) / "whole", Path(temporary) / "broken"
        command = [sys.executable, "-m", "regard", "train", asked.recipe, "--device", "cpu"]
        command += ["--devices", "2", "--set", f"training.steps={KILLED_STEPS}"]
        for name in ("training.save_every", "training.log_every"):
            command += ["--set", f"{name}={SAVE_EVERY}"]
        command += ["--set", f"training.validation.every={KILLED_STEPS // 3}"]
        subprocess.run([*command, "--out", str(whole)], check=True, capture_output=True)
        kills = 0
        while True:
            again = ["--resume"] if (broken / "recipe.yaml").exists() else []
            process = subprocess.Popen(
                [*command, *again, "--out", str(broken), "--max-restarts", "2"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            while kills < asked.kill and (what := kill_one(process, broken, kills % 3, chance)):
                kills += 1
                newest = list_checkpoints(broken / "checkpoints")[0].name.split("-")[1]
                console.print(f"kill {kills}: {what}, behind step {int(newest)}")
            if process.wait() == 0:
                break
            time.sleep(1.5)  # orphans notice, save and leave
        names = ("model", "weights/last", "weights/best", "weights/average")
        files = [f"{name}.safetensors" for name in names]
        same = all((whole / one).read_bytes() == (broken / one).read_bytes() for one in files)
    found = "the same, byte for byte" if same else "others"
    console.print(f"{kills} kills; the weights are {found}")
    return 0 if same else 1


def kill_one(
    process: "subprocess.Popen[bytes]", folder: Path, again: int, chance: random.Random
) -> str | None:
    """Kill a rank or the launcher, behind a new checkpoint or `again` in the resume that follows:
    which one; None if the launcher ends before.
    """
    if not again and not wait_for_checkpoint(process, folder):
        return None
    time.sleep(chance.uniform(0, RESUME_SECONDS if again else 0.5))
    while process.poll() is None:
        ranks = child_processes(process.pid)
        victim = chance.choice([*ranks, *ranks, process.pid])
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            what = "the launcher" if victim == process.pid else "a rank"
            return what + (" of a resumed run" if again else "")
    return None


def child_processes(number: int) -> list[int]:
    """The processes that a process has started, on Linux."""
    return [int(one) for one in Path(f"/proc/{number}/task/{number}/children").read_text().split()]


def wait_for_checkpoint(process: "subprocess.Popen[bytes]", folder: Path) -> bool:
    """Wait for a new checkpoint; False if the process ends before."""
    before = {path.name for path in list_checkpoints(folder / "checkpoints")}
    while process.poll() is None:
        if {path.name for path in list_checkpoints(folder / "checkpoints")} - before:
            return True
        time.sleep(0.01)
    return False


def main() -> int:
    asked = parse()
    if asked.kill:
        return kill_often(asked)
    compare(asked)
    return 0
