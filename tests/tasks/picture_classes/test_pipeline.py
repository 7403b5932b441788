import json
import re

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from picture_runs import SWIN, save_shape, train_picture_classifier
from regard.errors import PictureError, SettingsError
from regard.inspection.interventions import Silenced
from regard.inspection.recording.patch_attention import (
    PatchLayerWeights,
    build_patch_attention,
    head_counts,
    rollout,
)


@pytest.fixture(scope="module")
def swin_run(shape_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("swin")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        return train_picture_classifier(folder / "run", shape_folder, SWIN, "training.steps=2")


@pytest.fixture
def red(tmp_path):
    return save_shape(tmp_path / "red.png", "red", 77)


def test_pictures_have_labels_whatever_they_are(vit_run, tmp_path, red):
    pipeline = regard.load(vit_run, device="cpu")
    wide = tmp_path / "wide.png"
    Image.fromarray(np.full((40, 90, 3), (40, 60, 230), np.uint8)).save(wide)
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no picture")
    answers = pipeline.classify([str(red), str(bad), str(wide)])
    assert [one.label for one in answers] == ["red", "", "blue"]
    assert "not a picture" in answers[1].error
    assert any("90 × 40 pixels: the square in the middle" in note for note in answers[2].notes)
    assert sum(one.probability for one in answers[0].labels) == pytest.approx(1, abs=1e-5)
    assert pipeline(red).label == "red"
    with pytest.raises(PictureError, match="not a picture"):
        pipeline(bad)


def test_only_pictures_that_are_enlarged_are_said_to_be(vit_run, tmp_path):
    pipeline, notes = regard.load(vit_run, device="cpu"), []
    for number, side in enumerate(pipeline.task.features.size + more for more in (-1, 0, 1)):
        file = tmp_path / f"{number}.png"
        Image.new("RGB", (side, side)).save(file)
        notes.append(pipeline(file).notes)
    assert [len(some) for some in notes] == [1, 0, 0]
    assert notes[0][0].endswith("enlarged")


def test_a_folder_is_all_of_its_pictures(vit_run, shape_folder):
    pipeline = regard.load(vit_run, device="cpu")
    assert len(pipeline.find([str(shape_folder)])) == 30
    assert pipeline.names_examples


@pytest.mark.parametrize("name", ["vit_run", "swin_run"])
def test_a_look_shows_every_head(name, request, red):
    pipeline = regard.load(request.getfixturevalue(name), device="cpu")
    look = pipeline.look([str(red)])
    weights = look.attention.maps.weights
    assert weights.shape == ((2, 2, 2, 16) if name == "vit_run" else (3, 2, 2, 64))
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    first = "class token" if name == "vit_run" else "all patches"
    assert look.attention.words == (first, "rollout")
    assert json.loads(json.dumps(look.to_json()))["attention"]["rows"] == [first, "rollout"]
    held = re.search(r'id="look">(.*?)</script>', look.page("run"), re.DOTALL)[1]
    document = json.loads(held)
    grids = [one["grid"] for one in document["parts"]["encoder"]["layers"]]
    assert grids == ([[4, 4]] * 2 if name == "vit_run" else [[8, 8], [8, 8], [4, 4]])
    assert document["source"]["picture"]["first"] == int(name == "vit_run")
    assert re.search(r" \d+\.\d%$", document["target"]["text"])  # as the viewer writes it
    heads = [one["shape"][0] for one in document["parts"]["encoder"]["layers"]]
    assert len(document["without"]) == sum(count + (count > 1) for count in heads)
    assert len(look.plot(layer=1, head=0).axes) == 3  # the picture, the head and the rollout
    assert [name for name, _ in look.panels(1, None)] == ["head 0", "head 1", "rollout"]
    last = look.attention.maps.weights[-1, 0, 1]
    assert torch.equal(look.panels(None, None)[1][1].flatten(), last)  # through all layers
    with pytest.raises(SettingsError, match="head: layer 1 has 2, counted from 0; got 2"):
        look.show(layer=1, head=2)
    assert str(look).startswith(look.labels[0].label)


def test_a_head_can_be_silenced(swin_run, red):
    pipeline = regard.load(swin_run, device="cpu")
    changes = [Silenced("encoder", layer, None) for layer in range(2)]
    look = pipeline.look(str(red), changes=changes)
    assert look.before is not None
    assert look.labels[0].before is not None
    assert {one.label: one.probability for one in look.labels} != {
        one.label: one.probability for one in look.before.labels
    }
    with pytest.raises(SettingsError, match=r"give one PICTURE .* got 2"):
        pipeline.look([str(red), str(red)])


def softmaxed(*shape):
    return torch.randn(shape).softmax(-1)


def test_rollout_multiplies_the_layers_with_their_residuals():
    torch.manual_seed(0)
    layers = [PatchLayerWeights(softmaxed(2, 5, 5), (2, 2), True) for _ in range(2)]
    first, second = ((layer.weights.mean(0) + torch.eye(5)) / 2 for layer in layers)
    torch.testing.assert_close(rollout(layers)[1], second @ first)
    found = build_patch_attention(layers, np.zeros((4, 4, 3), np.uint8)).maps.weights
    wanted = (second @ first)[0, 1:]
    torch.testing.assert_close(found[1, 0, 1], wanted / wanted.sum())


def test_merged_patches_share_their_weight():
    torch.manual_seed(0)
    fine = PatchLayerWeights(softmaxed(2, 16, 16), (4, 4), False)
    coarse = PatchLayerWeights(softmaxed(4, 4, 4), (2, 2), False)
    assert rollout([fine, coarse])[1].shape == (4, 16)
    found = build_patch_attention([fine, coarse], np.zeros((4, 4, 3), np.uint8)).maps.weights
    assert found.shape == (2, 4, 2, 16)
    seen = coarse.weights.mean(1)[3].view(2, 2)
    torch.testing.assert_close(found[1, 3, 0].view(4, 4)[2:, :2], (seen[1, 0] / 4).expand(2, 2))
    torch.testing.assert_close(found[0, 2, 0], found[0, :2, 0].mean(0))  # it has two heads
    assert head_counts([fine, coarse]) == (
        "heads: layers 0 to 0 have 2, layers 1 to 1 have 4; where a layer has fewer, their mean is "
        "shown"
    )
    assert head_counts([fine, fine]) == ""
