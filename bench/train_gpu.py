"""Training on a GPU: our step beside those of peers, and what each kernel contributes to it.

Each stage adds its records to a file, and a short table comes last; where time runs out the last
stages are left out.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

import torch

from bench.paper import HOURS, hours_at
from bench.paper import STEPS as PAPERS_STEPS
from bench.stages import Records, add_options, print_ablation, read_records, run_stage, run_stages

OURS = "regard, captured"
PEERS = ("packed flash attention, compiled", "Hugging Face Marian, compiled")
STEPS = (
    OURS,
    *PEERS,
    "regard, eager",
    "regard, compiled",
    "packed flash attention",
    "Hugging Face Marian",
)
"""Contenders whose steps are timed, the most important first."""
STAGES = (
    *(f"step: {name}" for name in STEPS[:3]),
    "ablation",
    "small",
    "ceilings",
    "attention",
    *(f"step: {name}" for name in STEPS[3:]),
)


def stage(name: str) -> Records:
    """The records of a stage."""
    if name in ("ceilings", "attention"):
        run: Callable[[], Records] = getattr(import_module("bench.gpu_parts"), name)
        return run()
    steps = import_module("bench.gpu_steps")
    if name.startswith("step: "):
        records: Records = steps.step(name.removeprefix("step: "))
        return records
    run = getattr(steps, name)
    return run()


def main() -> int:
    names = f"The stages: {'; '.join(STAGES)}."
    parser = argparse.ArgumentParser(description=__doc__, epilog=names)
    add_options(parser, "train_gpu.jsonl", seconds=540)
    parser.add_argument(
        "--stages", nargs="+", choices=STAGES, metavar="NAME", help="these alone (all)"
    )
    asked = parser.parse_args()
    if asked.stage:
        return run_stage(asked.stage, partial(stage, asked.stage), asked.out)
    if not torch.cuda.is_available():
        print("error: this measures a GPU, and torch finds none here", file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "bench.train_gpu", "--out", str(asked.out), "--stage"]
    ended = run_stages(asked.stages or STAGES, lambda name: [*command, name], asked.seconds)
    summarise(asked.out, ended)
    return 0


def summarise(file: Path, ended: dict[str, str]) -> None:
    """Print the table that comes last."""
    records = read_records(file)
    print("\n" + "\n".join(f"{name}: {how}" for name, how in ended.items()))
    wrong = [record for record in records if not record.get("ok", True) or "failed" in record]
    print(f"\nwrong or failed: {len(wrong)}")
    for record in wrong[:10]:
        print(json.dumps(record)[:300])
    rates = {}
    for record in records:
        if "tokens_per_second" in record:
            rate, spent = record["tokens_per_second"], record["ms_a_step"]
            more = f"host {record['host_ms_a_step']:.2f} ms, {record['tflops']:.0f} TFLOP/s"
            print(f"{record['who']:<40} {rate:>10,.0f} tokens/s {spent:8.2f} ms a step ({more})")
            rates[record["who"]] = rate
    compare(rates)
    print_ablation(records, f"{OURS}, target tokens/s")


def compare(rates: dict[str, float]) -> None:
    """Print how we compare with the peers, and the time of the paper's training."""
    if OURS not in rates:
        return
    for peer in filter(rates.get, PEERS):
        print(f"{OURS}: {rates[OURS] / rates[peer]:.2f} times {peer}")
    hours = hours_at(rates[OURS])
    print(f"the paper's {PAPERS_STEPS:,} steps: {hours:.2f} hours, {HOURS} on its eight P100s")


if __name__ == "__main__":
    sys.exit(main())
