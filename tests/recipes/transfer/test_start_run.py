"""Runs that begin with the weights of others: taken, said, kept, resumed."""

import shutil

import pytest
import torch
import yaml
from typer.testing import CliRunner

from classifiers import classifier_recipe
from languages import language_recipe
from regard.atomic_io import write_atomic
from regard.cli.main import command_app
from regard.errors import RunError, SettingsError
from regard.json_files import dump_json
from regard.recipes import train_run
from regard.recipes.finish_run import finish_run
from regard.recipes.recipe_files import make_recipe
from regard.recipes.run_folder import RunFolder
from regard.recipes.transfer.start_run import RunStart
from regard.tasks.families.classification import load_labels
from regard.tasks.text_classes.task import TextClassification
from regard.text.build import load_tokenizers
from regard.training.checkpoints import load_weights

CPU = torch.device("cpu")
OTHER_TEXT = "".join(f"a dog {n % 5} ran to the cat .\n" for n in range(60))


class Silent:
    def __init__(self, note):
        self.noted = note

    def logged(self, step, numbers): ...
    def validated(self, step, numbers, *, best): ...
    def prepared(self, task, model): ...
    def transferred(self, run, transfer): ...


@pytest.fixture(autouse=True)
def one_thread():
    """With more threads, sums are taken in another order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def train(plain, path, *, stop_after=None, note=lambda message: None):
    steps = iter(range(1, 1000))
    stop = lambda: stop_after is not None and next(steps) >= stop_after  # noqa: E731
    return train_run.train(
        plain, RunFolder(path), device=CPU, reporter=Silent(note), stop_requested=stop
    )


def tuned_recipe(name, tmp_path, **changed):
    """A recipe that begins with the run `first`, on another text."""
    corpus = {"train": str(tmp_path / "other.txt"), "test_share": 0.1, "documents": "line"}
    (tmp_path / "other.txt").write_text(OTHER_TEXT)
    start = {"run": str(tmp_path / "first")} | changed.pop("start", {})
    return language_recipe(name, tmp_path, corpus=corpus, start=start, **changed)


@pytest.fixture(params=["gpt", "awd-lstm", "bert"])
def name(request):
    return request.param


@pytest.fixture
def first(name, tmp_path):
    """A trained run."""
    train(language_recipe(name, tmp_path), tmp_path / "first")
    return tmp_path / "first"


def test_a_run_begins_with_vocabulary_and_weights_of_another(name, first, tmp_path):
    progress = train(tuned_recipe(name, tmp_path), tmp_path / "tuned")
    folder = RunFolder(tmp_path / "tuned")
    names = load_tokenizers(first).source.fingerprint()
    assert load_tokenizers(folder.path).source.fingerprint() == names
    begun = load_weights(folder.path / "weights" / "start.safetensors")
    given = load_weights(first / "model.safetensors")
    assert all(torch.equal(begun[name], given[name]) for name in given)
    shutil.rmtree(first)  # the run needs nothing of it
    finish_run(folder, progress, CPU)
    recipe = folder.load_recipe()
    assert f"`{recipe.start.weights}`" in folder.card.read_text()
    assert f"taken: {len(given)} tensors" in folder.card.read_text()


def test_a_vocabulary_of_its_own_takes_the_vectors_that_both_have(name, first, tmp_path):
    recipe = tuned_recipe(name, tmp_path, start={"vocabulary": "own"})
    train(recipe, tmp_path / "tuned")
    own, given = (load_tokenizers(tmp_path / x).source for x in ("tuned", "first"))
    assert own.fingerprint() != given.fingerprint()
    report = RunStart(recipe, RunFolder(tmp_path / "tuned")).read_report()
    shared = set(own.pieces(range(own.size))) & set(given.pieces(range(given.size)))
    remarks = {one.remark for one in report.taken}
    assert f"{len(shared)} of {own.size} rows" in remarks


@pytest.mark.parametrize("stop", [1, 7])
def test_stopped_and_resumed_equals_unbroken(name, first, tmp_path, stop):
    recipe = tuned_recipe(name, tmp_path)
    train(recipe, tmp_path / "whole")
    train(recipe, tmp_path / "broken", stop_after=stop)
    shutil.rmtree(first)
    if stop == 1:  # killed before its first checkpoint
        shutil.rmtree(tmp_path / "broken" / "checkpoints")
    again = RunFolder(tmp_path / "broken").load_recipe()
    assert train(again, tmp_path / "broken").step == 12
    whole, broken = (tmp_path / x / "model.safetensors" for x in ("whole", "broken"))
    assert whole.read_bytes() == broken.read_bytes()


@pytest.mark.parametrize("name", ["gpt"], indirect=True)
@pytest.mark.parametrize(
    ("changed", "kind", "wrong"),
    [
        ({"start": {"run": "nowhere"}}, RunError, "nowhere: no such folder"),
        ({"model": {"family": "awd-lstm"}}, SettingsError, "nothing to start from: none of the"),
        ({"start": {"run": None}}, SettingsError, "name the run that training starts from"),
        (
            {"start": {"run": None, "recipe": "text"}},
            SettingsError,
            "starts from a run of the recipe text, and runs/text holds no finished one",
        ),
    ],
)
def test_what_cannot_be_begun_with_is_said(name, first, tmp_path, changed, kind, wrong):
    with pytest.raises(kind, match=wrong):
        train(tuned_recipe(name, tmp_path, **changed), tmp_path / "tuned")


def classifier(tmp_path, **model):
    """A recipe of a classifier that begins with the run `first`."""
    plain = classifier_recipe(tmp_path).model_dump(mode="json")
    start = {"run": str(tmp_path / "first")}
    return make_recipe(plain | {"start": start, "model": model}, where="test")


def test_a_classifier_has_the_model_of_a_language_model_as_its_encoder(name, first, tmp_path):
    recipe = classifier(tmp_path, pooling="max")
    progress = train(recipe, tmp_path / "tuned")
    folder = RunFolder(tmp_path / "tuned")
    finish_run(folder, progress, CPU)
    begun = load_weights(folder.path / "weights" / "start.safetensors")
    given = load_weights(first / "model.safetensors")
    assert all(torch.equal(begun[f"encoder.{name}"], given[name]) for name in given)
    assert begun.keys() - {f"encoder.{name}" for name in given} == {"output.weight", "output.bias"}
    model = folder.load_recipe().model
    assert model.encoder == RunFolder(first).load_recipe().model
    assert model.pooling == "max"


@pytest.mark.parametrize("name", ["gpt"], indirect=True)
def test_with_low_rank_updates_what_is_new_learns_whole(name, first, tmp_path):
    lora = {"training.fine_tuning.lora": {"rank": 2}, "training.average": 1}
    recipe, notes = classifier(tmp_path, pooling="max").with_values(lora), []
    train(recipe, tmp_path / "tuned", note=notes.append)
    begun = load_weights(tmp_path / "tuned" / "weights" / "start.safetensors")
    tuned = load_weights(tmp_path / "tuned" / "model.safetensors")
    changed = {name for name, tensor in begun.items() if not torch.equal(tensor, tuned[name])}
    assert {"output.weight", "output.bias", "encoder.embedding.weight"} <= changed
    assert not any("norm" in name for name in changed)
    assert not (tmp_path / "tuned" / "adapter.safetensors").exists()
    assert any("in output.weight, output.bias: new weights" in note for note in notes)
    train(recipe, tmp_path / "broken", stop_after=7)
    train(RunFolder(tmp_path / "broken").load_recipe(), tmp_path / "broken")
    files = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("tuned", "broken")]
    assert files[0] == files[1]


@pytest.mark.parametrize("name", ["gpt"], indirect=True)
def test_a_classifier_begins_with_another_one_and_its_labels(name, first, tmp_path):
    train(classifier(tmp_path, pooling="max"), tmp_path / "tuned")
    plain = classifier(tmp_path, pooling="max").model_dump(mode="json")
    start = {"run": str(tmp_path / "tuned")}
    again = make_recipe(plain | {"start": start}, where="test")
    train(again, tmp_path / "again")
    report = RunStart(again, RunFolder(tmp_path / "again")).read_report()
    assert not report.new
    assert not report.left


@pytest.mark.parametrize("name", ["gpt"], indirect=True)
def test_a_classifier_keeps_the_labels_of_the_one_it_begins_with_in_their_order(
    name, first, tmp_path
):
    train(classifier(tmp_path, pooling="max"), tmp_path / "tuned")
    (file := tmp_path / "tuned" / "data" / "labels.json").unlink()
    recipe = classifier(tmp_path, pooling="max")
    labels = ("zebra", "spam", "ham")
    write_atomic(file, dump_json(labels).encode())
    start = recipe.start.model_copy(update={"run": str(tmp_path / "tuned")})
    recipe = recipe.model_copy(update={"start": start})
    task = TextClassification(recipe, tmp_path / "again")
    RunStart(recipe, RunFolder(tmp_path / "again")).give_names(task)
    for found, kept in {
        ("ham", "spam", "zebra"): labels,
        ("ham", "spam"): labels,
        ("ham", "other"): ("ham", "other"),
    }.items():
        task.save_labels(found)
        assert load_labels(tmp_path / "again") == kept


def test_a_classifier_without_an_encoder_is_refused(tmp_path):
    plain = classifier_recipe(tmp_path).model_dump(mode="json")
    with pytest.raises(SettingsError, match=r"model\.encoder: missing"):
        make_recipe(plain | {"model": {}}, where="test")


@pytest.mark.parametrize("name", ["gpt"], indirect=True)
def test_the_command_begins_with_a_run_and_says_what_it_took(name, first, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    plain = tuned_recipe(name, tmp_path).model_dump(mode="json", exclude={"start"})
    recipe.write_text(yaml.safe_dump(plain))
    arguments = [str(recipe), "--device", "cpu", "--out", str(tmp_path / "tuned")]
    done = CliRunner().invoke(command_app("train"), [*arguments, "--from", str(first)])
    assert done.exit_code == 0, done.output
    assert "begun with" in done.output
    assert "taken" in done.output
    refused = CliRunner().invoke(
        command_app("train"), [*arguments, "--resume", "--from", str(first)]
    )
    assert "drop --from" in str(refused.exception)


@pytest.mark.parametrize("name", ["gpt"], indirect=True)
def test_a_start_that_was_trained_on_is_noticed(name, first, tmp_path):
    recipe = tuned_recipe(name, tmp_path)
    train(recipe, tmp_path / "broken", stop_after=1)
    again = RunFolder(tmp_path / "broken").load_recipe()
    shutil.rmtree(tmp_path / "broken" / "checkpoints")
    (tmp_path / "broken" / "weights" / "start.safetensors").unlink()
    longer = language_recipe(name, tmp_path, training=recipe.training.model_dump() | {"steps": 20})
    train(longer, first)
    with pytest.raises(RunError, match="its weights have changed since"):
        train(again, tmp_path / "broken")
