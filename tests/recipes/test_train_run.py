import json
import math
import shutil
from typing import ClassVar

import pytest
import torch

from forecasts import forecast_recipe
from number_pairs import PAIRS, write_files
from regard.atomic_io import remove_file, write_atomic
from regard.errors import RunError, SettingsError, TrainingError
from regard.recipes import train_run
from regard.recipes.open_run import open_run
from regard.recipes.recipe_files import make_recipe
from regard.recipes.run_folder import RunFolder, load_data
from regard.recipes.train_run import train
from regard.tasks.forecast.task import ForecastRecipe, ForecastTrainingSettings
from regard.tasks.translation.training_inputs import prepare
from regard.training.checkpoints import Progress
from tiny import MODELS, RAW, Quiet, tiny_recipe

CPU = torch.device("cpu")


def trained(path, *overrides, stop=lambda: False, reporter=None, family="transformer"):
    return train(
        tiny_recipe(*overrides, family=family),
        RunFolder(path),
        device=CPU,
        reporter=reporter or Quiet(),
        stop_requested=stop,
    )


def test_a_run_is_all_in_its_folder(tiny_run):
    found = {str(file.relative_to(tiny_run)) for file in tiny_run.rglob("*") if file.is_file()}
    assert {
        "recipe.yaml",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer.model",
        "metrics.jsonl",
        "card.md",
        "scores.json",
        "data/prepared.json",
        "data/train.pairs",
        "data/test.source.txt",
        "weights/best.safetensors",
        "weights/last.safetensors",
        "weights/average.safetensors",
    } <= found
    assert not [name for name in found if name.endswith((".part", ".pt", ".pkl"))]


def test_training_learns_and_is_measured(tiny_run):
    lines = [json.loads(line) for line in (tiny_run / "metrics.jsonl").read_text().splitlines()]
    steps = {kind: [line for line in lines if line["kind"] == kind] for kind in ("train", "valid")}
    assert [line["step"] for line in steps["valid"]] == [15, 30, 45, 60]
    assert steps["valid"][-1]["loss"] < steps["valid"][0]["loss"] - 0.2
    for line in steps["valid"]:
        assert line["perplexity"] == pytest.approx(math.exp(line["loss"]))
        assert {"bleu", "chrf", "exact"} < line.keys()


def test_a_reporter_is_told_of_everything(tmp_path):
    reporter = Quiet()
    steps = ("training.steps=4", "training.validation.every=2", "training.log_every=1")
    progress = trained(tmp_path, *steps, reporter=reporter)
    assert progress.step == 4
    *notes, last = reporter.notes
    assert notes == [
        "reading and cleaning travel",
        "learning the vocabulary",
        "tokenising 300 pairs of train",
        "tokenising 30 pairs of valid",
        "the warm-up of 10 steps is longer than the 4 steps of training: the learning rate never "
        "reaches its peak; lower training.schedule.warmup, to about a tenth of the steps",
    ]
    assert "averaged" in last
    assert reporter.steps == [1, 2, 3, 4]
    assert reporter.validated_at == [2, 4]
    assert len(reporter.prepared_with.inputs.train) == 300


def test_stopped_and_resumed_equals_unbroken(tiny_run, tmp_path):
    """Tokens in Arrow's format, as in runs of before, are made again; all else is kept."""
    steps = iter(range(1, 1000))
    progress = trained(tmp_path, stop=lambda: next(steps) >= 37)
    assert progress.step == 37
    data = tmp_path / "data"
    write_atomic(data / "train.arrow", b"ARROW1")
    remove_file(data / "train.pairs")
    reporter = Quiet()
    assert trained(tmp_path, reporter=reporter).step == 60
    anew, averaged = reporter.notes
    assert anew == "tokenising 300 pairs of train"
    assert "averaged" in averaged
    assert not (data / "train.arrow").exists()
    for file in ("model.safetensors", "weights/last.safetensors"):
        assert (tmp_path / file).read_bytes() == (tiny_run / file).read_bytes()


