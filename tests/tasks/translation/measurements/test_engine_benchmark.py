"""How fast a run is, measured in a process of its own."""

import shutil
import sys
from functools import partial

import pytest
import torch

from regard.engines.ctranslate2.export_artifact import EXPORTS_FOLDER
from regard.engines.native import native_engine
from regard.errors import StorageError
from regard.tasks.translation.measurements import engine_benchmark
from regard.tasks.translation.measurements.engine_benchmark import (
    BUDGETS,
    ON_GPU,
    REFERENCE_VARIANT,
    EngineVariant,
    UnavailableVariant,
    VariantTiming,
    list_variants,
    time_variant,
)

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
LINES = ["Jane visite l'Afrique en septembre.", "", "Elle danse."]


def test_a_variant_is_measured(tiny_run, translator):
    found = time_variant(tiny_run, EngineVariant("native", "float32"), LINES, 1)
    assert isinstance(found, VariantTiming), found
    assert found.choice.engine == "native"
    assert found.choice.budget in BUDGETS
    assert min(found.sentences, found.tokens, found.milliseconds, found.megabytes) > 0
    assert len(found.texts) == 3
    assert found.texts[1] == ""


def test_gpu_variants_are_listed_if_there_is_a_gpu(monkeypatch):
    found = list_variants()
    assert found[-1] == REFERENCE_VARIANT
    assert bool(set(found) & set(ON_GPU)) == torch.cuda.is_available()
    monkeypatch.setattr(engine_benchmark, "run_in_worker", lambda work: True)
    assert set(ON_GPU) < set(list_variants())


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("variant", ON_GPU)
def test_a_gpu_is_measured(tiny_run, variant):
    found = time_variant(tiny_run, variant, LINES, 1)
    assert isinstance(found, VariantTiming), found
    assert found.choice.budget >= native_engine.DEFAULT_BUDGET


@pytest.mark.parametrize(
    ("seconds", "chosen"), [((1.0, 0.97, 0.96), 4096), ((1.0, 0.8, 0.9), 1024)]
)
def test_another_budget_must_be_clearly_faster(tiny_run, monkeypatch, seconds, chosen):
    """The engine's own is tried first."""
    seconds_taken = iter(seconds)
    monkeypatch.setattr(engine_benchmark, "_time_stream", lambda *_: next(seconds_taken))
    found = engine_benchmark._measure(tiny_run, EngineVariant("native", "float32"), LINES, 1)
    assert found.choice.budget == chosen
    assert found.sentences == pytest.approx(3 / min(seconds) if chosen == 1024 else 3)


def test_the_export_is_made_by_another_process(tiny_run, tmp_path, monkeypatch):
    """Making an export imports torch, which the measured process must not."""
    pytest.importorskip("ctranslate2")
    copied = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(copied / EXPORTS_FOLDER, ignore_errors=True)
    real, exports = engine_benchmark.run_in_worker, []

    def watched(work):
        exports.append(len(list(copied.glob(f"{EXPORTS_FOLDER}/*"))))
        return real(work)

    monkeypatch.setattr(engine_benchmark, "run_in_worker", watched)
    assert isinstance(
        time_variant(copied, EngineVariant("ctranslate2", "float32"), LINES, 1), VariantTiming
    )
    assert exports == [0, 1]


def test_an_unavailable_variant_has_a_reason(tmp_path):
    found = time_variant(tmp_path / "nothing", EngineVariant("native", "float32"), LINES, None)
    assert found == UnavailableVariant(f"{tmp_path / 'nothing'}: no such folder")


def test_a_full_disk_is_a_transient_failure(monkeypatch, tmp_path):
    def full(work):
        raise StorageError("the disk is full")

    monkeypatch.setattr(engine_benchmark, "run_in_worker", full)
    found = time_variant(tmp_path, EngineVariant("ctranslate2", "int8"), LINES, None)
    assert found == UnavailableVariant("the disk is full", transient=True)


def test_a_measuring_process_that_dies_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(engine_benchmark, "partial", lambda *_: partial(sys.exit, 9))
    found = time_variant(tmp_path, EngineVariant("native", "float32"), LINES, None)
    assert isinstance(found, UnavailableVariant)
    assert found.transient
    assert "ended with status 9" in found.why
    assert "--sentences" in found.why
