import json
import shutil
from functools import partial

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from forecasts import Quiet
from picture_runs import (
    SWIN,
    picture_folders,
    picture_recipe,
    save_shape,
    train_picture_classifier,
)
from regard.errors import CorpusError, PictureError, RunError
from regard.images.augmentation import AugmentationSettings
from regard.models.contracts import PICTURE_LABELS
from regard.models.vision.vit import Vit, VitSettings
from regard.recipes import train_run
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder
from regard.tasks.families.split_files import SplitFiles
from regard.tasks.picture_classes.task import PictureClassification, augmented_loss
from regard.training.loss import batch_loss
from regard.training.weight_transfer import transfer_weights
from regard.types import Batch, Pixels

CPU = torch.device("cpu")
TASK = "picture-classification"


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path):
    return picture_folders(tmp_path / "pictures")


@pytest.mark.parametrize("overrides", [(), (SWIN,)], ids=["vit", "swin"])
def test_it_trains_and_is_evaluated(tmp_path, folder, overrides):
    run = train_picture_classifier(tmp_path / "run", folder, *overrides)
    loaded = open_run(run, tasks=[TASK], device=CPU)
    assert loaded.task.labels == ("blue", "green", "red")
    assert {split: len(loaded.task.label_ids(split)) for split in ("train", "valid", "test")} == {
        "train": 18, "valid": 6, "test": 6,
    }  # fmt: skip
    scores = json.loads((run / "scores.json").read_text())
    assert scores["split"] == "test"
    assert 0 <= scores["accuracy"] <= 100


def test_it_learns_colours(vit_run):
    assert json.loads((vit_run / "scores.json").read_text())["accuracy"] == 100


@pytest.mark.parametrize("overrides", [(), (SWIN,)], ids=["vit", "swin"])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path, folder, overrides):
    recipe = picture_recipe(folder, *overrides)
    train = partial(train_run.train, recipe, device=CPU, reporter=Quiet())
    train(RunFolder(tmp_path / "whole"), stop_requested=lambda: False)
    steps = iter(range(100))
    train(RunFolder(tmp_path / "parts"), stop_requested=lambda: next(steps) == 6)
    train(RunFolder(tmp_path / "parts"), stop_requested=lambda: False)
    whole, parts = (
        load_file(tmp_path / name / "weights" / "last.safetensors") for name in ("whole", "parts")
    )
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


@pytest.mark.parametrize("overrides", [(), (SWIN,)], ids=["vit", "swin"])
def test_the_rows_of_labels_are_taken_for_the_same_labels_alone(tmp_path, folder, overrides):
    tasks = []
    for name, colours in {"one": ("red", "blue"), "two": ("green", "red")}.items():
        pictures = picture_folders(tmp_path / f"{name} pictures", 10, colours)
        task = PictureClassification(picture_recipe(pictures, *overrides), tmp_path / name)
        task.prepare(print, resumed=False)
        tasks.append(task)
    own, given = (task.new_model() for task in tasks)
    before, rows = own.output.weight.clone(), [task.row_names() for task in tasks]
    done = transfer_weights(own, given.state_dict(), own_rows=rows[0], given_rows=rows[1])
    assert tasks[0].labels == ("blue", "red")
    assert torch.equal(own.output.weight[0], before[0])
    assert torch.equal(own.output.weight[1], given.output.weight[1])
    assert {"output.weight (1 of 2 rows)", "output.bias (1 of 2 rows)"} <= {*map(str, done.taken)}


def test_labels_of_texts_are_not_those_of_pictures(tmp_path):
    model = Vit(VitSettings(picture_size=8, width=8, heads=2, layers=1), 2)
    bias, labels = {"output.bias": torch.ones(2)}, ("blue", "red")
    rows = {"own_rows": {PICTURE_LABELS: labels}, "given_rows": {"labels": labels}}
    assert not transfer_weights(model, bias, **rows).taken


def test_without_changes_the_loss_is_that_of_all_classifiers():
    torch.manual_seed(0)
    model = Vit(VitSettings(picture_size=8, width=8, heads=2, layers=1), 3)
    pixels = torch.randint(0, 256, (5, 3, 8, 8), dtype=torch.uint8)
    batch = Batch(Pixels(pixels), None, None, torch.tensor([0, 2, 1, 1, 0]))
    plain = AugmentationSettings()
    found = augmented_loss(model, batch, classes=3, augmentation=plain, smoothing=0.1)
    wanted = batch_loss(model, batch, 0.1)
    torch.testing.assert_close((found.loss, found.nll), (wanted.loss, wanted.nll))


def prepare(folder, path, *overrides):
    recipe, notes = picture_recipe(folder, *overrides), []
    task = PictureClassification(recipe, path)
    task.prepare(notes.append, resumed=False)
    return notes


def test_an_empty_class_is_an_error(tmp_path, folder):
    (folder / "yellow").mkdir()
    (folder / "yellow" / "notes.txt").write_text("none yet")
    with pytest.raises(CorpusError, match=r"yellow: a class without pictures: .* add some, or"):
        prepare(folder, tmp_path / "run")


