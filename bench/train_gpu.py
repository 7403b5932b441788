"""Training on a GPU, part by part: are the kernels right, which tiles, and what does a step take.

Each stage adds what it finds to a file, and a short table comes last; where time runs out the last
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
from bench.stages import Records, add_options, read_records, run_stage, run_stages

OURS, PEER = "regard, captured", "Hugging Face Marian, compiled"
STEPS = (
    OURS,
    PEER,
    "regard, kernels",
    "Hugging Face Marian",
    "regard, captured, all but linear",
    "regard, captured, all but bend",
    "regard, no kernels",
    "regard, no kernels, all compiled",
    "regard, kernels, all compiled",
    "regard, kernels, model compiled",
)
"""Whose whole steps are timed, in the order of what we want to know first."""
STAGES = (
    "check",
    "tune",
    *(f"step: {name}" for name in STEPS[:2]),
    "captured",
    "profile",
    "families",
    "ceilings",
    "norm",
    "loss",
    "bend",
    "sums",
    "attention",
    *(f"step: {name}" for name in STEPS[2:]),
)
"""The right ones first, then what we are asked for, then why it is so."""


def stage(name: str, plan: Path) -> Records:
    """What a stage finds; a kernel can be tried where what a model needs is not installed."""
    parts = import_module("bench.gpu_parts")
    parts.use_plan(plan)
    own: dict[str, Callable[[], Records]] = {
        "ceilings": parts.ceilings,
        "check": parts.check,
        "tune": partial(parts.tune, plan),
        "attention": parts.time_attention,
        "norm": parts.time_norm,
        "loss": parts.time_loss,
        "bend": parts.time_bend,
        "sums": parts.time_sums,
    }
    if name in own:
        return own[name]()
    steps = import_module("bench.gpu_steps")
    whole: dict[str, Callable[[], Records]] = {
        "captured": steps.captured,
        "profile": steps.profile,
        "families": steps.families,
    }
    return whole[name]() if name in whole else steps.step(name.removeprefix("step: "))


def main() -> int:
    names = f"The stages: {'; '.join(STAGES)}."
    parser = argparse.ArgumentParser(description=__doc__, epilog=names)
    add_options(parser, "train_gpu.jsonl", seconds=540)
    parser.add_argument(
        "--stages", nargs="+", choices=STAGES, metavar="NAME", help="these alone (all)"
    )
    asked = parser.parse_args()
    plan = asked.out.with_name("tiles.json")
    if asked.stage:
        return run_stage(asked.stage, partial(stage, asked.stage, plan), asked.out)
    if not torch.cuda.is_available():
        print("error: this measures a GPU, and torch finds none here", file=sys.stderr)
        return 1
    here = [sys.executable, "-m", "bench.train_gpu", "--out", str(asked.out), "--stage"]
    ended = run_stages(asked.stages or STAGES, lambda name: [*here, name], asked.seconds)
    summarise(asked.out, ended)
    return 0


def summarise(file: Path, ended: dict[str, str]) -> None:
    """The table that comes last."""
    facts = read_records(file)
    print("\n" + "\n".join(f"{name}: {how}" for name, how in ended.items()))
    wrong = [fact for fact in facts if not fact.get("ok", True) or "failed" in fact]
    print(f"\nwrong or failed: {len(wrong)}")
    for fact in wrong[:10]:
        print(json.dumps(fact)[:300])
    rates = {}
    for fact in facts:
        if "tokens_per_second" in fact:
            rate, spent = fact["tokens_per_second"], fact["ms_a_step"]
            more = f"host {fact['host_ms_a_step']:.2f} ms, {fact['tflops']:.0f} TFLOP/s"
            print(f"{fact['who']:<40} {rate:>10,.0f} tokens/s {spent:8.2f} ms a step ({more})")
            rates[fact["who"]] = rate
    compare(rates)


def compare(rates: dict[str, float]) -> None:
    """What was asked for: how we stand beside the peer, and the time of the paper's training."""
    if OURS not in rates:
        return
    if PEER in rates:
        print(f"\n{OURS}: {rates[OURS] / rates[PEER]:.2f} times {PEER}")
    hours = hours_at(rates[OURS])
    print(f"the paper's {PAPERS_STEPS:,} steps: {hours:.2f} hours, {HOURS} on its eight P100s")


if __name__ == "__main__":
    sys.exit(main())
