import json
import shutil

import pytest
import torch

from regard.errors import SettingsError
from regard.recipes.finish_run import finish_run
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder
from regard.recipes.train_run import train
from regard.tasks.translation import task
from regard.tasks.translation.training_inputs import prepare
from regard.training.checkpoints import last_progress, list_checkpoints
from regard.training.distributed.ranks import Ranks
from tiny import Quiet, tiny_recipe

CPU = torch.device("cpu")
FIRST = (
    "model={family: transformer, encoder_layers: 1, decoder_layers: 1, width: 8, heads: 2}",
    "training.steps=4",
    "training.validation={every: 3, sentences: 1, by: loss}",
    "training.average=1",
    "training.save_every=3",
    "decoding.beam.size=1",
)
SECOND = (
    "refinement={steps: 5, samples: 3, batch_tokens: 64, learning_rate: 0.01, validate_every: 2}"
)
FILES = ["model.safetensors", "refined/model.safetensors", "refined/weights/last.safetensors"]
MODELS = {
    "rnn": {"family": "rnn", "width": 8, "embedding": 6},
    "luong": {"family": "luong", "width": 8, "embedding": 6},
    "convs2s": {"family": "convs2s", "width": 8},
    "gnmt": {"family": "gnmt", "width": 8, "embedding": 6, "alignment": 5},
    "moe": {"family": "moe", "width": 8, "alignment": 5, "expert_width": 7},
}


def trained(path, *overrides, stop=lambda: False):
    reporter, recipe = Quiet(), tiny_recipe(*FIRST, *overrides)
    train(recipe, RunFolder(path), device=CPU, reporter=reporter, stop_requested=stop)
    return reporter


