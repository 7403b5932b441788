"""A run's measured settings are found again, on the machine where they were measured."""

import shutil

import pytest

from regard.engines import engine_tuning
from regard.engines.engine_tuning import (
    CPU_BUDGET,
    MEASURED_FILE,
    EngineConfig,
    EngineMeasurement,
    load_tuned_engine,
    save_tuned_engine,
    this_machine,
)
from regard.errors import StorageError
from regard.tasks.translation.pipeline import load

FASTEST = EngineConfig(engine="ctranslate2", precision="int8", workers=2, budget=1024)


def keep(folder, machine):
    save_tuned_engine(
        folder, EngineMeasurement(machine=machine, date="2026-11-15", fastest=FASTEST)
    )


def test_measurements_of_this_machine_are_loaded(tmp_path):
    assert load_tuned_engine(tmp_path) is None
    keep(tmp_path, this_machine())
    assert load_tuned_engine(tmp_path) == FASTEST


def test_measurements_of_another_machine_are_ignored(tmp_path):
    keep(tmp_path, "an abacus, 10 cores")
    assert load_tuned_engine(tmp_path) is None


@pytest.mark.parametrize("content", ["", "{}", '{"fastest": 3}', "\xff"])
def test_a_damaged_file_is_as_good_as_none(tmp_path, content):
    (tmp_path / MEASURED_FILE).write_text(content, encoding="latin-1")
    assert load_tuned_engine(tmp_path) is None


def test_a_folder_that_cannot_be_written_to_says_so(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        keep(tmp_path / "file", this_machine())


def test_the_processor_has_its_name_from_linux(tmp_path, monkeypatch):
    file = tmp_path / "cpuinfo"
    file.write_text("processor : 0\nmodel name\t: Abacus 3000\nflags : fpu\n")
    monkeypatch.setattr(engine_tuning, "CPU_INFO", file)
    assert this_machine().startswith("Abacus 3000, ")
    monkeypatch.setattr(engine_tuning, "CPU_INFO", tmp_path / "none")
    assert engine_tuning.processor_name()


def test_measured_settings_are_used(tiny_run, tmp_path):
    """Not by an engine that is asked for: nor is what was measured of one used by the other."""
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    native = EngineConfig(engine="native", precision="float32", workers=1, budget=2048)
    save_tuned_engine(
        run, EngineMeasurement(machine=this_machine(), date="2026-11-15", fastest=native)
    )
    found = load(run, device="cpu")
    assert found.engine_for() == "native"
    assert found.budget == 2048
    other = native.model_copy(update={"engine": "ctranslate2", "budget": 512})
    assert load(run, device="cpu", engine="native", choice=other).budget == CPU_BUDGET
