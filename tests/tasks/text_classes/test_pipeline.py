"""Classifiers of texts as functions and commands: labels, probabilities, attention."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from classifiers import classifier_recipe, examples
from forecasts import train_recipe
from regard.cli.main import command_app
from regard.errors import SettingsError
from regard.inspection.interventions import Silenced
from regard.pipelines.load import load
from regard.recipes.recipe_files import load_recipe
from regard.recipes.run_folder import RunFolder

TEXTS = ["the cow cow", "two two", "", "w1 hen w2 n7 n9", "zzz zzz"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    recipe = classifier_recipe(
        folder,
        "gpt",
        "training.steps=60",
        "training.validation.every=20",
        "model.encoder.layers=2",
        "model.max_tokens=8",
    )
    return train_recipe(recipe, folder / "run")


@pytest.fixture(scope="module")
def pipeline(run):
    return load(run, device="cpu")


def classify(*arguments, given=""):
    return CliRunner().invoke(command_app("classify"), list(map(str, arguments)), input=given)


def test_every_text_has_all_labels_in_the_order_of_their_probabilities(pipeline):
    answers = pipeline.classify(TEXTS)
    assert [one.given for one in answers] == TEXTS
    assert [one.label for one in answers[:2]] == ["animal", "number"]
    for one in answers:
        shares = [each.probability for each in one.labels]
        assert {each.label for each in one.labels} == {"animal", "number"}
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1, abs=1e-5)


def test_texts_together_equal_each_alone(pipeline):
    for one, text in zip(pipeline.classify(TEXTS), TEXTS, strict=True):
        alone = pipeline(text)
        assert alone.probability == pytest.approx(one.probability, abs=2e-6)


def test_probabilities_are_calibrated(pipeline):
    logits = np.array([[1.0, 3.0]])
    [[best, _]] = pipeline.likely_labels(logits)
    expected = 1 / (1 + np.exp(-2 / pipeline.task.temperature))
    assert (best.label, best.probability) == ("number", pytest.approx(expected, abs=1e-6))


def test_a_run_that_lost_its_calibration_says_so_and_has_it_fitted_again(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    kept = (copy / "calibration.json").read_bytes()
    (copy / "calibration.json").unlink()
    assert load(copy, device="cpu").task.temperature == 1
    assert "probabilities are not calibrated" in classify(copy, "two").stderr
    result = CliRunner().invoke(command_app("train"), ["--resume", "--out", str(copy)])
    assert result.exit_code == 0, result.output
    assert (copy / "calibration.json").read_bytes() == kept


def test_odd_texts_have_notes(pipeline):
    notes = [one.notes for one in pipeline.classify([*TEXTS, "cat " * 20])]
    assert notes[0] == ("unknown to the model: 1 of 3 tokens",)  # the space before it is none
    assert notes[1] == ()
    assert notes[2] == ("the text is empty: the answer means nothing",)
    assert notes[5] == ("the model reads 6 tokens and leaves out 14",)


def test_a_look_has_the_attention_of_every_token(pipeline):
    look = pipeline.look("two cat")
    maps = look.attention.parts["decoder"]
    assert maps.weights.shape == (2, 2, 4, 4)
    assert maps.rows.words == ("two", "cat")
    assert str(look).startswith(look.labels[0].label)
    assert look.labels == pipeline("two cat").labels
    assert f"two cat → {look.labels[0].label}" in look.page("tiny")
    layers = look.to_json()["attention"]["layers"]
    assert [one["shape"] for one in layers] == [[2, 4, 4]] * 2


def test_an_intervention_changes_the_probabilities(pipeline):
    look = pipeline.look("two cat", changes=[Silenced("decoder", 1, None)])
    before = {one.label: one.probability for one in look.before.labels}
    assert {one.label: one.before for one in look.labels} == before
    assert {one.label: one.probability for one in look.labels} != before


def test_an_encoder_without_attention_says_so(tmp_path):
    recipe = classifier_recipe(tmp_path, "awd-lstm")
    pipeline = load(train_recipe(recipe, tmp_path / "run"), device="cpu")
    with pytest.raises(SettingsError, match="its encoder, awd-lstm, has no attention to look at"):
        pipeline.look("two cat")


def test_pairs_of_texts_have_bars_between_them(tmp_path):
    rows = [(label, text, "hen") for label, text in examples(40)]
    recipe = classifier_recipe(tmp_path, "bert", rows=rows, text=[1, 2])
    pipeline = load(train_recipe(recipe, tmp_path / "run"), device="cpu")
    assert pipeline("two ||| cat").label in pipeline.labels
    look = pipeline.look(["two", "cat"])
    assert look.attention.parts["encoder"].rows.pieces.count("</s>") == 2
    assert look.given in look.page("tiny")
    with pytest.raises(SettingsError, match=r"expected two texts with \|\|\| between them, got 1"):
        pipeline("two")


def test_the_command_prints_a_line_for_each_text(run, tmp_path):
    result = classify(run, "the cow cow", "two two")
    assert result.exit_code == 0, result.output
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == ["animal", "number"]
    assert all(0.5 < float(line[1]) <= 1 for line in lines)
    file = tmp_path / "lines.txt"
    file.write_text("cat\n\ntwo\n")
    assert len(classify(run, "--file", file, "-k", 2).stdout.splitlines()) == 3
    assert "for its lines: --file" in classify(run, file).stderr
    from_stdin = classify(run, "--best", 2, "--json", given="cat\n\ntwo\n").stdout.splitlines()
    found = [json.loads(line) for line in from_stdin]
    assert [one["given"] for one in found] == ["cat", "", "two"]
    assert [len(one["labels"]) for one in found] == [2, 2, 2]


def test_a_look_says_what_ngrams_add(tmp_path):
    recipe = classifier_recipe(tmp_path, "gpt", "model.ngrams=2", "training.steps=2")
    pipeline = load(train_recipe(recipe, tmp_path / "run"), device="cpu")
    odds = []
    for pipeline.task.temperature in (1.0, 0.1):  # by which probabilities are calibrated
        look = pipeline.look("the cow cow")
        assert look.labels[0].label == "animal"
        assert "nats to the evidence for animal: “cow” +" in look.notes[-1]
        odds.append(float(look.notes[-1].split()[2]))
    assert odds[1] == pytest.approx(10 * odds[0], abs=0.1)


def test_the_command_looks_and_draws(run, tmp_path):
    page, picture = tmp_path / "look.html", tmp_path / "look.svg"
    app = command_app("look")
    asked = [str(run), "two", "cat", "--html", str(page), "--svg", str(picture), "--all"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "probability" in result.output
    assert "layer 1, head 1" in result.output
    assert page.stat().st_size > 10_000
    assert picture.exists()


def test_a_run_of_another_task_is_refused(tmp_path):
    RunFolder(tmp_path).save_recipe(load_recipe("travel"))
    error = str(classify(tmp_path, "x").exception)
    assert "its task is translation, not text-classification or picture-classification" in error
    assert error.endswith(f"the command for it is: regard translate {tmp_path}")


def test_a_picture_is_no_text(run, tmp_path):
    picture = tmp_path / "photo.PNG"
    picture.touch()
    error = str(classify(run, picture).exception)
    assert error.startswith(f"{picture}: a picture, and {run} has learned to classify texts")
    assert f"regard classify RUN {picture}" in error
