"""The run that comes with the package: small, whole, right, and left as it was installed."""

import os
import subprocess

import pytest
import torch
from safetensors import safe_open

import regard
from regard.alignment.run_alignment import load_measured_alignment
from regard.engines.engine_tuning import EngineConfig, EngineMeasurement, save_tuned_engine
from regard.errors import SettingsError, StorageError
from regard.pipelines.exchange.onnx.onnx_export import open_onnx_run
from regard.recipes.open_run import open_run
from regard.recipes.paths import PACKAGED_RUN
from regard.recipes.verification import verify

TRANSLATIONS = {
    "Jane visite l'Afrique en septembre.": "Jane visits Africa in September.",
    "Elle ne la visite pas.": "She does not visit it.",
    "Jane ne va pas la visiter en septembre.": "Jane is not going to visit it in September.",
    "Il ne dort jamais.": "He never sleeps.",
    "Elle part.": "She leaves.",
    "Paul aime la plage.": "Paul loves the beach.",
}
"""Sentences of the lectures, the documentation and the help."""

FASTEST = EngineConfig(engine="native", precision="float32", workers=1, budget=64)
MEASURED = EngineMeasurement(machine="any", date="2026-01-01", fastest=FASTEST)


def files():
    return {file: file.stat() for file in PACKAGED_RUN.rglob("*") if file.is_file()}


def test_it_is_small_and_whole_and_has_a_card():
    assert sum(stat.st_size for stat in files().values()) < 3e6
    assert verify(PACKAGED_RUN).findings == ()
    assert "fr → en" in (PACKAGED_RUN / "card.md").read_text("utf-8")
    with safe_open(PACKAGED_RUN / "model.safetensors", "pt") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"F16"}  # noqa: SIM118


def test_it_translates_as_the_documentation_says_and_writes_nothing():
    before = files()
    translator = regard.load(device="cpu")
    answers = translator.translate(list(TRANSLATIONS))
    assert [answer.text for answer in answers] == list(TRANSLATIONS.values())
    looked = translator("Jane visite l'Afrique en septembre.", look=True)
    assert sorted(looked.attention.alignment()) == [(i, i) for i in range(5)]
    assert files() == before


def test_no_export_is_kept_in_the_package():
    for path in (PACKAGED_RUN, os.path.relpath(PACKAGED_RUN)):
        with pytest.raises(SettingsError, match="no export is saved in the installed package"):
            regard.load(path, engine="ctranslate2")


def export_for_ctranslate2(run):
    exporter = pytest.importorskip("regard.engines.ctranslate2.exporter")
    exporter.export_into_run(run, "model", "float32")


@pytest.mark.parametrize(
    ("what", "keep"),
    [
        ("no export is", export_for_ctranslate2),
        ("no graphs are", lambda run: open_onnx_run(run.folder.path)),
        ("no measurement is", lambda run: save_tuned_engine(run.folder.path, MEASURED)),
        ("no choice of an alignment is", lambda run: load_measured_alignment(run).save(run)),
    ],
)
def test_nothing_is_kept_in_the_package(what, keep):
    before = files()
    run = open_run(PACKAGED_RUN, device=torch.device("cpu"))
    with pytest.raises(StorageError, match=f"{what} kept in the .* package; instead: regard exp"):
        keep(run)
    assert files() == before


def test_git_and_so_the_wheel_leaves_none_of_it_out():
    """A wheel has the files of the package that git does not ignore."""
    names = [str(file) for file in files()]
    ignored = subprocess.run(
        ["git", "check-ignore", *names], cwd=PACKAGED_RUN, capture_output=True, text=True
    )
    assert ignored.stdout == ""
