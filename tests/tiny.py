"""A run so small that it trains in seconds, to try the rest of the package on."""

import torch

from regard.recipes.finish_run import finish_run
from regard.recipes.recipe_files import make_recipe
from regard.recipes.run_folder import RunFolder
from regard.recipes.train_run import train

MODELS = {
    "transformer": {
        "family": "transformer",
        "encoder_layers": 3,
        "decoder_layers": 2,
        "width": 32,
        "heads": 4,
        "feed_forward": 48,
        "norm": "pre",
    },
    "rnnsearch": {
        "family": "rnnsearch",
        "width": 24,
        "embedding": 16,
        "alignment": 12,
        "readout": 20,
    },
}
RAW = {
    "name": "tiny",
    "about": "Some sentences about travel.",
    "corpus": {"name": "travel", "generated": {"train": 300, "valid": 30, "test": 20}},
    "text": {"source": {"kind": "bpe", "size": 600}},
    "training": {
        "steps": 60,
        "batch_tokens": 512,
        "max_tokens": 50,
        "precision": "float32",  # the same on every machine
        "optimizer": {"learning_rate": 5e-3},
        "schedule": {"warmup": 10},
        "validation": {"every": 15, "sentences": 5, "by": "loss"},
        "average": 2,
        "log_every": 30,
        "save_every": 30,
    },
    "decoding": {"beam": {"size": 2}, "rules": {"max_length": 40}},
}
"""Everything but the model."""


class Quiet:
    """A reporter that shows nothing and remembers what it was told."""

    def __init__(self):
        self.notes, self.steps, self.validated_at, self.prepared_with = [], [], [], None

    def noted(self, message):
        self.notes.append(message)

    def logged(self, step, numbers):
        self.steps.append(step)

    def validated(self, step, numbers, *, best):
        self.validated_at.append(step)

    def prepared(self, task, model):
        self.prepared_with = task

    def transferred(self, run, transfer):
        self.notes.append(f"begun with {run}: {len(transfer.taken)} tensors")

    def second_stage(self, group, steps):
        self.notes.append(f"{group} for {steps} steps")


def tiny_recipe(*overrides, family="transformer"):
    return make_recipe({**RAW, "model": MODELS[family]}, overrides, where="tiny")


def train_tiny(path, *overrides, family="transformer", reporter=None):
    """Train and finish a run in `path`, which it gives back."""
    folder, device = RunFolder(path), torch.device("cpu")
    progress = train(
        tiny_recipe(*overrides, family=family),
        folder,
        device=device,
        reporter=reporter or Quiet(),
        stop_requested=lambda: False,
    )
    finish_run(folder, progress, device)
    return path
