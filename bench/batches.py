"""Batches that all contenders train on: those of a real corpus, and files of batches."""

import json
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from bench.peers.regard_training import SilentReporter
from bench.synthetic_batches import LONGEST
from regard.batching.collate import collate, collate_stream
from regard.batching.sampler import StreamPosition, sample_batches
from regard.recipes.recipe_files import load_recipe
from regard.recipes.run_folder import RunFolder
from regard.tasks.translation.needed import require_text_task
from regard.tasks.translation.training_inputs import prepare
from regard.types import AnyBatch, Padded

RECIPE = "multi30k"
SIZES = ("text={source: {kind: bpe, size: 8000}, joint: true}",)


def multi30k_batches(count: int, tokens: int) -> list[AnyBatch]:
    """The first `count` batches of Multi30k, English to German, of `tokens` positions a side.

    The corpus is read, cleaned and tokenized as by `regard train multi30k`, and then cached.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = RunFolder(cache / "regard" / "bench" / RECIPE)
    recipe = require_text_task(load_recipe(RECIPE, SIZES), RECIPE)
    with folder.locked():
        folder.save_recipe(recipe)
        store = prepare(recipe, folder.path, SilentReporter().noted).train
    stream = sample_batches(store, StreamPosition(0, 0), budget=tokens, seed=1, max_tokens=LONGEST)
    return [placed.batch for placed in islice(collate_stream(stream), count)]


def save_batches(path: Path, batches: Sequence[AnyBatch]) -> None:
    """Write batches where every contender reads them."""
    rows = [
        [
            [row[:-1] for row in _real(batch.inputs)],  # without EOS
            [row[1:] for row in _real(batch.decoder_input)],  # without BOS
        ]
        for batch in batches
    ]
    path.write_text(json.dumps(rows), encoding="ascii")


def load_batches(path: Path) -> list[AnyBatch]:
    """The batches in a file."""
    return [collate(source, target) for source, target in json.loads(path.read_text("ascii"))]


def _real(side: Padded) -> list[list[int]]:
    return [ids[mask].tolist() for ids, mask in zip(side.ids, side.mask, strict=True)]
