"""A forecaster so small that it trains in a second, to try the rest of the package on."""

import torch

from regard.recipes import train_run
from regard.recipes.finish_run import finish_run
from regard.recipes.recipe_files import make_recipe
from regard.recipes.run_folder import RunFolder

RAW = {
    "task": "forecast",
    "name": "tiny",
    "about": "Some numbers.",
    "corpus": {"name": "fibonacci", "terms": 60, "window": 6, "shortest": 2},
    "model": {"family": "simple-rnn", "attention": "linear", "time_steps": 6},
    "training": {
        "steps": 40,
        "batch_size": 8,
        "optimizer": {"learning_rate": 2e-2},
        "schedule": {"warmup": 5},
        "validation": {"every": 10},
        "average": 2,
        "log_every": 10,
        "save_every": 5,
    },
}


class Quiet:
    """A reporter that shows nothing and remembers what it was told."""

    def __init__(self):
        self.notes, self.summary = [], {}

    def noted(self, message):
        self.notes.append(message)

    def logged(self, step, numbers): ...

    def validated(self, step, numbers, *, best): ...

    def transferred(self, run, transfer): ...

    def prepared(self, task, model):
        self.summary = task.summary()


def forecast_recipe(*overrides):
    return make_recipe(RAW, overrides, where="tiny")


def train_forecaster(path, *overrides, reporter=None):
    """Train and finish a run in `path`, which it gives back."""
    return train_recipe(forecast_recipe(*overrides), path, reporter=reporter)


def train_recipe(recipe, path, *, reporter=None):
    """Train and finish a run of a recipe in `path`, which it gives back."""
    folder, device = RunFolder(path), torch.device("cpu")
    progress = train_run.train(
        recipe,
        folder,
        device=device,
        reporter=reporter or Quiet(),
        stop_requested=lambda: False,
    )
    finish_run(folder, progress, device)
    return path
