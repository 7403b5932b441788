"""Peak memory of training and of translating beside the peers, and of training on a large corpus.

The corpus is Tatoeba's English-German pairs again and again, with made-up names so that they are no
duplicates; `regard train` with the recipe `own` reads, cleans, cuts and trains on it. --pairs 0
leaves that out.
"""

import argparse
import gzip
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from string import ascii_lowercase

from bench.batches import save_batches
from bench.contenders import (
    MEBI,
    Contender,
    RoundResults,
    alternate_rounds,
    choose,
    running_contenders,
)
from bench.engines import check_model, contenders, engines
from bench.exports import test_set
from bench.machine_state import measure_machine_state
from bench.report import (
    BenchRow,
    Table,
    begin,
    console,
    options,
    rows_of,
    save,
    show,
    show_progress,
)
from bench.start import mebibytes
from bench.synthetic_batches import synthetic_batches
from bench.train import SMALL
from bench.train import contenders as trainers
from regard.errors import CorpusError, RunError


def make_corpus(path: Path, pairs: int) -> None:
    """Tatoeba again and again, each time with a made-up name put before both sides."""
    origin = Path(os.environ.get("REGARD_DATA", "")) / "tatoeba" / "train.eng-deu.tsv.gz"
    if not origin.is_file():
        raise CorpusError(
            f"{origin}: no such file; set REGARD_DATA to where the named corpora lie, or leave the "
            "large corpus out with --pairs 0"
        )
    with gzip.open(origin, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t")[:2] for line in file]
    rng = random.Random(1)
    with path.open("w", encoding="utf-8") as out:
        for _ in range(pairs):
            name = "".join(rng.choices(ascii_lowercase, k=rng.randint(3, 8))).capitalize()
            english, german = rng.choice(lines)
            out.write(f"{name}: {english}\t{name}: {german}\n")


def large_corpus(asked: argparse.Namespace) -> Table:
    """The peak of the resident memory of a whole training process."""
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        corpus = Path(folder) / "pairs.tsv"
        make_corpus(corpus, asked.pairs)
        console.print(f"{asked.pairs:,} pairs, {corpus.stat().st_size / MEBI:.0f} MiB of text")
        began = time.perf_counter()
        changes = {
            "training.steps": asked.steps,
            "training.validation.every": asked.steps,
            "training.validation.sentences": 20,
            "corpus.split.test": 50,
        }
        command = [sys.executable, "-m", "regard", "train", "--data", str(corpus)]
        command += ["--languages", "en-de", "--out", f"{folder}/run"]
        for name, value in changes.items():
            command += ["--set", f"{name}={value}"]
        # What getrusage knows of children is of the largest, which may have been a peer.
        process = os.posix_spawn(sys.executable, command, os.environ)
        _, status, used = os.wait4(process, 0)
        took = time.perf_counter() - began
    if code := os.waitstatus_to_exitcode(status):
        raise RunError(f"{' '.join(command[1:4])} ended with status {code}")
    notes = {"pairs": f"{asked.pairs:,}", "in all": f"{took:.0f} s"}
    row = BenchRow("regard train", True, (mebibytes(used.ru_maxrss),), notes)
    return Table(f"training on {asked.pairs:,} pairs", "peak MB", (row,), "less")


def training(asked: argparse.Namespace, left: dict[str, str]) -> Table:
    """Peaks of the processes that train a small model on the same batches."""
    chosen, missing = choose(trainers("cpu", 1), asked.peers)
    left |= missing
    positions = 1024 if asked.quick else 4096
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "batches.json"
        save_batches(file, synthetic_batches(3, positions, SMALL.vocabulary))
        task = {"job": "train", "shape": asdict(SMALL), "batches": str(file)}
        with running_contenders(chosen, lambda one: task, show_progress) as (runners, failed):
            results = alternate_rounds(runners, {}, asked.rounds, show_progress)
    left |= failed | results.dropped
    title = f"training a small Transformer on WMT's lengths, {positions:,} positions a batch"
    return _table(title, chosen, results)


def translating(asked: argparse.Namespace, left: dict[str, str]) -> Table:
    """Peaks of the processes that translate."""
    chosen, missing = choose(contenders(asked.cores), asked.peers)
    left |= missing
    pairs = test_set(asked.model, 20 if asked.quick else 200)
    with engines(asked.model, chosen) as (runners, failed):
        results = alternate_rounds(
            runners, {"texts": pairs.sources, "beam": 5}, asked.rounds, show_progress
        )
    left |= failed | results.dropped
    return _table(f"translating {len(pairs.sources)} sentences, beam 5", chosen, results)


def _table(title: str, chosen: Sequence[Contender], results: RoundResults) -> Table:
    """The peaks of all who came through."""
    peaks = {name: [one["peak_mb"] for one in answers] for name, answers in results.answers.items()}
    return Table(title, "peak MB", rows_of(chosen, peaks, {}), "less")


def main() -> None:
    parser = options(__doc__, clock=False)
    parser.add_argument("--model", type=Path, help="a run's folder, to translate with")
    parser.add_argument("--cores", type=int, default=None, help="to translate with")
    parser.add_argument("--pairs", type=int, default=None, help="of the large corpus (2000000)")
    parser.add_argument("--steps", type=int, default=60, help="on the large corpus (%(default)s)")
    parser.add_argument("--folder", type=Path, default=None, help="where there is room for it")
    asked = parser.parse_args()
    if asked.model:
        check_model(asked)
    if asked.pairs is None:
        asked.pairs = 20_000 if asked.quick else 2_000_000
    machine_state = measure_machine_state()
    left: dict[str, str] = {}
    begin(machine_state, left)
    tables = [training(asked, left)]
    if asked.model:
        tables.append(translating(asked, left))
    if asked.pairs:
        tables.append(large_corpus(asked))
    for table in tables:
        show(table)
    for name, why in left.items():
        console.print(f"without {name}: {why}")
    save(asked, machine_state, tables, left=left, setting={"pairs": asked.pairs})