def content(path):
    return {file: (path / file).read_bytes() for file in FILES}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with the data and the vocabulary of all runs here."""
    path = tmp_path_factory.mktemp("prepared") / "run"
    recipe = tiny_recipe(*FIRST)
    RunFolder(path).save_recipe(recipe)
    prepare(recipe, path, print)
    return path


@pytest.fixture(scope="module")
def refined(prepared, tmp_path_factory):
    """The folder of a run that was never interrupted."""
    path = shutil.copytree(prepared, tmp_path_factory.mktemp("refined") / "run")
    trained(path, SECOND)
    return path


@pytest.fixture
def untrained(prepared, tmp_path):
    """A folder with data and vocabulary, in which nothing has been trained."""
    return shutil.copytree(prepared, tmp_path / "begun")


@pytest.fixture
def rising(monkeypatch):
    """Validations, each with a higher GLEU than the one before."""

    def build(recipe, inputs, *, max_tokens):
        values = iter(range(100))
        return lambda model: {"loss": 1.0, "bleu": 2.0, "gleu": float(next(values))}

    monkeypatch.setattr(task, "build_validation", build)


class KilledError(Exception):
    pass


class Stop:
    """`stop_requested` of a run, which is stopped or killed at the given call."""

    def __init__(self, calls, *, politely):
        self.left, self.politely = calls, politely

    def __call__(self):
        self.left -= 1
        if self.left <= 0 and not self.politely:
            raise KilledError
        return self.left <= 0


@pytest.mark.parametrize(
    ("question", "politely"),
    [(2, True), (5, True), (5, False), (6, False), (9, True), (9, False), (11, False)],
)
def test_whenever_it_ends_it_goes_on_to_the_same_weights(refined, untrained, question, politely):
    """After 2 steps, between the stages, after 1 and 4 steps of the second, and at its very end."""
    try:
        trained(untrained, SECOND, stop=Stop(question, politely=politely))
    except KilledError:
        assert not politely
    assert (untrained / "refined").exists() == (question > 5)
    assert (untrained / "refined/model.safetensors").exists() == (question > 5)
    assert (untrained / "refined/weights/last.safetensors").exists() == (question > 10)
    trained(untrained, SECOND)
    assert content(untrained) == content(refined)
    assert validated(untrained) == [0, 2, 4, 5]


@pytest.mark.parametrize("frozen", ["frozen_parts=[embeddings]", "unfreeze_every=2"])
def test_whenever_it_ends_the_same_parts_learn(prepared, tmp_path, frozen):
    """With the latter, one group of layers has never learned when the first stage ends."""
    settings = (SECOND, f"training.fine_tuning.{frozen}")
    whole, broken = (shutil.copytree(prepared, tmp_path / name) for name in ("whole", "broken"))
    trained(whole, *settings)
    trained(broken, *settings, stop=Stop(9, politely=True))
    trained(broken, *settings)
    assert content(broken) == content(whole)


def test_it_is_refused_where_weights_are_divided(tmp_path):
    class Two(Ranks):
        count = 2

    recipe, folder = tiny_recipe(*FIRST, SECOND, "training.sharded=true"), RunFolder(tmp_path)
    with pytest.raises(SettingsError, match=r"refinement needs complete weights, and training"):
        train(
            recipe,
            folder,
            device=CPU,
            reporter=Quiet(),
            stop_requested=lambda: False,
            ranks=Two(),
        )


def validated(path):
    lines = map(json.loads, (path / "refined/metrics.jsonl").read_text().splitlines())
    return [one["step"] for one in lines if one["kind"] == "valid"]


def test_every_checkpoint_of_it_damaged_it_begins_anew(refined, untrained):
    path = shutil.copytree(refined, untrained / "run")
    for damaged in list_checkpoints(path / "refined/checkpoints"):
        damaged.write_bytes(b"")
    trained(path, SECOND)
    assert content(path) == content(refined)


def test_a_finished_run_is_refined_later_as_it_would_have_been_at_once(refined, untrained):
    assert not [note for note in trained(untrained).notes if "refin" in note]
    likelihood = (untrained / "model.safetensors").read_bytes()
    assert "refinement for 5 steps" in trained(untrained, SECOND).notes
    assert content(untrained) == content(refined)
    assert (untrained / "refined/weights/first.safetensors").read_bytes() == likelihood


def test_the_best_of_it_becomes_the_model_and_training_s_own_stay(untrained, rising):
    trained(untrained, SECOND)
    [(value, step)] = last_progress(untrained / "refined").best
    assert (value, step) == (3.0, 5)  # the fourth validation
    last = (untrained / "refined/weights/last.safetensors").read_bytes()
    assert (untrained / "model.safetensors").read_bytes() == last
    assert (untrained / "weights/last.safetensors").read_bytes() != last
    finish_run(RunFolder(untrained), last_progress(untrained), CPU)
    card = (untrained / "card.md").read_text()
    assert "- steps: 4 in " in card
    assert "- refinement by expected GLEU: 5 steps in " in card
    assert (
        "- weights after it: those of its step 5; validation GLEU 0.00 → 3.00, BLEU 2.00 → 2.00"
    ) in card


def test_if_none_of_it_is_better_the_model_stays_and_this_is_said(untrained):
    reporter = trained(untrained, SECOND, "refinement.learning_rate=1e-30")
    assert reporter.notes[-1] == (
        "refinement never raised the GLEU on the validation pairs: the model keeps the "
        "final weights of training"
    )
    first = (untrained / "refined/weights/first.safetensors").read_bytes()
    assert (untrained / "model.safetensors").read_bytes() == first
    finish_run(RunFolder(untrained), last_progress(untrained), CPU)
    assert (
        "- weights after it: the same, as no others had a higher GLEU on the validation pairs"
    ) in (untrained / "card.md").read_text()


def test_once_it_has_begun_training_is_over(refined, untrained):
    path = shutil.copytree(refined, untrained / "run")
    with pytest.raises(
        SettingsError,
        match=r"run: its refinement has started from the final weights of training, "
        r"whose settings can no longer change; delete .*run/refined to train on",
    ):
        trained(path, SECOND, "training.steps=9")
    shutil.rmtree(path / "refined")
    trained(path, SECOND, "training.steps=5")
    assert last_progress(path).step == 5
    assert last_progress(path / "refined").step == 5


def test_it_can_go_on_and_be_taken_back(refined, untrained):
    path = shutil.copytree(refined, untrained / "run")
    trained(path, SECOND, "refinement.steps=7")
    assert validated(path) == [0, 2, 4, 5, 6, 7]
    first = (path / "refined/weights/first.safetensors").read_bytes()
    trained(path, "refinement=null")
    assert (path / "model.safetensors").read_bytes() == first


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_family_can_be_refined(prepared, tmp_path, model):
    path = shutil.copytree(prepared, tmp_path / "run")
    trained(path, SECOND, f"model={json.dumps(model)}", "training.steps=1", "refinement.steps=2")
    assert validated(path) == [0, 2]
    open_run(path, device=CPU)
