import shutil

import pytest
import torch
from safetensors.torch import load_file

from regard.errors import RunError, SettingsError
from regard.pipelines.exchange.compact_run import compact_precision, export_compact
from regard.recipes.run_folder import RunFolder, load_data
from regard.recipes.verification import verify
from regard.tasks.translation.pipeline import load
from regard.training.checkpoints import load_weights, save_weights


@pytest.fixture(scope="module")
def copy(tiny_run, tmp_path_factory):
    out = tmp_path_factory.mktemp("compact") / "copy"
    size = export_compact(tiny_run, out)
    assert size == sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    return out


def test_weights_are_stored_in_16_bits_and_loaded_in_32(tiny_run, copy):
    stored, loaded = load_file(copy / "model.safetensors"), load_weights(copy / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    assert {tensor.dtype for tensor in loaded.values()} == {torch.float32}
    for name, tensor in load_weights(tiny_run / "model.safetensors").items():
        assert torch.equal(loaded[name], tensor.half().float())


def test_it_translates_and_is_scored_as_the_run(copy, tiny_run, translator):
    pairs = list(load_data(RunFolder(copy)).read("test"))
    assert pairs == list(load_data(RunFolder(tiny_run)).read("test"))
    small = load(copy, device="cpu", engine="native")
    assert next(small.model.parameters()).dtype == torch.float32
    sources = [pair.source for pair in pairs]
    texts = [[one.text for one in each.translate(sources)] for each in (small, translator)]
    same = sum(a == b for a, b in zip(*texts, strict=True))
    assert same >= 0.8 * len(pairs)


def test_it_is_whole_and_has_nothing_that_training_alone_needs(copy):
    assert verify(copy).findings == ()
    names = {file.relative_to(copy).as_posix() for file in copy.rglob("*")}
    assert names & {"weights", "checkpoints", "data/train.source.txt", "metrics.jsonl"} == set()
    assert "stored in float16" in (copy / "card.md").read_text("utf-8")


def test_what_float16_cannot_hold_is_refused(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run, tmp_path / "run")
    weights = load_weights(run / "model.safetensors")
    next(iter(weights.values())).view(-1)[0] = 1e5
    save_weights(run / "model.safetensors", weights)
    with pytest.raises(RunError, match="too large for float16; give --precision bfloat16"):
        export_compact(run, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    export_compact(run, tmp_path / "copy", precision="bfloat16")


def test_precisions():
    assert [compact_precision(one) for one in ("auto", "float32")] == ["float16", "float32"]
    with pytest.raises(SettingsError, match="int8: choose float16"):
        compact_precision("int8")