def test_a_class_with_one_picture_is_said(tmp_path, folder):
    save_shape(folder / "yellow" / "one.png", "yellow")
    notes = prepare(folder, tmp_path / "run")
    assert any("only one training example has each of these labels: 'yellow'" in n for n in notes)
    assert any("no example of test has these labels: 'yellow'" in note for note in notes)


def test_unlike_sizes_and_pictures_outside_of_classes_are_said(tmp_path, folder):
    Image.new("RGB", (90, 60), (200, 0, 0)).save(folder / "red" / "wide.png")
    save_shape(folder / "stray.png", "red")
    notes = prepare(folder, tmp_path / "run")
    assert any("2 different sizes, from 48 × 48 to 90 × 60 pixels: the square" in n for n in notes)
    assert any("left out, because they are in no class: 1 picture" in note for note in notes)


def test_a_folder_without_classes_is_an_error(tmp_path, folder):
    with pytest.raises(CorpusError, match=r"red: has no subfolders, which would be the class"):
        prepare(folder / "red", tmp_path / "run")
    with pytest.raises(CorpusError, match=r"nowhere: no folder of pictures: No such file"):
        prepare(folder / "nowhere", tmp_path / "run")
    shutil.rmtree(folder / "red")
    shutil.rmtree(folder / "green")
    with pytest.raises(CorpusError, match=r"examples of two labels or more .* all \d+ have 'blue'"):
        prepare(folder, tmp_path / "run")


def test_a_label_never_seen_in_training_is_an_error(tmp_path, folder):
    test = picture_folders(tmp_path / "test", 2, ("red", "yellow"))
    with pytest.raises(CorpusError, match=r"test has labels that no training .* has: 'yellow'"):
        prepare(folder, tmp_path / "run", f"corpus={{train: {folder}, test: {test}}}")


def test_bad_pictures_end_it_or_are_skipped(tmp_path, folder):
    (folder / "red" / "bad.png").write_bytes(b"no picture")
    with pytest.raises(PictureError, match=r"bad\.png: not a picture"):
        prepare(folder, tmp_path / "run")
    notes = prepare(folder, tmp_path / "run", "corpus.skip_bad=true")
    assert any("skipped 1 pictures that cannot be read" in note for note in notes)


def test_pictures_that_are_gone_are_named(tmp_path, folder, cache):
    run = train_picture_classifier(tmp_path / "run", folder)
    shutil.rmtree(folder / "blue")
    shutil.rmtree(cache)
    loaded = open_run(run, tasks=[TASK], device=CPU)
    with pytest.raises(RunError, match=r"no longer has all of its test pictures: blue/\d+\.png"):
        loaded.spec.pipeline()(loaded).evaluate("test")


def test_pictures_that_changed_are_named(tmp_path, folder):
    run = train_picture_classifier(tmp_path / "run", folder)
    loaded = open_run(run, tasks=[TASK], device=CPU)
    [(name, digest), *_] = loaded.task.splits.read("test", "picture", "sha256")
    assert len(digest) == 64
    save_shape(folder / name, "green", seed=99)
    with pytest.raises(RunError, match=rf"all of its test pictures: {name} has changed; restore"):
        loaded.spec.pipeline()(loaded).evaluate("test")


def test_pictures_are_found_from_any_folder(tmp_path, folder, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = train_picture_classifier(tmp_path / "run", folder.name)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    loaded = open_run(run, tasks=[TASK], device=CPU)
    loaded.spec.pipeline()(loaded).evaluate("test")
    (tmp_path / "run" / "data" / "folders.json").unlink()  # as in a run of an older version
    loaded = open_run(run, tasks=[TASK], device=CPU)
    with pytest.raises(CorpusError, match="pictures: no folder of pictures"):
        loaded.spec.pipeline()(loaded).evaluate("test")


def test_the_same_pictures_are_in_one_split(tmp_path, folder):
    for file in [*folder.rglob("*.png")]:
        shutil.copy(file, file.with_name(f"copy-{file.name}"))
    assert not any("also in train" in note for note in prepare(folder, tmp_path / "run"))
    splits = SplitFiles(tmp_path / "run")
    digests = {name: {*splits.read(name, "sha256")} for name in ("train", "valid", "test")}
    assert len(set.union(*digests.values())) == sum(map(len, digests.values())) == 30


def test_held_out_pictures_that_are_in_train_are_counted(tmp_path, folder):
    test = picture_folders(tmp_path / "test", 2)
    save_shape(test / "red" / "new.png", "red", seed=99)
    notes = prepare(folder, tmp_path / "run", f"corpus={{train: {folder}, test: {test}}}")
    assert any("also in train: " in note and " of the 7 pictures of test" in note for note in notes)


def test_a_damaged_picture_of_any_split_ends_it_before_training(tmp_path, folder):
    test = picture_folders(tmp_path / "test", 2)
    (test / "red" / "0.png").write_bytes((test / "red" / "0.png").read_bytes()[:100])
    with pytest.raises(PictureError, match=r"0\.png: damaged or truncated"):
        prepare(folder, tmp_path / "run", f"corpus={{train: {folder}, test: {test}}}")
