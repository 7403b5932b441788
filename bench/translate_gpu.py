"""Translating on a GPU: ids -> ids by beam search, beside Hugging Face at its best batch size.

    python -m bench translate_gpu --model RUN [--sentences N] [--budgets N ...]
        [--peer-batches N ...] [--precision NAME ...] [--seconds N] [--out FILE]

Both sides search for the same sentences with the same weights, whose logits are compared first (see
`prove_equal`), with the same beam, length penalty and stopping rule, in one precision. Each stage
runs in a process of its own and writes a line of JSON for each thing that it finds as soon as it is
found; where time runs out the last stages are left out. A short table comes last.

What is needed of a run is written into a folder first. Where that is all that can be carried to
the machine with the GPU, `--stages prepare --prepared FOLDER` makes it elsewhere.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from regard.errors import RunError

LEAST = 10.0
"""Seconds for which it is worth to begin a stage."""


def stages(precisions: Sequence[str]) -> list[str]:
    """What is done, in the order of what we want to know first."""
    first, *others = precisions
    found = ["prepare", f"regard {first}", f"Hugging Face {first}", f"profile {first}"]
    for precision in others:
        found += [f"regard {precision}", f"Hugging Face {precision}", f"profile {precision}"]
    return [*found, "parts"]


def run_stage(name: str, asked: argparse.Namespace) -> int:
    """Run a stage here; 1 if it fails."""
    with asked.out.open("a", encoding="utf-8") as out:

        def tell(fact: dict[str, Any]) -> None:
            line = json.dumps({"stage": name, **fact})
            print(line, file=out, flush=True)
            print(line, flush=True)

        try:
            work = import_module("bench.gpu_search")
            for fact in work.stage(name, work.Task.of(asked)):
                tell(fact)
        except Exception as error:
            tell({"failed": repr(error)[:500], "where": traceback.format_exc()[-1500:]})
            return 1
    return 0


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    where = Path(os.environ.get("OUT", "."))
    parser.add_argument("--model", type=Path, help="a run's folder, where nothing is prepared")
    parser.add_argument("--lines", type=Path, help="sentences (those that the run learned from)")
    parser.add_argument("--sentences", type=int, default=10_000, help="(%(default)s)")
    parser.add_argument("--beam", type=int, default=5, help="(%(default)s)")
    parser.add_argument(
        "--budgets",
        type=int,
        nargs="+",
        default=[65_536, 262_144, 1_048_576, 4_194_304],
        metavar="N",
    )
    parser.add_argument(
        "--peer-batches", type=int, nargs="+", default=[2048, 4096, 1024, 512, 256, 64], metavar="N"
    )
    parser.add_argument(
        "--precision", nargs="+", choices=("float32", "bfloat16"), default=["float32", "bfloat16"]
    )
    parser.add_argument("--without", nargs="+", default=[], metavar="KERNEL", help="such as glance")
    parser.add_argument("--rounds", type=int, default=3, help="of ours (%(default)s)")
    parser.add_argument("--device", default="cuda", help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=240, help="(%(default)s)")
    parser.add_argument("--out", type=Path, default=where / "translate_gpu.jsonl")
    parser.add_argument("--prepared", type=Path, help="a folder (beside the other file)")
    parser.add_argument("--stages", nargs="+", metavar="NAME", help="these alone (all)")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    return parser


def main() -> int:
    asked = options().parse_args()
    if asked.stage:
        return run_stage(asked.stage, asked)
    prepared = asked.prepared or asked.out.with_name("prepared")
    if asked.model is None and not (prepared / "task.json").is_file():
        raise RunError(f"{prepared}: nothing is prepared there; name a run with --model")
    if (
        asked.device.startswith("cuda")
        and asked.stages != ["prepare"]
        and not torch.cuda.is_available()
    ):
        print("error: torch finds no GPU here; --device cpu tries it all out", file=sys.stderr)
        return 1
    until, ended = time.monotonic() + asked.seconds, {}
    for name in asked.stages or stages(asked.precision):
        left = until - time.monotonic()
        if left < LEAST:
            ended[name] = "left out"
            continue
        began = time.monotonic()
        given = [*sys.argv[1:], "--out", str(asked.out), "--stage", name]
        command = [sys.executable, "-m", "bench.translate_gpu", *given]
        try:
            code = subprocess.run(command, timeout=left).returncode
            ended[name] = "ok" if code == 0 else f"failed ({code})"
        except subprocess.TimeoutExpired:
            ended[name] = "out of time"
        ended[name] += f", {time.monotonic() - began:.0f} s"
    print("\n" + "\n".join(f"{name}: {how}" for name, how in ended.items()))
    summarise(asked.out)
    return 0


def summarise(file: Path) -> None:
    """The table that comes last."""
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    facts = [json.loads(line) for line in lines]
    for fact in facts:
        if "failed" in fact:
            print("FAILED", json.dumps(fact)[:300])
    rated = [fact for fact in facts if "sentences_per_second" in fact]
    for fact in rated:
        rate, tokens = fact["sentences_per_second"], fact["tokens_per_second"]
        print(
            f"{fact['who']:<14}{fact['precision']:<10}{fact['how']:<32}{fact['sentences']:>7} "
            f"{rate:>10,.0f} sentences/s {tokens:>12,.0f} tokens/s"
        )
    for precision in dict.fromkeys(fact["precision"] for fact in rated):
        same = [fact for fact in rated if fact["precision"] == precision and fact["whole"]]
        ours = [fact["sentences_per_second"] for fact in same if fact["who"] == "regard"]
        theirs = [fact["sentences_per_second"] for fact in same if fact["who"] != "regard"]
        if ours and theirs:
            print(f"{precision}: {max(ours) / max(theirs):.2f} times Hugging Face at its best")
    for fact in facts:
        if "equal" in fact:
            print(f"{fact['precision']}: {fact['equal']} of {fact['compared']} answers are equal")


if __name__ == "__main__":
    sys.exit(main())
