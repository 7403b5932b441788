"""Training on several devices: two processes of one thread against one of two, on a CPU; one
process under NCCL, captured, against one that trains alone, on a GPU.

Both sides do the same work: a step of the one that is alone accumulates as many batches. Rounds
alternate, so that what else the machine does slows both down. With --kill, processes of a training
on two ranks, and the one that started them, are killed at random, and the weights in the end are
compared with those of a run that was left alone.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.report import console
from bench.statistics import ratio
from regard.recipes.trial.device_plan import exchange_seconds
from regard.training.checkpoints import list_checkpoints
from regard.training.metric_log import read_metrics

STEPS, LOG_EVERY, SKIPPED = 60, 10, 2  # log lines of the first steps are not counted
PAYLOAD = 1 << 22  # numbers that are exchanged to measure a bandwidth
EXCHANGES = 20
KILLED_STEPS, SAVE_EVERY = 120, 4
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
) -> float:
    """The tokens a second of a training that `start` starts, and of all its processes together."""
    few = (f"training.steps={asked.steps}", f"training.log_every={LOG_EVERY}")
    never = (f"training.validation.every={asked.steps}", f"training.save_every={asked.steps}")
    command = [*start, "-m", "regard", "train", asked.recipe, "--device", asked.device]
    command += ["--out", str(folder)]
    for one in (*few, *never, *settings):
        command += ["--set", one]
    around = os.environ | {"OMP_NUM_THREADS": str(threads)}
    subprocess.run(command, env=around, check=True, capture_output=True)
    lines = [one for one in read_metrics(folder / "metrics.jsonl") if one["kind"] == "train"]
    return statistics.median(float(one["tokens_per_second"]) for one in lines[SKIPPED:])


def compare(asked: argparse.Namespace) -> None:
    """Alternate the two sides, and print the speeds and their ratio."""
    on_gpu = asked.device == "cuda"
    ranks, threads = (1, os.cpu_count() or 1) if on_gpu else (2, 1)
    alone: list[float] = []
    together: list[float] = []
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(asked.rounds):
            folder = Path(temporary) / f"{number}"
            many = f"training.accumulate={ranks}"
            alone.append(train(asked, folder / "one", [sys.executable], threads * ranks, many))
            start = torchrun(ranks)
            together.append(train(asked, folder / "ranks", start, threads))
            console.print(f"alone {alone[-1]:,.0f} tokens/s, {ranks} ranks {together[-1]:,.0f}")
        script = Path(temporary) / "bandwidth.py"
        text = BANDWIDTH.format(device=asked.device, payload=PAYLOAD, times=EXCHANGES)
        script.write_text(text)
        said = subprocess.run(
            [*torchrun(ranks), str(script)], check=True, capture_output=True, text=True
        )
    found, seconds = ratio(together, alone), float(said.stdout.split()[-1])
    console.print(
        f"{ranks} ranks of {threads} threads train {found.median:.3f} times as fast together as "
        f"one process of {threads * ranks} ({found.low:.3f} to {found.high:.3f} in {asked.rounds} "
        "alternating rounds)"
    )
    size = 4 * PAYLOAD
    moved = 2 * (ranks - 1) / ranks * size if ranks > 1 else size
    bandwidth = moved / seconds / 1e9
    console.print(f"{size / 1e6:.0f} MB are summed in {1e3 * seconds:.2f} ms: {bandwidth:.2f} GB/s")
    if ranks > 1:
        planned = exchange_seconds(size, ranks, bandwidth)
        console.print(f"the plan of `regard doctor --devices` says {1e3 * planned:.2f} ms for that")


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
            while kills < asked.kill and wait_for_checkpoint(process, broken):
                time.sleep(chance.uniform(0, 0.5))
                ranks = child_processes(process.pid)
                victim = chance.choice([*ranks, *ranks, process.pid])
                try:
                    os.kill(victim, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                kills += 1
                what = "the launcher" if victim == process.pid else "a rank"
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
