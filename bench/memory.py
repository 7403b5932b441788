"""How much memory training takes on a corpus of two million pairs.

    REGARD_DATA=DIR python bench/memory.py [--pairs N] [--steps N] [--folder DIR]

Makes a corpus by repeating and shuffling Tatoeba's English-German pairs, with noise so that they
are no duplicates, trains on it with the recipe `own`, and prints the peak of the resident memory
of the whole training process.
"""

import argparse
import gzip
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NOISE = "abcdefghijklmnopqrstuvwxyz"


def make_corpus(path: Path, pairs: int) -> None:
    """Tatoeba again and again, each time with a made-up name put before both sides."""
    origin = Path(os.environ["REGARD_DATA"]) / "tatoeba" / "train.eng-deu.tsv.gz"
    with gzip.open(origin, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t")[:2] for line in file]
    chance = random.Random(1)
    with path.open("w", encoding="utf-8") as out:
        for _ in range(pairs):
            name = "".join(chance.choices(NOISE, k=chance.randint(3, 8))).capitalize()
            english, german = chance.choice(lines)
            out.write(f"{name}: {english}\t{name}: {german}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--folder", type=Path, default=None)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        corpus = Path(folder) / "pairs.tsv"
        make_corpus(corpus, asked.pairs)
        print(f"{asked.pairs:,} pairs, {corpus.stat().st_size / 2**20:.0f} MiB of text")
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
        subprocess.run(command, check=True)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        print(f"peak resident memory {peak:.2f} GiB in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
