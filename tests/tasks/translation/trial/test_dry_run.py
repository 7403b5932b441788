import json
import random

import pytest
import torch

from regard.corpora.corpus import Pair
from regard.errors import CorpusError, RunError
from regard.recipes.recipe_files import make_recipe
from regard.recipes.run_folder import RunFolder
from regard.tasks.translation.trial import dry_run
from regard.tasks.translation.trial.dry_run import (
    CorpusSizes,
    PerSide,
    RunSeconds,
    dry_run_training,
)
from regard.text.build import save_tokenizers, train_tokenizers
from regard.text.settings import TextSettings, TokenizerSettings

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(dry_run, "MIN_TIMED_SECONDS", 0.0)
    monkeypatch.setattr(dry_run, "MIN_TIMED_STEPS", 2)
    monkeypatch.setattr(dry_run, "DECODED_SENTENCES", 5)


def recipe(*overrides, kind="words"):
    return make_recipe(
        {
            "name": "tiny",
            "corpus": {"name": "copy"},
            "text": {"source": {"kind": kind, "size": 400}, "joint": False},
            "model": {
                "family": "transformer",
                "encoder_layers": 1,
                "decoder_layers": 1,
                "width": 8,
                "heads": 2,
                "feed_forward": 16,
                "embeddings": "target",
            },
            "training": {
                "steps": 100,
                "batch_tokens": 128,
                "validation": {"every": 30, "sentences": 50},
            },
        },
        overrides,
        where="test",
    )


def pairs(count):
    rng = random.Random(1)
    lines = [" ".join(rng.choices("abcdefgh", k=rng.randint(1, 9))) for _ in range(count)]
    return [Pair(f"{line} {n % 7}", line.upper()) for n, line in enumerate(lines)]


def tried(wanted, sample, sizes=None, run=None, told=None):
    return dry_run_training(
        wanted,
        sample,
        sizes or CorpusSizes(len(sample), 20),
        device=CPU,
        run=run,
        notify=(told if told is not None else []).append,
    )


def test_a_trial_measures_what_training_takes(tmp_path):
    told = []
    found = tried(recipe(), pairs(300), CorpusSizes(3000, 200), tmp_path, told)
    assert (found.pairs, found.all_pairs, found.steps.batch_tokens) == (300, 3000, 128)
    assert found.device.startswith("cpu, ")
    assert found.text.vocabulary == (20, 13)  # special ones, a space, letters; digits in the source
    assert found.text.unknown == PerSide(0, 0)
    assert found.text.tokens_per_word.target == pytest.approx(1.0)
    assert found.steps.parameters > 1000
    assert (
        found.steps.checkpoint > 3 * 4 * found.steps.parameters
    )  # the weights and Adam's two means
    assert found.disk > 3 * found.steps.checkpoint
    assert found.disk_free > 0
    assert 0 < found.steps.memory < found.memory_available
    assert found.steps.step_seconds > 0
    # a batch of up to 128 positions holds some 20 pairs: 100 steps see 3,000 pairs about once
    assert found.epochs == pytest.approx(0.6, abs=0.3)
    assert 20 < found.steps.tokens_per_second * found.steps.step_seconds <= 128
    assert found.times.training == pytest.approx(100 * found.steps.step_seconds)
    assert found.times.total == sum(found.times)
    assert told[-1] == "trying some steps of training"
    assert list(tmp_path.iterdir()) == []


def test_a_trial_takes_the_vocabulary_of_the_run_that_it_begins_with(tmp_path):
    started, told = RunFolder(tmp_path), []
    started.save_recipe(recipe())
    settings = TextSettings(source=TokenizerSettings(kind="words"), joint=False)
    save_tokenizers(train_tokenizers(lambda: ["a b c"], lambda: ["x y"], settings), tmp_path)
    found = tried(recipe(f"start.run={tmp_path}"), pairs(300), run=tmp_path, told=told)
    assert found.text.vocabulary == (8, 7)  # special ones, a space and letters
    assert "learning the vocabulary" not in told


def test_times_grow_with_the_corpus_and_validations():
    small, large = (
        tried(recipe(), pairs(200), CorpusSizes(train, 20), dry_run.Path("."))
        for train in (200, 200_000)
    )
    assert large.times.preparing > 20 * small.times.preparing
    assert large.disk > small.disk


