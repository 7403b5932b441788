"""Classifiers that answer together: pipelines, evaluation and commands."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from classifiers import classifier_recipe, examples, write_table
from forecasts import train_recipe
from regard.cli.main import command_app
from regard.errors import SettingsError
from regard.evaluation.classification import Classified, log_softmax, mean_log_probs
from regard.pipelines.load import load
from regard.recipes.open_run import open_run
from regard.tasks.text_classes.pipeline import TextLabelPipeline
from regard.training.checkpoints import load_weights

TEXTS = ["the cow cow", "two two", "", "w1 hen w2 n7 n9"]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs with the same examples, other encoders and other vocabularies."""
    folder = tmp_path_factory.mktemp("ensemble")
    vocabulary = {"gpt": 0, "bert": 12}
    return [
        str(
            train_recipe(
                classifier_recipe(folder, encoder, "training.steps=16", f"text.size={size}"),
                folder / encoder,
            )
        )
        for encoder, size in vocabulary.items()
    ]


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """A run with a third label."""
    folder = tmp_path_factory.mktemp("stranger")
    rows = [(f"{label}{n % 2}", text) for n, (label, text) in enumerate(examples(60))]
    return str(train_recipe(classifier_recipe(folder, rows=rows), folder / "run"))


def invoke(command, *arguments):
    return CliRunner().invoke(command_app(command), [*map(str, arguments)])


def task_runs(runs):
    return [open_run(run, tasks=["text-classification"], device=CPU) for run in runs]


def test_the_probabilities_are_the_mean_of_those_of_all_runs(runs):
    alone = [load(run, device="cpu").classify(TEXTS) for run in runs]
    for answer, *each in zip(load(*runs, device="cpu").classify(TEXTS), *alone, strict=True):
        for label, probability, _ in answer.labels:
            shares = [{one.label: one.probability for one in given.labels} for given in each]
            mean = np.mean([share[label] for share in shares])
            assert probability == pytest.approx(mean, abs=2e-6)
        assert answer.probability == max(one.probability for one in answer.labels)
        assert answer.given == each[0].given


def test_an_ensemble_is_measured_by_its_calibrated_probabilities(runs):
    first, second = task_runs(runs)
    found = [run.task.classify_split(run.model, "test") for run in (first, second)]
    calibrated = [
        x.logits / run.task.temperature for x, run in zip(found, (first, second), strict=True)
    ]
    wanted = Classified(mean_log_probs(calibrated), found[0].labels)
    measured = TextLabelPipeline(first, second).evaluate("test")
    assert measured.numbers["accuracy"] == wanted.accuracy()
    assert measured.numbers["nll"] == measured.numbers["nll_calibrated"] == wanted.nll()
    assert "the mean of the probabilities of 2 runs" in measured.notes[1]


def test_members_may_have_their_labels_in_another_order(runs):
    first, second, turned = *task_runs(runs), task_runs(runs)[1]
    turned.task.labels = second.task.labels[::-1]
    layer = turned.model.output
    for parameter in (layer.weight, layer.bias):
        parameter.data = parameter.data.flip(0)
    answers, logits = [], []
    for member in (second, turned):
        pipeline = TextLabelPipeline(first, member)
        logits.append(pipeline.classify_split("test").logits)
        answers.append([(one.label, one.probability) for one in pipeline.classify(TEXTS)])
    assert answers[0] == answers[1]
    np.testing.assert_allclose(*logits, atol=1e-6)
    alone, *others = map(TextLabelPipeline, (first, second, turned))
    differences = [alone.compare(other, "test") for other in others]
    assert differences[0] == differences[1]
    digests = {run.task.statistics(run.model, "test").digest for run in (first, second, turned)}
    assert len(digests) == 1


def test_a_member_without_a_temperature_is_named(runs):
    first, second = task_runs(runs)
    both = TextLabelPipeline(first, second)
    assert "but" not in both.evaluate("test").notes[1]
    second.task.folder, second.task.uncalibrated = Path("elsewhere"), "some reason"
    first.task.check_same_examples = lambda *_, **__: None
    [_, note] = both.evaluate("test").notes
    assert "each calibrated by its own data, but elsewhere, which has no temperature" in note


