"""How fast a run is, measured in a process of its own."""

import shutil
import sys
from functools import partial

import pytest
import torch

from regard.errors import StorageError
from regard.serving import measuring, native
from regard.serving.exported import FOLDER
from regard.serving.measuring import (
    BUDGETS,
    EXACT,
    ON_GPU,
    Missing,
    Trial,
    Way,
    find_ways,
    measure_way,
)

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
LINES = ["Jane visite l'Afrique en septembre.", "", "Elle danse."]


def test_a_way_is_measured(tiny_run, translator):
    found = measure_way(tiny_run, Way("native", "float32"), LINES, 1)
    assert isinstance(found, Trial), found
    assert found.choice.engine == "native"
    assert found.choice.budget in BUDGETS
    assert min(found.sentences, found.tokens, found.milliseconds, found.megabytes) > 0
    assert len(found.texts) == 3
    assert found.texts[1] == ""


def test_ways_on_a_gpu_are_tried_where_there_is_one(monkeypatch):
    found = find_ways()
    assert found[-1] == EXACT
    assert bool(set(found) & set(ON_GPU)) == torch.cuda.is_available()
    monkeypatch.setattr(measuring, "apart", lambda makes, gone: iter([True]))
    assert set(ON_GPU) < set(find_ways())


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("way", ON_GPU)
def test_a_gpu_is_measured(tiny_run, way):
    found = measure_way(tiny_run, way, LINES, 1)
    assert isinstance(found, Trial), found
    assert found.choice.budget >= native.BUDGET


@pytest.mark.parametrize(
    ("seconds", "chosen"), [((1.0, 0.97, 0.96), 4096), ((1.0, 0.8, 0.9), 1024)]
)
def test_another_budget_must_be_clearly_faster(tiny_run, monkeypatch, seconds, chosen):
    """The engine's own is tried first."""
    took = iter(seconds)
    monkeypatch.setattr(measuring, "_time_stream", lambda *_: next(took))
    [found] = measuring._measure(tiny_run, Way("native", "float32"), LINES, 1)
    assert found.choice.budget == chosen
    assert found.sentences == pytest.approx(3 / min(seconds) if chosen == 1024 else 3)


def test_the_export_is_made_by_another_process(tiny_run, tmp_path, monkeypatch):
    """Whoever makes it holds torch, which the way that is measured does without."""
    pytest.importorskip("ctranslate2")
    copied = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(copied / FOLDER, ignore_errors=True)
    real, exports = measuring.apart, []

    def watched(make, gone):
        exports.append(len(list(copied.glob(f"{FOLDER}/*"))))
        return real(make, gone)

    monkeypatch.setattr(measuring, "apart", watched)
    assert isinstance(measure_way(copied, Way("ctranslate2", "float32"), LINES, 1), Trial)
    assert exports == [0, 1]


def test_why_a_way_is_not_there_is_said(tmp_path):
    found = measure_way(tmp_path / "nothing", Way("native", "float32"), LINES, None)
    assert found == Missing(f"{tmp_path / 'nothing'}: no such folder")


def test_a_full_disk_is_a_passing_thing(monkeypatch, tmp_path):
    def full(make, gone):
        raise StorageError("the disk is full")

    monkeypatch.setattr(measuring, "apart", full)
    found = measure_way(tmp_path, Way("ctranslate2", "int8"), LINES, None)
    assert found == Missing("the disk is full", passing=True)


def test_of_a_process_that_ends_too_soon_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(measuring, "partial", lambda *_: partial(sys.exit, 9))
    found = measure_way(tmp_path, Way("native", "float32"), LINES, None)
    assert isinstance(found, Missing)
    assert found.passing
    assert "ended with status 9" in found.why
    assert "--sentences" in found.why
