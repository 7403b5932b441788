"""What everybody trains on: batches of a real corpus, or made-up ones with WMT's lengths."""

import json
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from bench.peers.regard_training import Quiet
from regard.batching.collate import collate
from regard.batching.plan import plan_epoch
from regard.batching.stream import Position, training_batches
from regard.recipes.assemble import prepare
from regard.recipes.load import load_recipe
from regard.recipes.run_folder import RunFolder
from regard.types import Batch, Padded

LONGEST = 256
"""Pairs with a side of more tokens are left out, as `training.max_tokens` has it by default."""
MEAN, SPREAD = 29.0, 0.55
"""Of the lengths in tokens of WMT's sentences, which are nearly log-normal: the mean, and the
standard deviation of the logarithm."""
RECIPE = "multi30k"
SIZES = ("text={source: {kind: bpe, size: 8000}, joint: true}",)


def multi30k_batches(count: int, tokens: int) -> list[Batch]:
    """The first `count` batches of Multi30k, English to German, of `tokens` positions a side.

    Read, cleaned and cut into pieces as `regard train multi30k` does; that is kept for later.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = RunFolder(cache / "regard" / "bench" / RECIPE)
    recipe = load_recipe(RECIPE, SIZES)
    with folder.locked():
        folder.save_recipe(recipe)
        store = prepare(recipe, folder, Quiet()).train
    stream = training_batches(store, Position(0, 0), budget=tokens, seed=1, max_tokens=LONGEST)
    return [placed.batch for placed in islice(stream, count)]


def made_up_batches(count: int, tokens: int, vocabulary: int) -> list[Batch]:
    """Batches of random ids whose lengths are like those of WMT's sentences."""
    chance = np.random.default_rng(1)
    pairs = 2 * count * tokens // int(MEAN)
    middle = np.log(MEAN) - SPREAD**2 / 2
    source = np.exp(chance.normal(middle, SPREAD, pairs))
    target = source * np.exp(chance.normal(0, 0.15, pairs))
    lengths = [np.clip(side.round(), 2, LONGEST).astype(np.int32) for side in (source, target)]
    plan = plan_epoch(*lengths, budget=tokens, seed=1, epoch=0)[:count]

    def draw(side: int, rows: Sequence[int]) -> list[list[int]]:
        return [chance.integers(4, vocabulary, lengths[side][row] - 1).tolist() for row in rows]

    return [collate(draw(0, rows.tolist()), draw(1, rows.tolist())) for rows in plan]


def save_batches(path: Path, batches: Sequence[Batch]) -> None:
    """Write batches where every contender reads them."""
    rows = [
        [
            [row[:-1] for row in _real(batch.source)],  # without EOS
            [row[1:] for row in _real(batch.target)],  # without BOS
        ]
        for batch in batches
    ]
    path.write_text(json.dumps(rows), encoding="ascii")


def load_batches(path: Path) -> list[Batch]:
    """The batches in a file."""
    return [collate(source, target) for source, target in json.loads(path.read_text("ascii"))]


def _real(side: Padded) -> list[list[int]]:
    return [ids[mask].tolist() for ids, mask in zip(side.ids, side.mask, strict=True)]
