import os

import pytest

from regard.decoding.settings import DecodingSettings
from regard.engines.ctranslate2 import export_artifact
from regard.engines.ctranslate2.export_artifact import (
    EXPORTS_FOLDER,
    MODEL_FILE,
    ExportCard,
    ParityReport,
    find_export,
    is_export,
    open_export,
    read_export,
    stamp_weights,
    write_card,
)
from regard.errors import RunError
from regard.manifest import sha256_of_file

PASSED = ParityReport(sentences=2, identical=2, score_difference=0.0, same=2, loss=0.0)


@pytest.fixture
def run(tmp_path):
    """A folder with a recipe, weights and their export."""
    (tmp_path / "recipe.yaml").write_text("name: some")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    folder = tmp_path / EXPORTS_FOLDER / "model-auto-1234"
    folder.mkdir(parents=True)
    (folder / MODEL_FILE).write_bytes(b"model")
    write_card(folder, card(tmp_path))
    return tmp_path


def card(run, **changed):
    made = ExportCard(
        engine="ctranslate2 4.8",
        precision="int8",
        run=run.name,
        weights=stamp_weights(run / "model.safetensors"),
        recipe_sha256=sha256_of_file(run / "recipe.yaml"),
        decoding=DecodingSettings(),
        longest=50,
        positions=None,
        limit=None,
        model_bytes=5,
        gate=PASSED,
    )
    return made.model_copy(update=changed)


def find(run):
    return find_export(run, run / "model.safetensors", "model", "auto")


def test_what_was_written_is_read(run):
    found = find(run)
    assert found.card == card(run)
    assert found == read_export(found.folder) == open_export(found.folder)
    assert is_export(found.folder)
    assert not is_export(run)
    assert read_export(run) is None
    assert find_export(run, run / "model.safetensors", "model", "int16") is None
    assert find_export(run, run / "model.safetensors", "best", "auto") is None


REFUSED = PASSED.model_copy(update={"refused": "it is not close enough"})


@pytest.mark.parametrize(
    ("made", "became", "gate", "asked", "serves"),
    [
        ("auto", "int8", PASSED, "int8", True),
        ("auto", "float32", PASSED, "float32", True),
        ("auto", "float32", PASSED, "int8", False),
        ("int8", "int8", PASSED, "auto", True),
        ("int8", "int8", REFUSED, "auto", False),  # which would go on to float32
        ("auto", "float32", REFUSED, "float32", False),
        ("auto", "float32", REFUSED, "auto", True),  # known to be refused
        ("float32", "float32", PASSED, "auto", False),  # which tries int8
    ],
)
def test_an_export_serves_equivalent_precisions(run, made, became, gate, asked, serves):
    folder = run / EXPORTS_FOLDER / "model-auto-1234"
    write_card(folder, card(run, precision=became, gate=gate))
    folder.rename(folder.with_name(f"model-{made}-1234"))
    found = find_export(run, run / "model.safetensors", "model", asked)
    assert (found is not None) == serves


def test_weights_of_the_same_size_and_time_are_not_read(run, monkeypatch):
    read = []
    monkeypatch.setattr(
        export_artifact,
        "sha256_of_file",
        lambda file: read.append(file.name) or sha256_of_file(file),
    )
    assert find(run) is not None
    assert read == ["recipe.yaml"]


def test_weights_of_another_time_are_read_once(run, monkeypatch):
    os.utime(run / "model.safetensors", ns=(1, 1))
    read = []
    monkeypatch.setattr(
        export_artifact,
        "sha256_of_file",
        lambda file: read.append(file.name) or sha256_of_file(file),
    )
    assert find(run) is not None
    assert find(run).card.weights.mtime_ns == 1
    assert read.count("model.safetensors") == 1


def test_where_the_new_time_cannot_be_noted_they_are_read_each_time(run, monkeypatch):
    os.utime(run / "model.safetensors", ns=(1, 1))

    def refuse(path, content):
        raise export_artifact.StorageError("closed")

    monkeypatch.setattr(export_artifact, "write_atomic", refuse)
    assert find(run) is not None
    assert find(run).card.weights.mtime_ns != 1
    with pytest.raises(export_artifact.StorageError):
        write_card(run, card(run))


@pytest.mark.parametrize("content", [b"WEIGHTS", b"more weights"])
def test_other_weights(run, content):
    (run / "model.safetensors").write_bytes(content)
    os.utime(run / "model.safetensors", ns=(1, 1))
    assert find(run) is None


def test_another_recipe(run):
    (run / "recipe.yaml").write_text("name: other")
    assert find(run) is None
    (run / "recipe.yaml").unlink()
    assert find(run) is None


def test_a_damaged_export(run):
    folder = find(run).folder
    (folder / MODEL_FILE).write_bytes(b"mod")
    assert read_export(folder) is None
    with pytest.raises(RunError, match="a damaged export, or one of another version of regard"):
        open_export(folder)


def test_a_refused_export(run):
    folder = find(run).folder
    refused = PASSED.model_copy(update={"refused": "2 of 2 differ"})
    (folder / MODEL_FILE).unlink()
    write_card(folder, card(run, gate=refused, model_bytes=0))
    assert find(run).card.gate.refused == "2 of 2 differ"
    with pytest.raises(RunError, match="this export was refused: 2 of 2 differ"):
        open_export(folder)
