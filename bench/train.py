"""Target tokens a second of training, beside the peers, on the same batches.

On a CPU a small Transformer (4 + 4 layers, width 256) on Multi30k; on a GPU the base model with
made-up sentences of WMT's lengths in batches of 25,000 tokens a side.
"""

import argparse
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.batches import multi30k_batches, save_batches
from bench.contenders import Contender, alternate_rounds, choose, running_contenders
from bench.machine_state import measure_machine_state
from bench.paper import BASE, HOURS, TOKENS, hours_at
from bench.peers.contract import Clock, ModelShape, PeerConfig, Precision
from bench.report import Table, begin, console, options, rows_of, save, show, show_progress
from bench.statistics import summarise
from bench.synthetic_batches import synthetic_batches
from regard.types import AnyBatch

SMALL = ModelShape()


def contenders(device: str, threads: int, clock: Clock = "wall") -> list[Contender]:
    """Everybody who can train, each in the precisions that it has."""

    def one(name: str, peer: str, precision: Precision, *, compiled: bool = False) -> Contender:
        setup = PeerConfig(precision, threads, device=device, compiled=compiled, clock=clock)
        return Contender(name, peer, setup)

    half: Precision = "bfloat16"
    if device == "cpu":
        return [
            one("regard bfloat16", "regard", half),
            one("regard float32", "regard", "float32"),
            one("Hugging Face Marian bfloat16", "hugging_face", half),
            one("Hugging Face Marian float32", "hugging_face", "float32"),
            one("JoeyNMT float32", "joey", "float32"),
            one("torch.nn.Transformer float32", "torch_transformer", "float32"),
        ]
    return [
        one("regard bfloat16", "regard", half),
        one("regard bfloat16 compiled", "regard", half, compiled=True),
        one("Hugging Face Marian bfloat16 compiled", "hugging_face", half, compiled=True),
        one("Hugging Face Marian bfloat16", "hugging_face", half),
        one("JoeyNMT bfloat16", "joey", half),
        one("torch.nn.Transformer bfloat16", "torch_transformer", half),
    ]


def parse() -> argparse.Namespace:
    parser = options(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=None, help=f"({os.cpu_count()})")
    parser.add_argument("--batches", type=int, default=None, help="timed in a round")
    parser.add_argument("--batch-tokens", type=int, default=None, help="positions a side")
    parser.add_argument("--made-up", action="store_true", help="WMT's lengths, on a CPU too")
    asked = parser.parse_args()
    gpu = asked.device == "cuda"
    asked.threads = asked.threads or (1 if asked.clock == "processor" else os.cpu_count())
    asked.batches = asked.batches or (2 if asked.quick else 20 if gpu else 6)
    asked.batch_tokens = asked.batch_tokens or (TOKENS if gpu else 4096)
    return asked


def make_batches(asked: argparse.Namespace, shape: ModelShape) -> list[AnyBatch]:
    """One batch to warm up on, and those that are timed."""
    if asked.made_up or asked.device == "cuda":
        return synthetic_batches(asked.batches + 1, asked.batch_tokens, shape.vocabulary)
    return multi30k_batches(asked.batches + 1, asked.batch_tokens)


def main() -> None:
    asked = parse()
    machine_state = measure_machine_state(asked.device)
    shape = SMALL if asked.device == "cpu" else BASE
    chosen, left = choose(contenders(asked.device, asked.threads, asked.clock), asked.peers)
    begin(machine_state, left)
    batches = make_batches(asked, shape)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "batches.json"
        save_batches(file, batches)
        task = {"job": "train", "shape": asdict(shape), "batches": str(file)}
        with running_contenders(chosen, lambda one: task, show_progress) as (runners, failed):
            results = alternate_rounds(runners, {}, asked.rounds, show_progress)
    left |= failed | results.dropped
    for name, why in (failed | results.dropped).items():
        console.print(f"[red]{name} failed[/red]: {why}")
    figures, notes = {}, {}
    for name, answers in results.answers.items():
        figures[name] = [one["tokens"] / one["seconds"] for one in answers]
        hours = hours_at(summarise(figures[name]).median)
        notes[name] = {
            "loss": f"{answers[-1]['loss']:.2f}",
            "peak MB": f"{answers[-1]['peak_mb']:,.0f}",
            "100k steps": f"{hours:,.1f} h",
        }
    table = Table(_title(asked, shape), "target tokens/s", rows_of(chosen, figures, notes))
    show(table)
    console.print(
        f"100k steps: with this model, of {TOKENS:,} target tokens each; the paper's base "
        f"model took {HOURS} hours on eight P100s"
    )
    save(asked, machine_state, [table], left=left, setting=asdict(shape))


def _title(asked: argparse.Namespace, shape: ModelShape) -> str:
    made_up = asked.made_up or asked.device == "cuda"
    corpus = "sentences of WMT's lengths" if made_up else "Multi30k en-de"
    return (
        f"training {shape.encoder_layers}+{shape.decoder_layers} layers of {shape.width} on "
        f"{corpus}, {asked.batch_tokens:,} positions a batch, {asked.device}, "
        f"{asked.threads} threads, {asked.clock} clock"
    )
