"""Soups of runs that began with the same weights."""

import shutil

import pytest
import torch
from typer.testing import CliRunner

from languages import TRAINING, language_recipe
from regard.cli.main import command_app
from regard.errors import SettingsError
from regard.recipes import train_run
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder
from regard.recipes.transfer.soup import greedy_soup
from regard.training.checkpoints import load_weights, save_weights
from tiny import tiny_recipe

CPU = torch.device("cpu")


class Silent:
    def noted(self, message): ...
    def logged(self, step, numbers): ...
    def validated(self, step, numbers, *, best): ...
    def prepared(self, task, model): ...
    def transferred(self, run, transfer): ...


def train(folder, seed, start, rate=1e-2):
    settings = TRAINING | {"seed": seed, "optimizer": {"learning_rate": rate}}
    begun = {"start": {"run": str(folder / start)}} if start else {}
    recipe = language_recipe("gpt", folder, training=settings, **begun)
    path = folder / f"{start or 'first'}-{seed}"
    run = RunFolder(path)
    train_run.train(recipe, run, device=CPU, reporter=Silent(), stop_requested=lambda: False)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two starts, two runs from the first and one from the second."""
    folder = tmp_path_factory.mktemp("soup")
    for seed in (1, 2):
        train(folder, seed, None)
    for start, seed in (("first-1", 3), ("first-1", 4), ("first-2", 3)):
        train(folder, seed, start)
    return folder


def validated(path, weights):
    run = open_run(path, tasks=["language-model"], device=CPU)
    run.model.load_state_dict(weights)
    return run.task.training(run.model).validate(run.model)["loss"]


def test_a_soup_is_the_mean_of_what_was_kept_and_no_worse_than_the_best(folder):
    paths = [folder / "first-1-3", folder / "first-1-4"]
    soup = greedy_soup(paths, device=CPU)
    kept = [load_weights(one.run / "model.safetensors") for one in soup.ingredients if one.kept]
    for name, tensor in soup.weights.items():
        mean = torch.stack([weights[name].double() for weights in kept]).mean(0)
        torch.testing.assert_close(tensor.double(), mean)
    alone = [one.alone for one in soup.ingredients]
    assert alone == sorted(alone)
    assert validated(paths[0], soup.weights) <= min(alone)


def test_translators_make_a_soup_too(tiny_run, tmp_path):
    paths = [tmp_path / f"seed-{seed}" for seed in (3, 4)]
    for seed, path in zip((3, 4), paths, strict=True):
        recipe = tiny_recipe(f"start.run={tiny_run}", f"training.seed={seed}", "training.steps=2")
        train_run.train(
            recipe, RunFolder(path), device=CPU, reporter=Silent(), stop_requested=lambda: False
        )
    soup = greedy_soup(paths, device=CPU)
    assert sorted(one.run for one in soup.ingredients) == paths
    assert soup.selection.name == "loss"
    assert soup.weights.keys() == load_weights(tiny_run / "model.safetensors").keys()


def test_a_run_that_spoils_the_soup_is_left(folder, tmp_path):
    spoiled = tmp_path / "spoiled"
    shutil.copytree(folder / "first-1-4", spoiled)
    weights = load_weights(spoiled / "model.safetensors")
    torch.manual_seed(0)
    noisy = {name: tensor + torch.randn_like(tensor) for name, tensor in weights.items()}
    save_weights(spoiled / "model.safetensors", noisy)
    soup = greedy_soup([spoiled, folder / "first-1-3"], device=CPU)
    assert [(one.run.name, one.kept) for one in soup.ingredients] == [
        ("first-1-3", True),
        ("spoiled", False),
    ]
    best = load_weights(folder / "first-1-3" / "model.safetensors")
    assert all(torch.equal(soup.weights[name], best[name]) for name in best)


@pytest.mark.parametrize("other", ["first-2-3", "first-1"])
def test_runs_of_unlike_starts_are_refused(folder, other):
    with pytest.raises(SettingsError, match="did not start from the same weights"):
        greedy_soup([folder / "first-1-3", folder / other], device=CPU)


def test_the_command_writes_the_soup_beside_the_first_run(folder, tmp_path):
    paths = [shutil.copytree(folder / name, tmp_path / name) for name in ("first-1-3", "first-1-4")]
    done = CliRunner().invoke(command_app("average"), [*map(str, paths), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    assert "of 2 runs into" in done.output
    found = load_weights(paths[0] / "weights" / "average.safetensors")
    wanted = greedy_soup(paths, device=CPU).weights
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