@pytest.mark.parametrize(
    ("override", "group"),
    [
        ("corpus.generated.train=299", "corpus"),
        ("text.source.size=601", "text"),
        ("model.width=64", "model"),
    ],
)
def test_what_a_run_is_cannot_change(tiny_run, tmp_path, override, group):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    with pytest.raises(
        SettingsError,
        match=f"run: its run was started with another {group}, which can no longer change; train "
        "a new run in another folder with --out",
    ):
        trained(path, override)
    saved = RunFolder(path).load_recipe()
    assert saved == tiny_recipe("evaluation.tokenize=13a").with_choices_of(saved)  # nothing has


def test_a_run_of_another_task_is_not_gone_on_with(tmp_path):
    folder = RunFolder(tmp_path)
    folder.save_recipe(forecast_recipe())
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / f"step-000000001-{'0' * 16}.safetensors").touch()
    with pytest.raises(
        SettingsError, match="its run was started with another task, which can no longer"
    ):
        trained(tmp_path)


class PolishedRecipe(ForecastRecipe):
    """A recipe with a second stage of its own."""

    second_stage_group: ClassVar[str] = "polish"
    polish: ForecastTrainingSettings | None = None

    def second_stage_settings(self):
        return self.polish


def test_a_second_stage_is_checked_by_the_name_of_its_own_group(tmp_path, monkeypatch):
    def polished(**values):
        raw = forecast_recipe().model_dump(exclude={"start"})
        return PolishedRecipe.model_validate({**raw, **values})

    monkeypatch.setattr(train_run, "last_progress", lambda folder: Progress(step=8))
    folder, saved = RunFolder(tmp_path), polished(polish={"steps": 10})
    train_run._check_resumable(polished(polish={"steps": 9}), saved, folder)
    with pytest.raises(SettingsError, match=r"8 steps of its polish are done.*polish\.steps=8 or"):
        train_run._check_resumable(polished(polish={"steps": 7}), saved, folder)
    (tmp_path / "refined" / "checkpoints").mkdir(parents=True)
    (tmp_path / "refined" / "checkpoints" / f"step-000000001-{'0' * 16}.safetensors").touch()
    changed = polished(polish={"steps": 10}, training={"steps": 99})
    with pytest.raises(SettingsError, match="its polish has started from the final weights"):
        train_run._check_resumable(changed, saved, folder)


def test_a_run_goes_on_with_the_corpus_that_it_read(tmp_path):
    corpus = {"train": write_files(tmp_path, PAIRS), "split": {"valid": 7, "test": 5}}
    overrides = (f"corpus={json.dumps(corpus)}", "text.source.kind=words", "training.save_every=1")
    trained(tmp_path / "run", *overrides, "training.steps=1")
    data, reporter = load_data(RunFolder(tmp_path / "run")), Quiet()
    write_files(tmp_path, PAIRS[:50])
    progress = trained(tmp_path / "run", *overrides, "training.steps=2", reporter=reporter)
    assert progress.step == 2
    assert [
        one for one in reporter.notes if "the run continues with the data it read before" in one
    ]
    assert load_data(RunFolder(tmp_path / "run")) == data


def test_how_a_run_learns_may_change(tiny_run, tmp_path):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    assert trained(path, "training.steps=63", "decoding.beam.size=3").step == 63
    assert RunFolder(path).load_recipe().training.steps == 63


def test_a_run_keeps_the_tokenizer_of_its_scores(tiny_run, tmp_path):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    with pytest.raises(
        SettingsError, match=r"selected by scores under evaluation.tokenize 13a, which"
    ):
        trained(path, "evaluation.tokenize=char")


def test_a_run_keeps_the_score_by_which_its_weights_are_chosen(tiny_run, tmp_path):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    with pytest.raises(
        SettingsError, match=r"chosen by loss, which cannot be compared to bleu: le"
    ):
        trained(path, "training.steps=70", "training.validation.by=bleu")
    assert RunFolder(path).load_recipe().training.validation.by == "loss"


def test_what_was_chosen_is_kept_when_a_run_goes_on(tiny_run, tmp_path, monkeypatch):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    saved = RunFolder(path).load_recipe()
    assert not saved.auto
    assert saved.decoding.rules.limit(3) == 26
    monkeypatch.setattr(
        "regard.tasks.translation.training_inputs.resolve_tokens",
        lambda *_: pytest.fail("chosen anew"),
    )
    monkeypatch.setattr(
        "regard.tasks.translation.training_inputs.collect_text_facts",
        lambda _: pytest.fail("read anew"),
    )
    trained(path, "training.steps=61", "training.batch_tokens=auto", "model.width=auto")
    chosen = RunFolder(path).load_recipe()
    assert chosen == saved.with_values({"training.steps": 61})


