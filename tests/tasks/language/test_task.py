"""Language models, one way and both, as tasks: prepared, trained, resumed, evaluated, loaded."""

import math

import pytest
import torch
from typer.testing import CliRunner

from forecasts import train_recipe
from languages import RECIPES, TRAINING, language_recipe
from regard.batching.sampler import StreamPosition
from regard.batching.shuffled_windows import shuffled_windows
from regard.cli.main import command_app
from regard.errors import CorpusError, SettingsError
from regard.recipes import train_run
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder
from regard.tasks.embedding.task import both_ways, one_way
from regard.training.checkpoints import load_weights

CPU = torch.device("cpu")
every_recipe = pytest.mark.parametrize("name", RECIPES)


class Silent:
    def noted(self, message): ...
    def logged(self, step, numbers): ...
    def validated(self, step, numbers, *, best): ...
    def prepared(self, task, model): ...


@pytest.fixture(autouse=True)
def one_thread():
    """With more of them, sums are taken in another order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def train(plain, path, *, stop_after=None):
    steps = iter(range(1, 1000))
    return train_run.train(
        plain,
        RunFolder(path),
        device=torch.device("cpu"),
        reporter=Silent(),
        stop_requested=lambda: stop_after is not None and next(steps) >= stop_after,
    )


@every_recipe
def test_stopped_and_resumed_equals_unbroken(name, tmp_path):
    plain = language_recipe(name, tmp_path)
    train(plain, tmp_path / "whole")
    for stop in (1, 6):
        assert train(plain, tmp_path / "broken", stop_after=stop).step == (1 if stop == 1 else 7)
    assert train(plain, tmp_path / "broken").step == 12
    for file in ("model.safetensors", "weights/last.safetensors"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "broken" / file).read_bytes()


@every_recipe
def test_a_trained_run_is_evaluated_as_it_was_validated(name, tmp_path):
    plain = language_recipe(name, tmp_path)
    train(plain, tmp_path / "run")
    run = open_run(tmp_path / "run", tasks=[plain.task], device=torch.device("cpu"))
    found = run.task.evaluate(run.model, run.task.held_out())
    assert found.split == "test"
    assert all(math.isfinite(value) for value in found.numbers.values())
    assert "ends of lines or documents" in found.notes[0]
    best = load_weights(tmp_path / "run" / "weights" / "best.safetensors")
    assert best.keys() == run.model.state_dict().keys()


def test_a_missing_file_is_said(tmp_path):
    plain = language_recipe("gpt", tmp_path, corpus={"train": str(tmp_path / "none.txt")})
    with pytest.raises(CorpusError, match=r"none.txt: no such file"):
        train(plain, tmp_path / "run")


def test_windows_that_vary_are_for_models_that_carry_their_memory(tmp_path):
    with pytest.raises(SettingsError, match=r"vary_window is for a model that carries its memory"):
        language_recipe("gpt", tmp_path, training=TRAINING | {"vary_window": True})


@pytest.mark.parametrize(
    ("window", "message"),
    [(20, r"window 20 is longer than model.context 16"), (7, r"a window of 7 tokens is too short")],
)
def test_windows_of_masked_models_fit_their_context(tmp_path, window, message):
    with pytest.raises(SettingsError, match=message):
        language_recipe("bert", tmp_path, training=TRAINING | {"window": window})


def test_the_pseudo_perplexity_is_that_of_as_many_tokens_as_are_asked_for(tmp_path):
    plain = language_recipe("bert", tmp_path, evaluation={"pseudo_tokens": 15})
    train(plain, tmp_path / "run")
    run = open_run(tmp_path / "run", tasks=[plain.task], device=torch.device("cpu"))
    notes = run.task.evaluate(run.model, "valid").notes
    assert "each masked alone in one of 2 windows of 12" in notes[2]  # of ten tokens


def test_both_ways_ask_what_follows_and_what_precedes():
    ids = torch.arange(10, 40).numpy()
    batch = next(shuffled_windows(ids, StreamPosition(0, 0), rows=2, length=4, seed=1)).batch
    found = both_ways(batch)
    rows = found.inputs.ids
    assert rows.shape == (2, 5)
    twice = rows.flatten().repeat(2)
    forward, backward = one_way(found, 0), one_way(found, 1)
    assert torch.equal(forward.labels, twice[forward.positions] + 1)
    assert torch.equal(backward.labels, twice[backward.positions] - 1)
    assert (forward.positions < rows.numel()).all()
    assert (backward.positions >= rows.numel()).all()
    assert len(forward.labels) == len(backward.labels) == 8


def test_masked_models_of_both_kinds_are_compared_by_their_pseudo_perplexity(tmp_path):
    runs = {}
    for name in ("bert", "roberta"):
        text, window = {"kind": "words", "size": 0}, TRAINING | {"window": 12}
        plain = language_recipe(name, tmp_path, text=text, training=window)
        train(plain, tmp_path / name)
        runs[name] = open_run(tmp_path / name, tasks=[plain.task], device=torch.device("cpu"))
    one, two = runs.values()
    [found] = one.task.compare(one.model, two.task, two.model, "test")
    for run, value in ((two, found.first), (one, found.second)):
        wanted = run.task.evaluate(run.model, "test").numbers["pseudo_perplexity"]
        assert value == pytest.approx(wanted, rel=1e-4)


def test_a_recurrent_language_model_continues_prompts_of_unlike_length(tmp_path):
    train(language_recipe("awd-lstm", tmp_path), tmp_path / "run")
    prompts = ["the cat", "", "the cat 3 sat on"]
    asked = [str(tmp_path / "run"), *prompts, "--max-tokens", "5", "--seed", "2"]
    found = CliRunner().invoke(command_app("complete"), asked)
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert len(lines) == 3
    assert [line.startswith(prompt) for line, prompt in zip(lines, prompts, strict=True)] == [
        True
    ] * 3


def test_two_language_models_are_compared_on_the_same_tokens(tmp_path):
    paths = {}
    for name, changed in (
        ("long", {}),
        ("short", {"training": TRAINING | {"steps": 1}}),
        ("words", {"text": {"kind": "whitespace", "size": 0}}),
    ):
        recipe = language_recipe("gpt", tmp_path, **changed)
        paths[name] = train_recipe(recipe, tmp_path / name)
    runs = {name: open_run(path, device=CPU) for name, path in paths.items()}
    long, short, words = (runs[name] for name in paths)
    [found] = long.task.compare(long.model, short.task, short.model, "test")
    numbers = long.task.evaluate(long.model, "test").numbers
    assert found.second == pytest.approx(numbers["perplexity"])  # of tokens that are predicted
    assert numbers["bits_per_character"] == pytest.approx(numbers["loss"] / math.log(2))
    assert found.second < found.first
    with pytest.raises(SettingsError, match="reads other test tokens: a test needs the same text"):
        long.task.compare(long.model, words.task, words.model, "test")
