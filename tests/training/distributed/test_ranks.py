"""Several processes that train together do what one does, and none outlives the others."""

import os
import signal
import time

import pytest
import torch

from classifiers import classifier_recipe
from forecasts import forecast_recipe
from languages import RECIPES, language_recipe
from rank_runs import PATIENCE, in_ranks, losses, start_ranks, train_all, train_run, weights
from regard.training.checkpoints import list_checkpoints, read_progress
from tiny import tiny_recipe

pytestmark = pytest.mark.slow

STEPS = 4
TINY = (
    "training.batch_tokens=128",
    "training.log_every=1",
    "training.moving_average=0.9",
    "training.validation={every: 4, sentences: 2, by: loss}",
    "corpus.generated={train: 100, valid: 10, test: 5}",
)


@pytest.fixture(autouse=True)
def one_thread():
    """With more of them, sums are taken in another order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def tiny(accumulate, *more, steps=STEPS, **given):
    settings = (f"training.steps={steps}", f"training.accumulate={accumulate}")
    return tiny_recipe(*TINY, *settings, *more, **given)


def language(name, folder, accumulate):
    often = {"steps": STEPS, "log_every": 1, "accumulate": accumulate}
    return language_recipe(name, folder, training=RECIPES[name]["training"] | often)


def cases(folder, accumulate):
    """Recipes of every kind of model and of batches, by what is different about them."""
    few = (f"training.steps={STEPS}", f"training.accumulate={accumulate}", "training.log_every=1")
    return {
        "transformer": tiny(accumulate, "model.dropout=0.2", "text.source.sampling=0.2"),
        "recurrent": tiny(accumulate, family="rnnsearch"),
        "experts": tiny(accumulate, "model.experts={count: 4, every: 1}"),
        "refined": tiny(
            accumulate, "refinement={steps: 2, samples: 3, batch_tokens: 64, validate_every: 2}"
        ),
        "windows": language("gpt", folder, accumulate),
        "carried memory": language("awd-lstm", folder, accumulate),
        "masked": language("bert", folder, accumulate),
        "classes": classifier_recipe(folder, "gpt", *few),
        "numbers": forecast_recipe(*few),
    }


def test_two_ranks_do_what_one_does_that_accumulates_two_batches(tmp_path):
    """With dropout, noise of experts and sampled subwords: random numbers belong to the batch."""
    names = list(cases(tmp_path, 1))
    names.remove("numbers")  # its batches are of float32
    together = [(cases(tmp_path, 1)[name], tmp_path / f"{name}-2") for name in names]
    assert in_ranks(2, train_all, together) == [0, 0]
    for name in names:
        if name == "refined":  # a second stage never accumulates
            assert (tmp_path / "refined-2/refined/weights/last.safetensors").exists()
            continue
        train_run(cases(tmp_path, 2)[name], tmp_path / f"{name}-1")
        one, two = (losses(tmp_path / f"{name}-{count}") for count in (1, 2))
        assert len(one) == STEPS
        assert two == pytest.approx(one, abs=1e-10), name
        alone, shared = (weights(tmp_path / f"{name}-{count}") for count in (1, 2))
        for key, tensor in alone.items():
            assert tensor.dtype == torch.float64
            torch.testing.assert_close(shared[key], tensor, rtol=0, atol=1e-8)
