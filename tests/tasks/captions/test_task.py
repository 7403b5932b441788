import json
import os
import re
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from caption_runs import TRANSFORMER, caption_recipe, train_captioner
from forecasts import Quiet
from regard.errors import CorpusError, RunError, SettingsError
from regard.layers.efficientnet import EfficientNetLite0
from regard.recipes.open_run import open_run
from regard.recipes.recipe_files import load_recipe
from regard.tasks.captions.task import CaptionRecipe, CaptionTask

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def test_a_run_learns_which_shape_is_where(tmp_path):
    sizes = "corpus.generated={train: 200, valid: 20, test: 20}"
    reporter = Quiet()
    steps = ("training.steps=150", "training.validation.every=75")
    path = train_captioner(tmp_path / "run", sizes, *steps, reporter=reporter)
    assert reporter.summary["train"] == "200 pictures, 400 captions"
    assert reporter.summary["vocabulary"] == "14 tokens; unknown in valid: 0.0%"
    run = open_run(path, tasks=["caption"], device=CPU)
    found = run.task.evaluate(run.model, "test")
    assert list(found.numbers)[:4] == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4"]
    assert found.numbers["BLEU-4"] > 20
    assert found.numbers["perplexity"] < 2.5
    assert "nrefs:2" in found.notes[1]
    assert "show-attend-tell" in (path / "card.md").read_text()
    assert json.loads((path / "scores.json").read_text())["BLEU-1"] == found.numbers["BLEU-1"]


@pytest.mark.parametrize("model", ["model.attention=hard", "model.attention=none", TRANSFORMER])
def test_every_model_is_trained_and_measured(model, tmp_path):
    path = train_captioner(tmp_path / "run", model, "training.steps=12")
    assert json.loads((path / "scores.json").read_text())["perplexity"] < 20


def test_too_few_positions_are_told_before_training(tmp_path):
    learned = (TRANSFORMER, "model.transformer.positions=learned")
    for positions in (36, 35):
        limit = f"model.transformer.max_positions={positions}"
        task = CaptionTask(caption_recipe(*learned, limit), tmp_path)
        task.prepare(print, resumed=False)
        if positions == 36:
            task.check_model(task.new_model(), print)
    with pytest.raises(SettingsError, match=r"36 regions, captions up to .*_positions to 36"):
        task.check_model(task.new_model(), print)


def test_what_is_looked_at_is_computed_once(tmp_path):
    notes = []
    for name in ("one", "two"):
        (tmp_path / name / "data").mkdir(parents=True)
        task = CaptionTask(caption_recipe(), tmp_path / name)
        task.prepare(notes.append, resumed=False)
    stores = list((tmp_path / "cache" / "pictures").iterdir())
    assert len(stores) == 3  # those of train, valid and test
    before = [(file, file.stat().st_mtime_ns) for store in stores for file in store.iterdir()]
    task.store("train")
    assert before == [(file, file.stat().st_mtime_ns) for file, _ in before]


def test_two_runs_are_compared_on_the_same_pictures(tmp_path):
    paths = [
        train_captioner(tmp_path / name, f"training.seed={seed}", "training.steps=10")
        for name, seed in (("one", 1), ("two", 2))
    ]
    one, two = (open_run(path, tasks=["caption"], device=CPU) for path in paths)
    found = one.task.compare(one.model, two.task, two.model, "train")
    assert [comparison.name for comparison in found][-1] == "CIDEr-D"
    assert all(0 < comparison.p_value <= 1 for comparison in found)
    same = one.task.compare(one.model, one.task, one.model, "test")
    assert {comparison.delta for comparison in same} == {0.0}


def own_pictures(folder, count=30):
    for number in range(count):
        Image.new("RGB", (30, 20), (8 * number, 0, 0)).save(folder / f"{number}.png")
    lines = (f"{number}.png\tPicture {['one', 'two'][number % 2]} .\n" for number in range(count))
    (folder / "captions.tsv").write_text("".join(lines))
    return f"corpus={{train: {{pictures: {folder}, captions: {folder}/captions.tsv}}}}"


def test_pictures_of_ones_own_are_trained_on_in_small_letters_without_punctuation(tmp_path):
    (tmp_path / "own").mkdir()
    path = train_captioner(tmp_path / "run", own_pictures(tmp_path / "own"), "training.steps=10")
    pieces = json.loads((path / "tokenizer.json").read_text())["pieces"]
    assert sorted(pieces) == [" one", " picture", " two"]


