"""What is written for CTranslate2 is read back; what cannot be honoured is refused by its name."""

import json

import pytest
import torch

from regard.errors import RunError
from regard.exchange import ctranslate2_folder
from regard.exchange.ctranslate2_file import read_variables
from regard.exchange.ctranslate2_folder import read_ct2_folder
from regard.exchange.ctranslate2_spec import write_model
from tests.exchange.test_ctranslate2_spec import KINDS, transformer

pytest.importorskip("ctranslate2")


@pytest.mark.parametrize("kind", KINDS)
def test_exports_read_back_are_the_same_model(kind, tmp_path):
    model, settings = transformer(**KINDS[kind])
    write_model(model, settings, tmp_path, precision="float32", positions=30)
    found = read_ct2_folder(tmp_path)
    assert found.settings == settings.model_copy(update={"dropout": 0.0})
    expected = model.state_dict()
    assert found.weights.keys() == expected.keys()
    for name, weight in expected.items():
        assert found.weights[name].equal(weight), name


@pytest.mark.parametrize(
    ("precision", "steps"), [("int8", 127), ("int16", 1024), ("float16", 1024)]
)
def test_lower_precisions_read_back_are_near(precision, steps, tmp_path):
    model, settings = transformer(norm="pre")
    write_model(model, settings, tmp_path, precision=precision, positions=30)
    found = read_ct2_folder(tmp_path)
    for name, weight in model.state_dict().items():
        gap = (found.weights[name] - weight).abs().max()
        assert gap <= 0.51 * weight.abs().max() / steps + 1e-6, name


def edited(folder, name, change):
    path = folder / name
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


@pytest.mark.parametrize(
    ("file", "change", "reason"),
    [
        ("config.json", lambda x: x | {"add_source_bos": True}, "add_source_bos is true"),
        ("config.json", lambda x: x | {"decoder_start_token": None}, "no token begins"),
        ("config.json", lambda x: x | {"quantization_type": 1}, "quantization_type"),
        ("target_vocabulary.json", lambda x: x[:-1], "18 tokens, and model.bin embeddings of 19"),
        ("target_vocabulary.json", lambda x: [*x[:-1], x[4]], "occurs twice"),
        ("source_vocabulary.json", lambda x: {"a": 1}, "cannot be read"),
    ],
)
def test_other_files_are_checked(file, change, reason, tmp_path):
    model, settings = transformer()
    write_model(model, settings, tmp_path, precision="float32", positions=30)
    edited(tmp_path, file, change)
    with pytest.raises(RunError, match=reason):
        read_ct2_folder(tmp_path)


def renamed(folder, old, new):
    path, (old, new) = folder / "model.bin", (one.encode() for one in (old, new))
    assert len(old) == len(new)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("TransformerSpec", "WhisperSpeechXY", "is a WhisperSpeechXY"),
        (
            "encoder/layer_1/ffn/linear_1/bias",
            "encoder/layer_1/ffn/linear_1/bxxx",
            "holds no .*bias",
        ),
        ("decoder/alibi", "decoder/alien", "decoder/alien, which is not supported here"),
        ("encoder/layer_0/", "encoder/layer_7/", "not numbered from 0"),
    ],
)
def test_variables_that_are_missing_or_left_over_are_named(old, new, reason, tmp_path):
    model, settings = transformer()
    write_model(model, settings, tmp_path, precision="float32", positions=30)
    renamed(tmp_path, old, new)
    with pytest.raises(RunError, match=reason):
        read_ct2_folder(tmp_path)


def test_attributes_that_change_a_model_are_refused(tmp_path, monkeypatch):
    from ctranslate2.specs import transformer_spec

    model, settings = transformer()
    init = transformer_spec.TransformerDecoderSpec.__init__

    def with_zeros(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self.start_from_zero_embedding = True

    monkeypatch.setattr(transformer_spec.TransformerDecoderSpec, "__init__", with_zeros)
    write_model(model, settings, tmp_path, precision="float32", positions=30)
    with pytest.raises(RunError, match="start_from_zero_embedding is true"):
        read_ct2_folder(tmp_path)


def test_tables_that_are_no_sinusoids_are_learned_ones(tmp_path):
    model, settings = transformer(positions="learned", max_positions=12)
    with torch.no_grad():
        model.target_positions.table.weight.add_(1.0)
    write_model(model, settings, tmp_path, precision="float32", positions=30)
    assert read_ct2_folder(tmp_path).settings.max_positions == 12


def test_names_of_embeddings_in_older_files_are_known(tmp_path, monkeypatch):
    model, settings = transformer()
    write_model(model, settings, tmp_path, precision="float32", positions=30)
    older = {
        "encoder/embeddings_0/weight": "encoder/embeddings/weight",
        "encoder/scale_embeddings": "encoder/embeddings/multiply_by_sqrt_depth",
        "decoder/scale_embeddings": "decoder/embeddings/multiply_by_sqrt_depth",
    }

    def read(path):
        found = read_variables(path)
        tensors = {older.get(name, name): tensor for name, tensor in found.tensors.items()}
        assert older.keys().isdisjoint(tensors)
        return found._replace(tensors=tensors)

    monkeypatch.setattr(ctranslate2_folder, "read_variables", read)
    assert read_ct2_folder(tmp_path).settings == settings.model_copy(update={"dropout": 0.0})