def test_accumulated_batches_count(tmp_path):
    once = tried(recipe(), pairs(200), run=tmp_path)
    thrice = tried(recipe("training.accumulate=3"), pairs(200), run=tmp_path)
    assert thrice.epochs == pytest.approx(3 * once.epochs)


def test_unknown_words_and_long_pairs_are_counted(tmp_path):
    wanted = recipe("text.source.size=9", "training.max_tokens=6")
    found = tried(wanted, pairs(300), run=tmp_path)
    assert found.text.unknown.source > 0.2
    assert 0.2 < found.text.too_long < 0.8


def test_sampled_subwords_are_tried_as_they_are_trained(tmp_path):
    found = tried(recipe("text.source.sampling=0.1", kind="bpe"), pairs(300), run=tmp_path)
    assert found.steps.tokens_per_second > 0


def test_a_batch_that_does_not_fit_is_halved(tmp_path, monkeypatch):
    budgets, real = [], dry_run.fit

    def small_memory(model, task, settings, **rest):
        budgets.append(settings.batch_tokens)
        if len(budgets) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        if len(budgets) == 2:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return real(model, task, settings, **rest)

    monkeypatch.setattr(dry_run, "fit", small_memory)
    found = tried(recipe("training.batch_tokens=512"), pairs(200), run=tmp_path)
    assert budgets == [512, 256, 128]
    assert found.steps.batch_tokens == 128


def test_a_model_that_never_fits_is_an_error(tmp_path, monkeypatch):
    def no_memory(*args, **rest):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(dry_run, "fit", no_memory)
    with pytest.raises(RunError, match=r"does not fit on cpu.* even with 64 tokens in a batch"):
        tried(recipe(), pairs(200), run=tmp_path)


def test_other_errors_are_not_taken_for_lack_of_memory(tmp_path, monkeypatch):
    def broken(*args, **rest):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(dry_run, "fit", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        tried(recipe(), pairs(200), run=tmp_path)


def test_a_sample_too_small_is_an_error(tmp_path):
    with pytest.raises(CorpusError, match="5 pairs are too few"):
        tried(recipe(), pairs(5), run=tmp_path)


def test_the_longest_pairs_come_first(tmp_path, monkeypatch):
    real, widths = dry_run.fit, []

    def watched(model, task, *args, **rest):
        def noted(start, shard):
            for placed in task.batches(start, shard):
                widths.append(placed.batch.inputs.ids.shape[1])
                yield placed

        return real(model, task._replace(batches=noted), *args, **rest)

    monkeypatch.setattr(dry_run, "fit", watched)
    tried(recipe(), pairs(300), run=tmp_path)
    assert len(widths) > 3
    assert widths[0] == max(widths)


def test_a_slow_machine_is_not_watched_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(dry_run, "MIN_TIMED_SECONDS", 1e9)
    monkeypatch.setattr(dry_run, "MAX_TIMED_SECONDS", 0.0)
    assert tried(recipe(), pairs(200), run=tmp_path).steps.step_seconds > 0


def test_a_run_folder_that_is_not_there_yet_has_the_disk_of_its_parent(tmp_path):
    found = tried(recipe(), pairs(200), run=tmp_path / "runs" / "mine")
    assert found.disk_free > 0


def test_json_holds_all_numbers(tmp_path):
    found = tried(recipe(), pairs(200), run=tmp_path)
    said = json.loads(json.dumps(found.to_json()))
    assert said["parameters"] == found.steps.parameters
    assert said["unknown"] == {"source": 0.0, "target": 0.0}
    assert said["times"]["total"] == pytest.approx(found.times.total)


def test_times_sum_up():
    assert RunSeconds(1.0, 2.0, 4.0).total == 7.0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_trial_on_a_gpu(tmp_path):
    device = torch.device("cuda")
    found = dry_run_training(
        recipe(), pairs(300), CorpusSizes(300, 20), device=device, run=tmp_path, notify=print
    )
    assert found.device == torch.cuda.get_device_name(device)
    assert 4 * 4 * found.steps.parameters < found.steps.memory < found.memory_available