def test_pictures_that_changed_are_noticed(tmp_path):
    (tmp_path / "own").mkdir()
    path = train_captioner(tmp_path / "run", own_pictures(tmp_path / "own"), "training.steps=10")
    run = open_run(path, tasks=["caption"], device=CPU)
    (tmp_path / "own" / "captions.tsv").write_text("0.png\tx\n" * 3)
    with pytest.raises(CorpusError, match="too few"):
        run.task.evaluate(run.model, "test")
    own_pictures(tmp_path / "own", 12)
    run = open_run(path, tasks=["caption"], device=CPU)
    with pytest.raises(RunError, match="no longer has all of its test pictures"):
        run.task.evaluate(run.model, "test")


def test_bad_lines_and_pictures_are_skipped_and_counted(tmp_path):
    own, data = tmp_path / "own", tmp_path / "run" / "data"
    own.mkdir()
    data.mkdir(parents=True)
    own_pictures(own)
    (own / "3.png").write_bytes(b"no picture")
    with (own / "captions.tsv").open("a") as file:
        file.write("no tab\ngone.png\tx\n")
    files = CaptionRecipe.corpus_of_files(
        {}, {"train": {"data": f"{own}/captions.tsv", "skip_bad": True}}
    )
    corpus = f"corpus={json.dumps(files)}"
    notes = []
    CaptionTask(caption_recipe(corpus), data.parent).prepare(notes.append, resumed=False)
    assert [note.partition("captions.tsv: ")[2].partition(" at ")[0] for note in notes] == [
        "skipped 1 lines without a picture and its caption, the first",
        "skipped 1 missing pictures, the first",
        "skipped 1 pictures that cannot be read, the first",
    ]
    again = CaptionTask(caption_recipe(corpus), data.parent)
    again.load()  # without looking for bad pictures once more
    names = [picture for split in ("train", "valid", "test") for picture in again._pictures(split)]
    assert len(names) == 29


def test_a_frozen_encoder_is_kept_in_the_run(tmp_path):
    torch.manual_seed(1)
    weights = tmp_path / "cnn.safetensors"
    state = EfficientNetLite0().state_dict()
    names = {re.sub(r"(^|\.)([a-z]\w+)(?=\.)", r"\1_\2", key): key for key in state}
    save_file({name: state[key].contiguous() for name, key in names.items()}, weights)
    frozen = f"model.encoder={{kind: efficientnet-lite0, block: 15, weights: {weights}}}"
    few = "corpus.generated={train: 8, valid: 2, test: 2}"
    path = train_captioner(tmp_path / "run", frozen, few, "training.steps=5")
    weights.unlink()
    run = open_run(path, tasks=["caption"], device=CPU)
    assert run.model.grid == (7, 7)
    assert run.task.evaluate(run.model, "valid").numbers["perplexity"] > 1


def test_an_encoder_that_is_not_there_is_said_before_anything_is_computed(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    with pytest.raises(SettingsError, match=r"model\.encoder\.weights: .*no such file; name the"):
        train_captioner(tmp_path / "run", "model.encoder={kind: efficientnet-lite0}")
    monkeypatch.delenv("REGARD_DATA")
    with pytest.raises(SettingsError, match=r"not given, and \$REGARD_DATA is not set"):
        train_captioner(tmp_path / "other", "model.encoder={kind: efficientnet-lite0}")


@pytest.mark.parametrize("name", ["squares", "flickr8k", "flickr8k-hard", "flickr8k-mean",
                                  "flickr8k-transformer"])  # fmt: skip
def test_recipes_of_the_shelf_are_captioners(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.task == "caption"


DATA = Path(os.environ.get("REGARD_DATA", "/nowhere"))


@pytest.mark.skipif(not (DATA / "pictures").is_dir(), reason="needs pictures/ in $REGARD_DATA")
def test_the_vocabulary_of_flickr8k_has_words_that_occur_five_times(tmp_path):
    task = CaptionTask(load_recipe("flickr8k"), tmp_path)
    (tmp_path / "data").mkdir()
    for split, pictures in task.corpus.splits.items():
        rows = (json.dumps({"picture": one.name, "captions": one.captions}) for one in pictures)
        (tmp_path / "data" / f"{split}.jsonl").write_text("\n".join(rows))
    words = [word for words in task._training_words() for word in words]
    assert len(words) > 300_000
    assert {"dog", "'s", "t-shirt"} <= set(words)
    assert not {".", ",", "Dog"} & set(words)
