"""`regard export --to onnx`: what the gate lets through, what it refuses, and the engine."""

import json

import pytest
import torch
from typer.testing import CliRunner

from regard.cli.main import command_app
from regard.engines.onnx.onnx_model import OnnxGraph
from regard.errors import RunError, SettingsError
from regard.exchange.onnx_graphs import Graph, write_graph
from regard.pipelines.exchange.onnx import onnx_export
from regard.pipelines.exchange.onnx.onnx_export import export_onnx
from regard.tasks.translation.pipeline import load

app = command_app("export")


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)


def test_an_export_says_what_the_gate_found(tiny_run, tmp_path):
    shown = run(tiny_run, "--to", "onnx", "--out", tmp_path / "out", "--precision", "int8")
    assert "nats in int8" in shown.stdout
    assert "transformers.js runs it" in shown.stdout
    said = {path.name: json.loads(path.read_text()) for path in (tmp_path / "out").glob("*.json")}
    assert said["onnx.json"]["task"] == "translation"
    assert said["config.json"]["transformers.js_config"] == {"dtype": "q8"}
    assert said["config.json"]["model_type"] == "marian"
    assert said["config.json"]["normalize_before"] is True
    assert said["generation_config.json"]["num_beams"] == 2
    assert {"tokenizer.json", "tokenizer_config.json", "exchange.json"} <= said.keys()
    graphs = {path.name for path in (tmp_path / "out/onnx").iterdir()}
    assert graphs == {"encoder_model_quantized.onnx", "decoder_model_merged_quantized.onnx"}


FACTS = {
    "other_run": {"special_tokens", "why_not"},
    "caption_run": {"encoder", "reads_regions"},
    "vit_run": {"labels", "temperature", "picture_size", "framing", "resampling"},
}


@pytest.mark.parametrize("name", sorted(FACTS))
def test_runs_of_other_tasks_are_exported_too(name, request, tmp_path):
    found = export_onnx(request.getfixturevalue(name), tmp_path / "out")
    if name == "other_run":
        assert found.remark.startswith("not for transformers.js: model.family: rnnsearch: ")
    assert found.report.gate.refused is None
    assert found.report.gate.float32 < 1e-4
    said = json.loads((tmp_path / "out/onnx.json").read_text())
    assert FACTS[name] <= said.keys()


def test_graphs_that_compute_something_else_are_refused(tiny_run, tmp_path, monkeypatch):
    right = onnx_export.write_graphs

    def swapped(model, make_inputs, folder, **options):
        weight = model.decoder[0].cross.project.weight
        before = weight.detach().clone()
        with torch.no_grad():
            weight.copy_(torch.cat([before[32:64], before[:32], before[64:]]))
        files = right(model, make_inputs, folder, **options)
        with torch.no_grad():
            weight.copy_(before)
        return files

    monkeypatch.setattr(onnx_export, "write_graphs", swapped)
    with pytest.raises(RunError, match="not exported, as onnxruntime would give other outputs"):
        export_onnx(tiny_run, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["exchange.json"]
    monkeypatch.undo()
    assert export_onnx(tiny_run, tmp_path / "out").report.gate.refused is None  # it is free


def test_the_engine_writes_the_same_text(tiny_run, translator, tmp_path):
    lines = (tiny_run / "data/train.source.txt").read_text(encoding="utf-8").splitlines()[:40]
    onnx = load(tiny_run, engine="onnx")
    for size in (1, 4):
        beam = translator.settings.beam.model_copy(update={"size": size})
        settings = translator.settings.model_copy(update={"beam": beam})
        wanted = [answer.text for answer in translator.translate(lines, settings)]
        assert [answer.text for answer in onnx.translate(lines, settings)] == wanted
    with pytest.raises(SettingsError, match="cannot record or change attention"):
        onnx.translate(lines[:1], look=True)


def test_clear_errors(tiny_run, tmp_path, monkeypatch):
    with pytest.raises(SettingsError, match="name one that is new or empty with --out"):
        run(tiny_run, "--to", "onnx")
    with pytest.raises(SettingsError, match="int16: for onnx there are float32, int8"):
        run(tiny_run, "--to", "onnx", "--out", tmp_path / "out", "--precision", "int16")
    with pytest.raises(SettingsError, match="the engine onnx runs one model"):
        load(tiny_run, tiny_run, engine="onnx")
    monkeypatch.setattr(onnx_export, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"pip install 'regard\[onnx\]'"):
        export_onnx(tiny_run, tmp_path / "out")


def test_a_weight_that_a_layer_shares_is_not_transposed_in_int8(tmp_path):
    table = torch.nn.Embedding(7, 4)
    shared = torch.nn.Linear(4, 7)
    shared.weight = table.weight

    def answer(tensors):
        return {"answers": shared(table(tensors["input_ids"])[:, 0])}

    given = [{"input_ids": torch.arange(rows)[:, None]} for rows in (2, 3)]
    model = torch.nn.ModuleList([table, shared]).requires_grad_(False)
    file = write_graph(model, Graph("model.onnx", answer, *given), tmp_path)
    onnx_export.quantize([file])
    found = OnnxGraph(file)(given[1])["answers"]
    torch.testing.assert_close(found, answer(given[1])["answers"], atol=0.1, rtol=0.1)
