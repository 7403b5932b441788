import json

import pytest
from typer.testing import CliRunner

from regard.cli.commands import bench
from regard.cli.main import command_app
from regard.engines.engine_tuning import MEASURED_FILE, EngineConfig, load_tuned_engine
from regard.errors import RunError, SettingsError
from regard.tasks.translation.measurements.engine_benchmark import (
    ON_CPU,
    ON_GPU,
    REFERENCE_VARIANT,
    EngineVariant,
    UnavailableVariant,
    VariantTiming,
)

app = command_app("bench")

LIGHT = EngineVariant("ctranslate2", "int8")


def trial(variant, speed, texts):
    choice = EngineConfig(
        engine=variant.engine, precision=variant.precision, workers=2, budget=4096
    )
    return VariantTiming(choice, 0.5, speed, 10 * speed, 1000 / speed, 80.0, texts)


FOUND = {
    LIGHT: trial(LIGHT, 200.0, ("a", "c")),
    REFERENCE_VARIANT: trial(REFERENCE_VARIANT, 50.0, ("a", "b")),
}


@pytest.fixture
def measured(monkeypatch):
    """Nothing is timed: the measurements are given."""

    def given(run, variant, texts, beam):
        return FOUND.get(variant, UnavailableVariant("this machine has it not"))

    monkeypatch.setattr(bench, "time_variant", given)


@pytest.fixture(autouse=True)
def a_gpu(monkeypatch):
    """A list of variants with a GPU: finding one takes a process with torch."""
    monkeypatch.setattr(bench, "list_variants", lambda: [*ON_CPU, *ON_GPU, REFERENCE_VARIANT])


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "in.fr"
    path.write_text("Elle danse.\nJane dort.\n")
    return path


def run(folder, *args):
    args = (str(folder), *map(str, args))
    return CliRunner().invoke(app, args, catch_exceptions=False, env={"COLUMNS": "120"})


def test_the_table_and_what_is_kept(tmp_path, sentences, measured):
    shown = run(tmp_path, "--source", sentences)
    title, header, first, last, *said = shown.stdout.splitlines()
    assert title.startswith("2 sentences")
    assert header.split()[:2] == ["engine", "sentences/s"]
    assert first.split() == [
        "ctranslate2",
        "int8",
        "200.0",
        "2,000",
        "5.0",
        "0.50",
        "80",
        "50%",
        "4,096",
    ]
    assert last.split()[-2:] == ["100%", "4,096"]
    assert said[0] == "fastest for a stream: ctranslate2 int8; one by one: ctranslate2 int8"
    assert "without ctranslate2 float32: this machine has it not" in shown.stderr
    assert load_tuned_engine(tmp_path) == FOUND[LIGHT].choice


@pytest.mark.parametrize(
    ("others", "kept"),
    [((LIGHT, REFERENCE_VARIANT), LIGHT), ((REFERENCE_VARIANT,), REFERENCE_VARIANT), ((), None)],
)
def test_what_no_gate_holds_equal_is_not_kept(tmp_path, sentences, monkeypatch, others, kept):
    """It is shown as the fastest, but used only where it is asked for."""
    rough = EngineVariant("native", "int8")
    found = {variant: FOUND[variant] for variant in others} | {
        rough: trial(rough, 900.0, ("x", "y"))
    }
    monkeypatch.setattr(
        bench, "time_variant", lambda run, variant, *_: found.get(variant, UnavailableVariant("no"))
    )
    shown = run(tmp_path, "--source", sentences)
    assert "fastest for a stream: native int8" in shown.stdout
    assert load_tuned_engine(tmp_path) == (FOUND[kept].choice if kept else None)
    assert (f"{MEASURED_FILE}: {kept}" if kept else "nothing is kept") in shown.stderr


def test_where_a_way_could_not_be_measured_this_time_nothing_is_kept(
    tmp_path, sentences, monkeypatch
):
    """With more room on the disk it might be the fastest."""
    missing = dict.fromkeys(
        [LIGHT, *ON_GPU], UnavailableVariant("the disk is full", transient=True)
    )
    found = {REFERENCE_VARIANT: FOUND[REFERENCE_VARIANT], **missing}
    monkeypatch.setattr(
        bench, "time_variant", lambda run, variant, *_: found.get(variant, UnavailableVariant("no"))
    )
    shown = run(tmp_path, "--source", sentences)
    assert "without ctranslate2 int8: the disk is full" in shown.stderr
    assert "nothing is kept: ctranslate2 int8 could not be measured this time" in shown.stderr
    assert load_tuned_engine(tmp_path) is None


def test_a_gpu_is_told_of_and_nothing_of_it_kept(tmp_path, sentences, monkeypatch):
    """What is kept is for CPUs; on a GPU there is nothing to choose."""
    fast = EngineVariant("native", "float32", "cuda")
    found = {**FOUND, fast: trial(fast, 9000.0, ("a", "b"))}
    monkeypatch.setattr(
        bench, "time_variant", lambda run, variant, *_: found.get(variant, UnavailableVariant("no"))
    )
    shown = run(tmp_path, "--source", sentences)
    assert (
        "fastest for a stream: native float32 GPU; one by one: native float32 GPU" in shown.stdout
    )
    assert load_tuned_engine(tmp_path) == FOUND[LIGHT].choice
    told = json.loads(run(tmp_path, "--source", sentences, "--json").stdout)
    assert told["fastest"]["device"] == "cuda"
    assert [variant["device"] for variant in told["ways"]] == ["cpu", "cuda", "cpu"]


def test_the_table_fits_into_80_columns(tmp_path, sentences, monkeypatch):
    ways = {variant: trial(variant, 1234.5, ("a", "b")) for variant in bench.list_variants()}
    monkeypatch.setattr(bench, "time_variant", lambda run, variant, *_: ways[variant])
    args = (str(tmp_path), "--source", str(sentences), "--no-keep")
    shown = CliRunner().invoke(app, args, catch_exceptions=False, env={"COLUMNS": "80"})
    assert "\nctranslate2 float32" in shown.stdout


def test_json_and_nothing_kept(tmp_path, sentences, measured):
    found = json.loads(run(tmp_path, "--source", sentences, "--json", "--no-keep").stdout)
    assert found["fastest"]["engine"] == "ctranslate2"
    assert [variant["agreement"] for variant in found["ways"]] == [0.5, 1.0]
    assert found["ways"][1]["sentences_per_second"] == 50.0
    assert not (tmp_path / MEASURED_FILE).exists()


def test_a_folder_that_is_closed_to_us_is_only_noted(tmp_path, sentences, measured):
    (tmp_path / "file").touch()
    shown = run(tmp_path / "file", "--source", sentences)
    assert shown.exit_code == 0
    assert "the measurement cannot be kept" in shown.stderr


def test_blank_sentences_are_refused(tmp_path):
    path = tmp_path / "blank.fr"
    path.write_text("\n \n")
    with pytest.raises(SettingsError, match="all sentences are blank: there is nothing to measure"):
        run(tmp_path, "--source", path)


def test_a_model_that_nobody_can_run_is_refused(tmp_path, sentences, monkeypatch):
    monkeypatch.setattr(bench, "time_variant", lambda *_: UnavailableVariant("no"))
    with pytest.raises(RunError, match="no engine can translate with it here"):
        run(tmp_path, "--source", sentences)
