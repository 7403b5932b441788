"""ViT and Swin of transformers become classifiers of ours that compute the same, and go back."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import regard
from regard.errors import RunError
from regard.exchange.huggingface.vision import pictures, swin
from regard.pipelines.exchange.export_run import export_folder
from regard.pipelines.exchange.import_run import import_folder
from tests.pipelines.exchange.test_from_ctranslate2 import refused

transformers = pytest.importorskip("transformers")

VIT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": 12,
    "patch_size": 4,
    "num_labels": 3,
}
SWIN = {
    "embed_dim": 8,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 2,
    "image_size": 16,
    "patch_size": 2,
    "num_labels": 3,
}
KINDS = {
    "vit": ("ViT", VIT),
    "vit without biases": ("ViT", VIT | {"qkv_bias": False}),
    "vit with another activation": ("ViT", VIT | {"hidden_act": "gelu_new", "num_labels": 7}),
    "vit of one layer": ("ViT", VIT | {"num_hidden_layers": 1, "layer_norm_eps": 1e-3}),
    "vit of many heads": ("ViT", VIT | {"num_attention_heads": 8, "patch_size": 2}),
    "vit of two classes": ("ViT", VIT | {"num_labels": 2, "hidden_act": "silu", "image_size": 8}),
    "swin": ("Swin", SWIN),
    "swin without biases": ("Swin", SWIN | {"qkv_bias": False, "layer_norm_eps": 1e-3}),
    "swin of one stage": ("Swin", SWIN | {"depths": [3], "num_heads": [4], "window_size": 4}),
    "swin of three stages": (
        "Swin",
        SWIN | {"depths": [1, 2, 1], "num_heads": [1, 2, 4], "hidden_act": "relu"},
    ),
    "swin whose last window is the picture": ("Swin", SWIN | {"window_size": 4, "mlp_ratio": 2.5}),
    "swin of odd windows": ("Swin", SWIN | {"image_size": 12, "window_size": 3, "num_labels": 5}),
}
PROCESSOR = {
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "resample": 2,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}


def save(folder, kind, **changes):
    """A folder of a model with random weights, norms and biases, too."""
    name, config = KINDS[kind]
    config = getattr(transformers, f"{name}Config")(**config | changes)
    torch.manual_seed(3)
    model = getattr(transformers, f"{name}ForImageClassification")(config)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    size = config.image_size
    processor = PROCESSOR | {"size": {"height": size, "width": size}}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return model.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_the_same_and_the_way_back_gives_the_same_bytes(kind, tmp_path):
    save(tmp_path / "theirs", kind)
    gate = import_folder(tmp_path / "theirs", tmp_path / "run").report.gate
    assert gate.refused is None
    assert gate.float64 < 1e-9
    assert gate.float32 < 1e-4
    export_folder(tmp_path / "run", tmp_path / "back")
    first, second = (load_file(tmp_path / x / "model.safetensors") for x in ("theirs", "back"))
    assert first.keys() == second.keys()
    assert all(first[name].equal(second[name]) for name in first)


@pytest.mark.parametrize("kind", ["vit", "swin"])
def test_a_picture_is_classified_and_looked_into(kind, tmp_path):
    model = save(tmp_path / "theirs", kind)
    import_folder(tmp_path / "theirs", tmp_path / "run")
    size = model.config.image_size
    pixels = np.random.default_rng(0).integers(0, 255, (size, size, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    run = regard.load(tmp_path / "run", device="cpu")
    mean, deviation = (torch.tensor(PROCESSOR[x]) for x in ("image_mean", "image_std"))
    values = ((torch.from_numpy(pixels) / 255 - mean) / deviation).permute(2, 0, 1)[None]
    with torch.inference_mode():
        shares = model(pixel_values=values).logits.softmax(-1)[0]
    found = run(tmp_path / "a.png")
    assert found.label == f"LABEL_{int(shares.argmax())}"
    assert found.probability == pytest.approx(float(shares.max()), abs=1e-5)
    assert run.look(tmp_path / "a.png").heads


def test_pictures_are_squeezed_as_theirs_are(tmp_path):
    save(tmp_path / "theirs", "vit")
    import_folder(tmp_path / "theirs", tmp_path / "run")
    wide = np.zeros((12, 36, 3), np.uint8)
    wide[:, :12] = 255  # a third of the picture, which its middle lacks
    Image.fromarray(wide).save(tmp_path / "wide.png")
    run = regard.load(tmp_path / "run", device="cpu")
    features = run.task.features
    [square] = features.compute([regard.images.picture_files.read_picture(tmp_path / "wide.png")])
    assert square[:, :, :3].min() > 200
    assert square[:, :, 6:].max() == 0
    assert any("all of it, squeezed" in note for note in run(tmp_path / "wide.png").notes)


def swapped(*args, **kwargs):
    entries = list(pictures.layer_entries(*args, **kwargs))
    inner, outer = (
        n for n, x in enumerate(entries) if "layernorm" in x.parts[0].name and "weight" in x.ours
    )
    one, two = entries[inner], entries[outer]
    entries[inner], entries[outer] = one._replace(parts=two.parts), two._replace(parts=one.parts)
    return entries


def test_planted_lies_are_refused(tmp_path, monkeypatch):
    save(tmp_path / "theirs", "swin")
    with monkeypatch.context() as patch:
        patch.setattr(swin, "layer_entries", swapped)
        refused(tmp_path / "theirs", tmp_path / "one", "would give other outputs")
    with monkeypatch.context() as patch:
        patch.setitem(regard.exchange.huggingface.config.ACTIVATIONS, "gelu", "gelu_tanh")
        refused(tmp_path / "theirs", tmp_path / "two", "would give other outputs")
    path = tmp_path / "theirs" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(RunError, match="damaged, truncated"):
        import_folder(tmp_path / "theirs", tmp_path / "three")


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("vit", {"image_size": [12, 8]}, "only squares"),
        ("vit", {"hidden_act": "prelu"}, "hidden_act is 'prelu': supported are"),
        ("swin", {"window_size": 8}, "the last stage has only 4 patches a side"),
    ],
)
def test_switches_that_are_not_honoured_are_refused_by_name(kind, changes, reason, tmp_path):
    save(tmp_path, kind)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(RunError, match=reason):
        import_folder(tmp_path, tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"do_center_crop": True, "crop_size": 4}, "crop_size is 4"),
        ({"resample": 4}, "resample is 4"),
        ({"image_std": [1]}, "three numbers"),
        ({"image_mean": [10**400, 0, 0]}, "three numbers up to 1,000"),
        ({"image_std": [1e-320, 1, 1]}, "in float64 its logits differ by inf"),
        ({"size": {"shortest_edge": 12}}, "size"),
        ({"image_processor_type": "CLIPImageProcessor"}, "image_processor_type is 'CLIPImage"),
        ({"feature_extractor_type": "DeiTFeatureExtractor"}, "feature_extractor_type is 'DeiT"),
        ({"do_pad": True}, "do_pad is True"),
        ({"crop_pct": 0.9}, "crop_pct is 0.9: not supported here"),
    ],
)
def test_other_ways_to_read_pictures_are_refused(change, reason, tmp_path):
    save(tmp_path, "vit")
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RunError, match=reason):
        import_folder(tmp_path, tmp_path / "run")
    path.unlink()
    with pytest.raises(RunError, match=r"holds no preprocessor_config\.json"):
        import_folder(tmp_path, tmp_path / "run")


def test_settings_of_other_versions_that_change_no_pixel_are_honoured(tmp_path):
    save(tmp_path / "folder", "vit")
    path = tmp_path / "folder" / "preprocessor_config.json"
    fast = {"image_processor_type": "ViTImageProcessorFast", "data_format": "channels_first"}
    unset = dict.fromkeys(("do_pad", "device", "do_center_crop", "disable_grouping", "new_one"))
    path.write_text(json.dumps(json.loads(path.read_text()) | fast | unset))
    assert import_folder(tmp_path / "folder", tmp_path / "run").report.gate.refused is None


def test_a_class_too_many_is_refused(tmp_path):
    save(tmp_path, "vit")
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    tensors["classifier.bias"] = torch.zeros(4)
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(
        RunError,
        match=r"classifier\.bias has the shape \(4,\), but its config\.json needs \(3,\)",
    ):
        import_folder(tmp_path, tmp_path / "run")
