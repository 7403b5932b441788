"""Classifiers of texts as tasks: prepared, trained, resumed, evaluated, compared, loaded."""

import json
import shutil
from itertools import islice

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from classifiers import ENCODERS, classifier_recipe, examples, write_table
from forecasts import Quiet, train_recipe
from regard.atomic_io import write_atomic
from regard.batching.sampler import StreamPosition
from regard.cli.main import command_app
from regard.errors import CorpusError, RunError, SettingsError
from regard.pipelines.load import load
from regard.recipes import train_run
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder
from regard.recipes.transfer.soup import greedy_soup
from regard.tasks.text_classes.task import TextClassification, fitting_lengths
from regard.text.special_tokens import EOS
from regard.training.checkpoints import load_weights, save_weights

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread():
    """With more of them, sums are taken in another order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    recipe = classifier_recipe(folder, "gpt", "training.steps=60", "training.validation.every=20")
    return train_recipe(recipe, folder / "run")


def prepared(tmp_path, *overrides, **options):
    recipe = classifier_recipe(tmp_path, "gpt", *overrides, **options)
    task, notes = TextClassification(recipe, tmp_path / "run"), []
    task.prepare(notes.append, resumed=False)
    return task, notes


@pytest.mark.parametrize(
    ("encoder", "settings"),
    [
        *((name, []) for name in ENCODERS),
        ("elmo", ["model.standardize=true", "model.ngrams=2"]),
        ("gpt", ["training.consistency=2", "model.language_weight=0.5"]),
        ("bert", ["training.optimizer.kind=muon", "training.fine_tuning.unfreeze_every=4"]),
    ],
)
def test_stopped_and_resumed_equals_unbroken(encoder, settings, tmp_path):
    recipe = classifier_recipe(tmp_path, encoder, *settings)
    train_recipe(recipe, tmp_path / "whole")
    for stop in (1, 6):
        steps = iter(range(1, 100))
        train_run.train(
            recipe,
            RunFolder(tmp_path / "broken"),
            device=torch.device("cpu"),
            reporter=Quiet(),
            stop_requested=lambda steps=steps, stop=stop: next(steps) >= stop,
        )
    train_recipe(recipe, tmp_path / "broken")
    for file in ("model.safetensors", "weights/last.safetensors", "calibration.json"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "broken" / file).read_bytes()


def test_pooled_vectors_are_standardized_by_the_training_texts_before_training(tmp_path):
    task, _ = prepared(tmp_path, "model.standardize=true", "model.dropout=0")
    model = task.new_model()
    task.initialize(model)
    texts = task.inputs_of("train")(np.arange(len(task.label_ids("train"))))
    with torch.no_grad():
        pooled = model.row_features(texts)  # there is no hidden layer
    torch.testing.assert_close(pooled.mean(0), torch.zeros(pooled.shape[1]), atol=1e-5, rtol=0)
    torch.testing.assert_close(pooled.std(0, correction=0), torch.ones(pooled.shape[1]))
    assert not model.pooled_mean.requires_grad


def test_low_rank_updates_keep_what_the_run_is_standardized_by(tmp_path):
    standard, rank = "model.standardize=true", "training.fine_tuning.lora.rank=2"
    base = train_recipe(classifier_recipe(tmp_path, "gpt", standard), tmp_path / "base")
    plain = train_recipe(classifier_recipe(tmp_path), tmp_path / "plain")
    rows = [(label, f"{text} more") for label, text in examples(60, 60)]
    tuned = [
        train_recipe(
            classifier_recipe(tmp_path, "gpt", standard, rank, *changed, rows=rows),
            tmp_path / str(len(changed)),
        )
        for changed in (
            (f"start.run={base}", "start.adapter=more"),
            (f"start.run={plain}",),  # what it is standardized by is new
        )
    ]
    before, after, new = (load_weights(run / "model.safetensors") for run in (base, *tuned))
    assert torch.equal(before["pooled_mean"], after["pooled_mean"])
    assert not torch.equal(before["pooled_mean"], new["pooled_mean"])
    assert new["pooled_mean"].any()
    merged = load(base, adapter="more", device="cpu").model.state_dict()
    torch.testing.assert_close(merged, after)


def test_an_adapter_has_the_output_layer_of_fewer_labels_than_its_rank(run, tmp_path):
    base = shutil.copytree(run, tmp_path / "base")
    start = (f"start.run={base}", "start.adapter=more", "training.fine_tuning.lora.rank=4")
    tuned = train_recipe(classifier_recipe(tmp_path, "gpt", *start), tmp_path / "tuned")
    before, after = (load_weights(one / "model.safetensors") for one in (base, tuned))
    assert not torch.equal(before["output.weight"], after["output.weight"])
    assert torch.equal(before["output.bias"], after["output.bias"])
    merged = load(base, adapter="more", device="cpu").model.state_dict()
    torch.testing.assert_close(merged, after)


def test_a_temperature_goes_with_its_weights(run, tmp_path):
    base = shutil.copytree(run, tmp_path / "base")
    rows = [(("number", "animal")[n % 7 > 3], f"w{n % 5} two n{n}") for n in range(60)]
    start = (f"start.run={base}", "start.adapter=more", "training.fine_tuning.lora.rank=4")
    recipe = classifier_recipe(tmp_path, "gpt", *start, rows=rows)
    tuned = load(train_recipe(recipe, tmp_path / "tuned"), device="cpu")
    assert tuned.task.temperature != load(base, device="cpu").task.temperature
    adapted = load(base, adapter="more", device="cpu")
    assert adapted.task.temperature == tuned.task.temperature
    for one, other in zip(adapted.classify(["two two"]), tuned.classify(["two two"]), strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-5)
    notes = adapted.evaluate("test").notes
    assert "examples of the adapter's run" in notes[1]
    calibration = json.dumps({"temperature": 2.0})
    (base / "calibration.json").unlink()
    write_atomic(base / "calibration.json", calibration.encode())
    shutil.copy(base / "weights" / "last.safetensors", changed := tmp_path / "changed.safetensors")
    weights = load_weights(changed)
    save_weights(changed, weights | {"output.bias": weights["output.bias"] + 1})
    other = load(base, weights=str(changed), device="cpu")
    assert other.task.temperature == 1
    said = "calibration.json belongs to the run's own weights, and other weights are used"
    assert said in other.remarks[0]
    assert said in other.evaluate("test").notes[1]
    shutil.copy(base / "model.safetensors", same := tmp_path / "same.safetensors")
    assert load(base, weights=str(same), device="cpu").task.temperature == 2


def test_a_run_keeps_what_its_pooled_vectors_are_standardized_by(tmp_path):
    recipe = classifier_recipe(tmp_path, "gpt", "model.standardize=true", "training.steps=2")
    weights = load_weights(train_recipe(recipe, tmp_path / "run") / "model.safetensors")
    assert weights["pooled_mean"].ne(0).all()
    assert weights["pooled_deviation"].ne(1).all()


def test_a_run_that_starts_over_standardizes_as_at_first(tmp_path):
    recipe = classifier_recipe(tmp_path, "gpt", "model.standardize=true", "training.steps=2")
    run = train_recipe(recipe, tmp_path / "run")
    first = load_weights(run / "model.safetensors")
    for checkpoint in (run / "checkpoints").glob("step-*"):
        checkpoint.write_bytes(b"damaged")
    again = load_weights(train_recipe(recipe, run) / "model.safetensors")
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_ngrams_are_counted_once_and_scaled_by_what_other_texts_say(tmp_path):
    rows = [("xy"[n % 2], f"{'good' if n % 2 else 'bad'} n{n}") for n in range(40)]
    task, _ = prepared(tmp_path, "model.ngrams=2", "text.kind=words", rows=rows)
    model, (file,) = task.new_model(), (tmp_path / "run" / "data").glob("ngrams.*")
    labels = torch.from_numpy(task.label_ids("train"))
    texts = task.inputs_of("train")(np.arange(len(labels)))
    alone, told = model.bayes(texts), model.bayes(texts, labels)
    assert (alone.argmax(1) == labels).all()
    assert (told.argmax(1) == labels).all()  # "good" and "bad" are in other texts too
    assert (told.amax(1) < alone.amax(1)).all()
    features = model.eval().row_features(texts)
    torch.testing.assert_close(features[:, -2:], alone)
    torch.testing.assert_close(model.output.weight[:, -2:], torch.eye(2))
    task.labels = ("x", "y", "z")
    with pytest.raises(RunError, match="no counts of n-grams for 3 labels; restore it from a copy"):
        task.new_model()
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(RunError, match="damaged"):
        task.new_model()
    file.unlink()
    with pytest.raises(RunError, match=r"ngrams.safetensors: gone; restore it from a copy"):
        task.new_model()


def counting_run(tmp_path, name, rows, *overrides):
    recipe = classifier_recipe(tmp_path, "gpt", "model.ngrams=2", *overrides, rows=rows)
    return train_recipe(recipe, tmp_path / name)


def test_weights_for_ngrams_are_taken_for_the_same_labels_alone(tmp_path):
    base = counting_run(tmp_path, "base", None)
    rows = [("zoo" if label == "animal" else label, text) for label, text in examples(60)]
    tuned = counting_run(tmp_path, "tuned", rows, f"start.run={base}")
    assert open_run(tuned, device=CPU).task.labels == (
        "number",
        "zoo",
    )
    begun = load_weights(tuned / "weights" / "start.safetensors")
    torch.testing.assert_close(begun["output.weight"][:, -2:], torch.eye(2))


def test_runs_that_count_other_ngrams_share_no_weights(tmp_path):
    base = counting_run(tmp_path, "base", None)
    start = f"start.run={base}", "training.fine_tuning.lora.rank=4"
    same = counting_run(tmp_path, "same", None, *start)
    other = counting_run(tmp_path, "other", examples(60, 60), *start)
    assert (same / "adapter.safetensors").exists()
    assert not (other / "adapter.safetensors").exists()
    with pytest.raises(SettingsError, match="different vocabularies, labels or counts of n-grams"):
        greedy_soup([same, other], device=CPU)


def test_an_adapter_has_no_counts_of_ngrams(run, tmp_path):
    with pytest.raises(SettingsError, match="adapter more: an adapter holds only weights"):
        classifier_recipe(
            tmp_path, "gpt", "model.ngrams=2", f"start.run={run}", "start.adapter=more",
            "training.fine_tuning.lora.rank=2",
        )  # fmt: skip


def test_a_run_learns_and_says_how_well(run):
    scores = json.loads((run / "scores.json").read_text())
    assert scores["accuracy"] == 100
    assert scores["intervals"]["accuracy"][0] == pytest.approx(75.7, abs=0.1)  # 12 of 12
    assert scores["confusion"]["labels"] == ["animal", "number"]
    assert np.trace(scores["confusion"]["counts"]) == 12
    assert scores["nll_calibrated"] == scores["nll"]  # every validation example is right
    assert "| accuracy | 100 (75.7" in (run / "card.md").read_text()


def test_the_temperature_is_kept_in_the_run(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    found = open_run(copy, tasks=["text-classification"], device=torch.device("cpu"))
    note = found.spec.pipeline()(found).evaluate("test").notes[1]
    said = "calibrated: logits divided by the temperature 1.000, which is not fitted, as all of"
    assert note.startswith(said)
    with torch.no_grad():
        found.model.output.bias[0] += 100  # some validation examples are wrong
    found.task.finish(found.model)
    again = TextClassification(found.task.recipe, copy)
    again.load()
    assert again.temperature == found.task.temperature != 1


def test_what_was_skipped_is_told_also_where_it_leaves_too_little(tmp_path):
    file, notes = tmp_path / "few.tsv", []
    file.write_text("a\tone\nb\n")
    recipe = classifier_recipe(tmp_path, "gpt")
    corpus = {"corpus": {"train": str(file), "skip_bad": True}}
    task = TextClassification(recipe.with_values(corpus), tmp_path / "run")
    with pytest.raises(CorpusError, match="too few to hold out"):
        task.prepare(notes.append, resumed=False)
    assert any("skipped 1 rows without a label and a text" in note for note in notes)


def test_a_summary_shows_labels_in_one_line_and_cut_off(tmp_path):
    task, _ = prepared(tmp_path)
    task.labels = ("\x1b[31mred", "x" * 90_000, *task.labels)
    shown = task.summary()["labels"]
    assert shown.startswith(r"4: \x1b[31mred, xxx")
    assert "x… (90,000 characters), " in shown


def test_every_epoch_has_every_example_and_goes_on_from_anywhere(tmp_path):
    task, _ = prepared(tmp_path, "training.batch_size=6")
    whole = list(islice(task.batches(StreamPosition(0, 0)), 14))  # two epochs of 42 examples
    texts = [
        {tuple(row[row > 0].tolist()) for one in epoch for row in one.batch.inputs.ids}
        for epoch in (whole[:7], whole[7:])
    ]
    assert len(texts[0]) == 42
    assert texts[0] == texts[1]
    again = next(task.batches(whole[4].next_position))
    for one, other in zip(again.batch.tensors(), whole[5].batch.tensors(), strict=True):
        assert torch.equal(one, other)


def test_a_text_stands_between_ends_and_a_long_one_loses_its_end(tmp_path):
    task, notes = prepared(tmp_path, "model.max_tokens=5")
    [ids] = task.to_inputs(task.encode([("cat dog",)])).ids.tolist()
    assert ids == [EOS, *task.tokenizer.encode(["cat dog"])[0], EOS]
    [cut] = task.encode([("cat dog cow hen",)])
    assert (len(cut.ids), cut.left_out) == (4, 1)
    assert any("of more than 5 tokens" in note for note in notes)


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [
        ([3], [3]),
        ([9], [8]),
        ([3, 4], [3, 4]),
        ([2, 9], [2, 6]),
        ([9, 2], [6, 2]),
        ([9, 9], [4, 4]),
    ],
)
def test_of_a_pair_the_longer_text_is_cut_first(lengths, kept):
    assert fitting_lengths(lengths, 8) == kept


def test_a_pair_of_texts_is_one_example(tmp_path):
    rows = [(label, text, "hen") for label, text in examples(40)]
    task, _ = prepared(tmp_path, rows=rows, text=[1, 2])
    one = task.encode([("cat", "hen dog")])[0]
    assert one.ids.count(EOS) == 2
    inputs = task.to_inputs([one, *task.encode([("cat dog", "cow")])])
    assert inputs.segments.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1]]


def test_texts_of_valid_that_are_in_train_are_noted(tmp_path):
    held_out = write_table(tmp_path / "valid.tsv", examples(6))
    _, notes = prepared(tmp_path, valid=held_out, test_share=0.0)
    assert any(note.endswith("also in train: 6 of the 6 texts of valid") for note in notes)


def test_labels_that_cannot_be_learned_or_measured_are_said(tmp_path):
    rows = [*examples(20), ("bird", "a rare robin")]
    _, notes = prepared(tmp_path, rows=rows)
    assert any("only one training example has each of these labels: 'bird'" in n for n in notes)
    held_out = write_table(tmp_path / "valid.tsv", [("fish", "a new one"), ("number", "two")])
    with pytest.raises(CorpusError, match="valid has labels that no training example has: 'fish'"):
        prepared(tmp_path, valid=held_out)
    with pytest.raises(CorpusError, match="two labels or more to train on; all"):
        prepared(tmp_path, rows=[("number", text) for _, text in examples(30)])


def test_two_passes_need_dropout_to_differ_by(tmp_path):
    given = ["training.consistency=2", "model.dropout=0", "model.encoder.dropout=0"]
    with pytest.raises(SettingsError, match=r"consistency 2 compares .*: set model.dropout"):
        classifier_recipe(tmp_path, "gpt", *given)


def test_two_runs_are_compared_on_the_same_texts(run, tmp_path):
    cpu = torch.device("cpu")
    one = open_run(run, tasks=["text-classification"], device=cpu)
    [accuracy, _] = one.spec.pipeline()(one).compare(one.spec.pipeline()(one), "train")
    assert (accuracy.name, accuracy.delta, accuracy.p_value) == ("accuracy", 0, 1)
    recipe = classifier_recipe(tmp_path, rows=list(examples(60, 100)))
    other = open_run(train_recipe(recipe, tmp_path / "other"), device=cpu)
    with pytest.raises(SettingsError, match="other has other test texts or labels"):
        one.spec.pipeline()(one).compare(one.spec.pipeline()(other), "test")


def test_the_command_evaluates(run, tmp_path):
    for file in (tmp_path / "confusions.json", tmp_path / "confusions.png"):
        result = CliRunner().invoke(command_app("evaluate"), [str(run), "--output", str(file)])
        assert result.exit_code == 0, result.output
        assert "95% interval" in result.output
        assert "12 of 12 examples right" in result.output
        assert file.exists()
    refused = CliRunner().invoke(command_app("evaluate"), [str(run), "--output", "confusions.txt"])
    assert "should end in .png, .svg, .pdf or .json" in str(refused.exception)


def test_a_run_is_measured_on_other_examples_with_its_own_labels(run, tmp_path):
    found = open_run(run, tasks=["text-classification"], device=torch.device("cpu"))
    rows = [(one.label, *one.texts) for one in found.task.examples("test")[:5]]
    assert found.spec.pipeline()(found).evaluate("test").confusion.counts.sum() == 12
    file = tmp_path / "other.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    found.task.read_test([str(file)], tmp_path)
    assert found.spec.pipeline()(found).evaluate("test").confusion.counts.sum() == 5
    file.write_text("none\tof these\n")
    with pytest.raises(SettingsError, match=r"label none is not one .*; if line 1 is a header"):
        found.task.read_test([str(file)], tmp_path)


def test_texts_are_cut_the_same_way_always(tmp_path):
    with pytest.raises(SettingsError, match=r"text.sampling 0.1: has no effect on text-classif"):
        classifier_recipe(tmp_path, "gpt", "text={kind: bpe, size: 300, sampling: 0.1}")