def test_runs_of_pairs_and_of_single_texts_do_not_answer_together(runs, tmp_path):
    rows = [(label, text, text) for label, text in examples(60)]
    pairs = str(train_recipe(classifier_recipe(tmp_path, rows=rows, text=[1, 2]), tmp_path / "run"))
    for one, other in ((pairs, runs[0]), (runs[0], pairs)):
        with pytest.raises(SettingsError, match=r"run reads pairs of texts, and .*gpt single ones"):
            load(one, other, device="cpu")


def test_mean_log_probs_are_those_of_the_mean():
    members = [np.array([[0.0, 2.0, -1000.0]]), np.array([[5.0, 1.0, -1000.0]])]
    wanted = np.log(np.mean([np.exp(log_softmax(x)) for x in members], 0)[:, :2])
    np.testing.assert_allclose(mean_log_probs(members)[:, :2], wanted)
    assert mean_log_probs(members)[0, 2] < -990  # and not minus infinity


def test_the_commands_take_ensembles(runs):
    first, second = runs
    answers = invoke("classify", first, "--ensemble", second, "--json", *TEXTS[:2])
    assert answers.exit_code == 0, answers.output
    [found, _] = map(json.loads, answers.stdout.splitlines())
    [wanted, _] = load(first, second, device="cpu").classify(TEXTS[:2])
    assert found["labels"][wanted.label] == wanted.probability
    alone = json.loads(invoke("evaluate", first, "--json").stdout)
    both = invoke("evaluate", first, "--ensemble", second, "--against", second, "--json")
    assert both.exit_code == 0, both.output
    assert json.loads(both.stdout)["nll"] != alone["nll"]
    assert json.loads(both.stdout)["against"]
    table = invoke("evaluate", first, "--ensemble", second).stdout
    assert f"{first} + {second}" in "".join(table.split("\n"))


def test_columns_of_two_weights_of_one_run_have_different_names(runs):
    table = invoke("evaluate", runs[0], "--weights", "last", "--against", runs[0]).stdout
    assert f"{runs[0]} (last) on test" in "".join(table.split("\n"))


def test_runs_with_other_labels_or_examples_are_refused(runs, stranger, tmp_path):
    with pytest.raises(
        SettingsError, match=r"other labels than .*run lacks animal, number; .*gpt lacks animal0"
    ):
        load(runs[0], stranger)
    many = [f"label {number:02}" for number in range(12)]
    first, second = task_runs(runs)
    first.task.labels, second.task.labels = (*many, "y"), (*many, "z")
    with pytest.raises(SettingsError, match=r"bert lacks y; .*gpt lacks z"):
        first.task.check_member(second.task)
    for command in ("evaluate", "classify"):
        refused = invoke(command, runs[0], "--ensemble", runs[1], "--ensemble", runs[0]).exception
        assert f"{runs[0]}: named twice; name each run once" in str(refused)
    refused = invoke("evaluate", runs[0], "--ensemble", stranger).exception
    assert "has other labels" in str(refused)
    first, second = task_runs(runs)
    second.task.read_test([write_table(tmp_path / "other.tsv", examples(6, 80))], tmp_path / "data")
    with pytest.raises(SettingsError, match=r"--ensemble: .* has other test texts or labels"):
        TextLabelPipeline(first, second).evaluate("test")


def test_the_weights_that_are_asked_for_are_those_of_every_member(runs, monkeypatch):
    pipeline = load(*runs, device="cpu", weights="last")
    both = [pipeline, *pipeline.others]
    for run, member in zip(runs, both, strict=True):
        last = load_weights(Path(run) / "weights" / "last.safetensors")
        assert torch.equal(member.model.output.weight, last["output.weight"])
    asked = []

    def noting(*given, **options):
        asked.append(options["weights"])
        return open_run(*given, **options)

    monkeypatch.setattr("regard.recipes.evaluator.open_run", noting)
    assert invoke("evaluate", runs[0], "--ensemble", runs[1], "--weights", "last").exit_code == 0
    assert asked == ["last", "last"]


def test_an_ensemble_is_not_looked_into(runs):
    with pytest.raises(SettingsError, match="an ensemble of 2 runs has no attention of its own"):
        load(*runs, device="cpu").look("two two")
