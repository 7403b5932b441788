"""Several processes that train together do what one does, and none outlives the others."""

import signal
import time

import pytest
import torch

from classifiers import classifier_recipe
from flips import flip
from forecasts import forecast_recipe
from forks import die_at
from languages import RECIPES, language_recipe
from rank_runs import PATIENCE, in_ranks, losses, start_ranks, train_all, train_run, weights
from regard.training.checkpoints import digest_matches, list_checkpoints, read_progress
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
        "sharded": tiny(
            accumulate, "model.dropout=0.2", f"training.sharded={str(accumulate == 1).lower()}"
        ),
        "refined": tiny(
            accumulate, "refinement={steps: 2, samples: 3, batch_tokens: 64, validate_every: 2}"
        ),
        "windows": language("gpt", folder, accumulate),
        "carried memory": language("awd-lstm", folder, accumulate),
        "masked": language("bert", folder, accumulate),
        # in which a layer has no gradient: that above the states, for words that are hidden
        "classes": classifier_recipe(folder, "bert", *few, "training.optimizer.weight_decay=0.1"),
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


def train_in_float32(ranks, recipe, path):
    train_run(recipe, path, ranks=ranks, dtype=torch.float32)


def test_sharded_weights_are_trained_in_float32_as_whole_ones_are(tmp_path):
    for sharded in ("true", "false"):
        recipe = tiny(1, f"training.sharded={sharded}")
        assert in_ranks(2, train_in_float32, recipe, tmp_path / sharded) == [0, 0]
    assert losses(tmp_path / "true") == pytest.approx(losses(tmp_path / "false"), abs=1e-5)


def train_and_tell(ranks, recipe, path, stop_at=None):
    told = train_run(recipe, path, ranks=ranks, stop_at=stop_at)
    if ranks.leads:
        (path / "notes").write_text("\n".join(told.notes))


def resume_and_die(ranks, recipe, path, victim, number):
    if ranks.number == victim:
        die_at(path, number)
    train_run(recipe, path, ranks=ranks)


def test_ranks_that_are_killed_stop_together_and_go_on_as_if_they_had_not_been(tmp_path):
    often = ("training.save_every=2", "training.validation.every=20")
    recipe = tiny(1, *often, steps=40)
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert in_ranks(2, train_and_tell, recipe, whole) == [0, 0]
    for victim in (1, 0):
        before = set(list_checkpoints(run / "checkpoints"))
        processes = start_ranks(2, train_and_tell, recipe, run)
        deadline = time.monotonic() + PATIENCE
        while not set(list_checkpoints(run / "checkpoints")) - before:
            assert time.monotonic() < deadline, "there was never a checkpoint"
            time.sleep(0.005)
        processes[victim].kill()
        killed = time.monotonic()
        for process in processes:
            process.join(PATIENCE)
        assert time.monotonic() - killed < 30
        assert processes[victim].exitcode == -signal.SIGKILL
        assert processes[1 - victim].exitcode == 1  # an error, and no waiting
    before = list_checkpoints(run / "checkpoints")
    for victim, number in ((0, 9), (1, 3)):  # and again, twice while they resume
        statuses = in_ranks(2, resume_and_die, recipe, run, victim, number)
        assert (statuses[victim], statuses[1 - victim]) == (-signal.SIGKILL, 1)
        assert list_checkpoints(run / "checkpoints") == before
    assert in_ranks(2, train_and_tell, recipe, run, 1) == [0, 0]  # one is asked to stop: all do
    assert read_progress(run / "checkpoints")[0].step < 40
    assert in_ranks(2, train_and_tell, recipe, run) == [0, 0]
    for name in ("model", "weights/last", "weights/best", "weights/average"):
        file = f"{name}.safetensors"
        assert (run / file).read_bytes() == (whole / file).read_bytes()


def test_a_run_goes_on_with_another_number_of_ranks(tmp_path):
    """Here with sharded weights, which are whole in the end."""
    run, recipe = tmp_path / "run", tiny(1, "training.sharded=true", steps=8)
    folder = run / "checkpoints"
    assert in_ranks(2, train_and_tell, recipe, run, 3) == [0, 0]
    assert len(list(folder.glob("rows-000000003-*"))) == 2
    assert in_ranks(3, train_and_tell, recipe, run, 2) == [0, 0, 0]
    changed = "begun with 2 batches a step on 2 devices, resumed with 3 on 3 devices"
    assert changed in (run / "notes").read_text()
    told = train_run(tiny(3, "training.sharded=true", steps=8), run)
    assert any("begun on 3 devices, resumed on 1 device, with as many" in one for one in told.notes)
    assert "training.sharded: one device holds all weights; give --devices N" in told.notes
    newest, older = list_checkpoints(folder)
    assert read_progress(folder)[0].step == 8
    rows = list(folder.glob("rows-*"))
    assert len(rows) == 3  # of the older one
    assert digest_matches(older)
    flip(rows[1])
    assert not digest_matches(older)
    assert digest_matches(newest)
