"""Translating on a GPU: ids -> ids by beam search, beside Hugging Face at its best batch size.

Both sides search for the same sentences with the same weights, whose logits are compared first,
with the same beam, length penalty and stopping rule, in one precision. Then few of them at a time,
as a server gets them. It runs in stages, each a process; a short table comes last.

What is needed of a run is written into a folder first. Where that is all that can be carried to
the machine with the GPU, `--stages prepare --prepared FOLDER` makes it elsewhere.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import torch

from bench.stages import Records, add_options, print_ablation, read_records, run_stage, run_stages
from regard.errors import RunError


def stages(precisions: Sequence[str]) -> list[str]:
    """What is done, in the order of what we want to know first."""
    first, *others = precisions
    found = ["prepare", f"regard {first}", f"Hugging Face {first}", f"ablation {first}"]
    found.append(f"small {first}")
    for precision in others:
        found += [f"regard {precision}", f"Hugging Face {precision}"]
    return found


def find(name: str, asked: argparse.Namespace) -> Records:
    """What a stage finds."""
    task = import_module("bench.gpu_search").StageConfig.of(asked)
    module = "bench.gpu_small" if name.startswith("small") else "bench.gpu_search"
    found: Records = import_module(module).stage(name, task)
    return found


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
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
        help="positions of our batches, of which the fastest counts (%(default)s)",
    )
    parser.add_argument(
        "--peer-batches",
        type=int,
        nargs="+",
        default=[2048, 4096, 1024, 512, 256, 64],
        metavar="N",
        help="sentences of the peer's batches, of which the fastest counts (%(default)s)",
    )
    parser.add_argument(
        "--small", type=int, nargs="+", default=[1, 8, 32, 128, 512], metavar="N",
        help="sentences of the small batches (%(default)s)"
    )  # fmt: skip
    parser.add_argument(
        "--precision", nargs="+", choices=("float32", "bfloat16"), default=["float32", "bfloat16"]
    )
    parser.add_argument(
        "--products",
        choices=("high", "highest"),
        default="high",
        help="of float32, on both sides: high is TF32, which regard has on GPUs (%(default)s)",
    )
    parser.add_argument("--without", nargs="+", default=[], metavar="KERNEL", help="to disable")
    parser.add_argument("--rounds", type=int, default=3, help="of ours (%(default)s)")
    parser.add_argument("--device", default="cuda", help="(%(default)s)")
    add_options(parser, "translate_gpu.jsonl", seconds=240)
    parser.add_argument("--prepared", type=Path, help="a folder (beside the other file)")
    parser.add_argument("--stages", nargs="+", metavar="NAME", help="these alone (all)")
    return parser


def main() -> int:
    asked = options().parse_args()
    if asked.stage:
        return run_stage(asked.stage, partial(find, asked.stage, asked), asked.out)
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
    here = [sys.executable, "-m", "bench.translate_gpu", *sys.argv[1:], "--out", str(asked.out)]
    names = asked.stages or stages(asked.precision)
    ended = run_stages(names, lambda name: [*here, "--stage", name], asked.seconds)
    print("\n" + "\n".join(f"{name}: {how}" for name, how in ended.items()))
    summarise(asked.out)
    return 0


def summarise(file: Path) -> None:
    """The table that comes last."""
    facts = read_records(file)
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
        ours = best_rate([fact for fact in same if fact["who"] == "regard"])
        theirs = best_rate([fact for fact in same if fact["who"] != "regard"])
        if ours and theirs:
            print(f"{precision}: {ours / theirs:.2f} times Hugging Face at its best")
    for fact in facts:
        if "small" in fact:
            print(small_line(fact))
    for fact in facts:
        if "equal" in fact:
            print(f"{fact['precision']}: {fact['equal']} of {fact['compared']} answers are equal")
    print_ablation(facts, "regard, sentences/s")


def small_line(fact: dict[str, Any]) -> str:
    """What a stage of small batches found, in a line."""
    size = f"{fact['precision']:<10}{fact['small']:>4} at a time  "
    if "who" in fact:
        least, most = fact["ms_least"], fact["ms_most"]
        same = f"{fact['same_as_first']} of {fact['compared']} the same"
        return f"{size}{fact['who']:<18}{fact['ms']:>9.1f} ms ({least:.1f} ... {most:.1f}), {same}"
    return (
        f"{size}{fact['graphs']} steps recorded in {fact['recording_s']:.2f} s, "
        f"{fact['held_mb']:.0f} MB held, {fact['device_mb']:.0f} MB of the device"
        + (f"; not recorded: {fact['not_recorded']}" if fact["not_recorded"] else "")
    )


def best_rate(facts: list[dict[str, Any]]) -> float:
    """Sentences a second in the best of several ways, the median of its rounds; 0: there is none.

    The first round finds memory that has yet to be asked for.
    """
    rounds: dict[str, list[float]] = defaultdict(list)
    for fact in facts:
        rounds[fact["how"]].append(fact["sentences_per_second"])
    return max(map(median, rounds.values()), default=0.0)


if __name__ == "__main__":
    sys.exit(main())