def test_what_says_auto_is_chosen_before_anything_is_trained(tmp_path):
    places = (
        "text.source.size",
        "model.width",
        "training.batch_tokens",
        "training.schedule.warmup",
    )
    progress = trained(tmp_path, "training.steps=1", *(f"{place}=auto" for place in places))
    assert progress.step == 1
    recipe = RunFolder(tmp_path).load_recipe()
    assert not recipe.auto
    assert (recipe.model.width, recipe.training.batch_tokens) == (128, 1024)
    assert open_run(tmp_path, device=CPU).recipe == recipe


def test_a_run_that_goes_on_is_not_finished(tiny_run, tmp_path):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    with pytest.raises(SettingsError):
        trained(path, "model.width=64")
    assert RunFolder(path).finished()  # nothing has begun
    trained(path, "training.steps=63", stop=lambda: True)
    assert not RunFolder(path).finished()
    assert not (path / "scores.json").exists()


def test_what_needs_a_gpu_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(TrainingError, match="capture replays CUDA graphs"):
        trained(tmp_path / "run", "training.capture=true")
    assert not (tmp_path / "run").exists()


def test_a_comparison_is_no_place_for_a_run(tmp_path):
    (tmp_path / "plan.json").touch()
    with pytest.raises(RunError, match="holds a comparison; train in another folder with --out"):
        trained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_before_the_first_checkpoint_anything_may_change(tmp_path):
    folder = RunFolder(tmp_path)
    folder.save_recipe(tiny_recipe("model.width=64"))
    prepare(tiny_recipe("model.width=64"), folder.path, print)
    progress = trained(tmp_path, "training.steps=1", "text.source.size=500")
    assert progress.step == 1
    run = open_run(tmp_path, device=CPU)
    assert run.tokenizers.source.size == 500


def test_nobody_else_may_train_there(tmp_path):
    with RunFolder(tmp_path).locked(), pytest.raises(RunError, match="in use by another process"):
        trained(tmp_path)


def test_learned_positions_must_reach(tmp_path):
    learned = ("model.positions=learned", "model.max_positions=20")
    with pytest.raises(
        SettingsError,
        match=r"a sentence has \d+ tokens, and the model has positions for 20: raise "
        r"model\.max_positions, or lower training\.max_tokens",
    ):
        trained(tmp_path, *learned)


def test_validation_leaves_out_pairs_that_have_no_positions(tmp_path):
    learned = ("model.positions=learned", "model.max_positions=21", "training.max_tokens=20")
    reporter = Quiet()
    progress = trained(tmp_path / "1", *learned, "training.steps=1", reporter=reporter)
    assert progress.step == 1
    (note,) = [one for one in reporter.notes if one.startswith("validation")]
    lengths = reporter.prepared_with.inputs.valid.lengths()
    longer = (lengths.source > 20) | (lengths.target > 20)
    assert f"leaves out {longer.sum()} of {len(longer)} pairs" in note
    none = ("model.positions=learned", "model.max_positions=6", "training.max_tokens=5")
    with pytest.raises(SettingsError, match=r"none of the \d+ validation pairs has at most 5"):
        trained(tmp_path / "2", *none)


def test_subwords_are_sampled_anew(tmp_path):
    overrides = ("text.source.sampling=0.3", "training.steps=3", "training.log_every=1")
    reporter = Quiet()
    trained(tmp_path, *overrides, reporter=reporter)
    assert reporter.steps == [1, 2, 3]


def test_two_vocabularies_cannot_share_embeddings(tmp_path):
    raw = {**RAW, "model": MODELS["transformer"], "text": {"joint": False}}
    with pytest.raises(SettingsError, match="embeddings 'shared' needs one vocabulary"):
        train(
            make_recipe(raw, ["text.source.size=500"], where="tiny"),
            RunFolder(tmp_path),
            device=CPU,
            reporter=Quiet(),
            stop_requested=lambda: False,
        )
