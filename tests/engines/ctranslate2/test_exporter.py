"""An export is made once, whole, of the weights that are there; or the native engine translates."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
import torch
import yaml

from regard import atomic_io
from regard.decoding.tracing.observer import ObserverGroup
from regard.engines.ctranslate2 import availability, ct2_engine, exporter, parity_check
from regard.engines.ctranslate2.export_artifact import (
    CARD_FILE,
    EXPORTS_FOLDER,
    MODEL_FILE,
    find_export,
    open_export,
    read_export,
)
from regard.engines.ctranslate2.exporter import export_into_run, export_to, try_export
from regard.errors import RunError, RunWarning, SettingsError, StorageError
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder
from regard.tasks.translation.pipeline import load
from regard.training.checkpoints import load_weights, save_weights

pytest.importorskip("ctranslate2")

SENTENCES = ["Jane visite l'Afrique en septembre.", "Elle danse.", ""]
CPU = torch.device("cpu")


@pytest.fixture
def copied(tiny_run, tmp_path):
    folder = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(folder / EXPORTS_FOLDER, ignore_errors=True)
    return folder


@pytest.fixture(scope="module")
def exported(tiny_run, tmp_path_factory):
    """A run that has its export."""
    folder = shutil.copytree(tiny_run, tmp_path_factory.mktemp("runs") / "run")
    shutil.rmtree(folder / EXPORTS_FOLDER, ignore_errors=True)
    load(folder, device="cpu", precision="float32")
    return folder


def texts(answers):
    return [answer.text for answer in answers]


def found(folder, weights="model", precision="float32"):
    return find_export(folder, RunFolder(folder).weights(weights), weights, precision)


def change_weights(folder):
    path = RunFolder(folder).weights("model")
    weights = {name: one + 0.01 for name, one in load_weights(path).items()}
    save_weights(path, weights)


def test_the_first_use_makes_an_export_and_the_next_takes_it(copied, monkeypatch):
    first = load(copied, device="cpu", precision="float32")
    assert "exported for CTranslate2: 20 of 20 sentences" in first.remarks[0]
    assert first.engine_for() == "ctranslate2"
    monkeypatch.setattr(exporter, "try_export", lambda *_, **__: pytest.fail("made again"))
    second = load(copied, device="cpu", precision="float32")
    assert second.remarks == ()
    native = load(copied, device="cpu", engine="native")
    assert native.engine_for() == "native"
    want = texts(native.translate(SENTENCES))
    assert texts(first.translate(SENTENCES)) == texts(second.translate(SENTENCES)) == want


def test_a_message_precedes_exporting(copied):
    told = []
    assert load(copied, device="cpu", precision="float32", tell=told.append).remarks
    assert told == [
        "exporting for CTranslate2, which translates faster; this takes a while, but only once"
    ]
    load(copied, device="cpu", precision="float32", tell=pytest.fail)  # it is there


def test_unknown_engines_and_precisions_are_errors(exported):
    with pytest.raises(SettingsError, match="'fast': must be one of auto, native, ctranslate2"):
        load(exported, engine="fast")
    with pytest.raises(SettingsError, match="'float64': must be one of auto, float32, int8"):
        load(exported, precision="float64")


def test_a_run_that_was_copied_has_its_export_too(exported, tmp_path, monkeypatch):
    copied = shutil.copytree(exported, tmp_path / "copy", copy_function=shutil.copy)  # new times
    monkeypatch.setattr(exporter, "try_export", lambda *_, **__: pytest.fail("made again"))
    assert load(copied, device="cpu", precision="float32").engine_for() == "ctranslate2"
    assert found(copied).card.weights.mtime_ns == (copied / "model.safetensors").stat().st_mtime_ns


def test_other_weights_have_another(exported, tmp_path):
    copied = shutil.copytree(exported, tmp_path / "copy")
    change_weights(copied)
    assert found(copied) is None
    assert load(copied, device="cpu", precision="float32").remarks
    [only] = (copied / EXPORTS_FOLDER).iterdir()
    assert only == found(copied).folder


def test_another_recipe_has_another(exported, tmp_path):
    copied = shutil.copytree(exported, tmp_path / "copy")
    raw = yaml.safe_load((copied / "recipe.yaml").read_text())
    raw["decoding"]["beam"]["size"] = 3
    (copied / "recipe.yaml").write_text(yaml.safe_dump(raw))
    with pytest.warns(RunWarning, match="decoding: edited since the run wrote it"):
        assert load(copied, device="cpu", precision="float32").settings.beam.size == 3
    assert load(copied, device="cpu", precision="float32").remarks == ()


@pytest.mark.parametrize("damage", ["no card", "half a card", "half a model", "no model"])
def test_a_damaged_export_is_made_again(exported, tmp_path, damage):
    copied = shutil.copytree(exported, tmp_path / "copy")
    folder = found(copied).folder
    name = CARD_FILE if damage.endswith("card") else MODEL_FILE
    if damage.startswith("no"):
        (folder / name).unlink()
    else:
        (folder / name).write_bytes((folder / name).read_bytes()[:99])
    assert found(copied) is None
    again = load(copied, device="cpu", precision="float32")
    assert again.remarks
    assert found(copied) is not None
    assert again.engine_for() == "ctranslate2"


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize("by_hand", [True, False])
def test_a_file_that_is_missing_is_made_again(exported, tmp_path, name, by_hand):
    copied = shutil.copytree(exported, tmp_path / "copy")
    file = found(copied).folder / name
    before = file.read_bytes()
    file.unlink()
    if by_hand:
        export_into_run(open_run(copied, device=CPU), "model", "float32")
    else:
        assert load(copied, device="cpu", precision="float32").engine_for() == "ctranslate2"
    assert file.read_bytes() == before


def test_exporting_again_replaces_changed_files(exported, tmp_path):
    copied = shutil.copytree(exported, tmp_path / "copy")
    model = found(copied).folder / MODEL_FILE
    before = model.read_bytes()
    model.write_bytes(before[:-99] + bytes(99))
    export_into_run(open_run(copied, device=CPU), "model", "float32")
    assert model.read_bytes() == before


def test_a_file_of_another_version_of_ctranslate2(exported, tmp_path):
    copied = shutil.copytree(exported, tmp_path / "copy")
    model = found(copied).folder / MODEL_FILE
    content = bytearray(model.read_bytes())
    content[0] = 99  # its binary version
    model.write_bytes(content)
    assert load(copied, device="cpu", precision="float32").remarks  # made again
    again = load(copied, device="cpu", precision="float32")
    assert (again.engine_for(), again.remarks) == ("ctranslate2", ())


def test_an_export_that_can_never_be_read(copied, monkeypatch):
    monkeypatch.setattr(ct2_engine, "open_ct2_engine", lambda *given: None)
    assert load(copied, device="cpu", precision="float32").engine_for() == "native"
    with pytest.raises(RunError, match="cannot be used: its export cannot be read"):
        load(copied, device="cpu", precision="float32", engine="ctranslate2")


def test_a_folder_that_cannot_be_written(copied, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(atomic_io.tempfile, "mkdtemp", refuse)
    native = load(copied, device="cpu")
    assert "no export for the faster engine can be saved" in native.remarks[0]
    assert f"regard export {copied} --to DIR" in native.remarks[0]
    assert native.engine_for() == "native"
    assert len(native.translate(SENTENCES)) == 3
    with pytest.raises(StorageError, match="cannot be written"):
        load(copied, device="cpu", engine="ctranslate2")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(copied):
    copied.chmod(0o500)
    assert load(copied, device="cpu").engine_for() == "native"


def test_a_full_disk(copied, monkeypatch):
    def fill(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporter, "write_model", fill)
    native = load(copied, device="cpu")
    assert f"{copied / EXPORTS_FOLDER}: the disk is full" in native.remarks[0]
    assert list((copied / EXPORTS_FOLDER).iterdir()) == []
    assert len(native.translate(SENTENCES)) == 3


def test_the_room_for_one_copy_in_float32_is_enough(copied, monkeypatch):
    def fill(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", fill)
    monkeypatch.setattr(shutil, "copy2", fill)
    assert load(copied, device="cpu", precision="float32").engine_for() == "ctranslate2"


def test_a_disk_that_fails_at_the_end(copied, monkeypatch):
    def fail(handle):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(exporter.os, "fsync", fail)
    with pytest.raises(StorageError, match="cannot be written: Input/output error"):
        export_into_run(open_run(copied, device=CPU), "model", "float32")
    assert list((copied / EXPORTS_FOLDER).iterdir()) == []


@pytest.mark.parametrize("mistake", [ValueError("no place for stray"), RuntimeError("odd model")])
def test_an_error_while_exporting_becomes_a_remark(copied, monkeypatch, mistake):
    def fail(*args, **kwargs):
        raise mistake

    monkeypatch.setattr(exporter, "write_model", fail)
    native = load(copied, device="cpu")
    assert native.remarks == (f"no export for the faster engine could be made: {mistake}",)
    assert len(native.translate(SENTENCES)) == 3
    with pytest.raises(type(mistake)):
        load(copied, device="cpu", engine="ctranslate2")


KILLED = """
import os, sys
from regard.engines.ctranslate2 import exporter
from regard.tasks.translation.pipeline import load
exporter.check_parity = lambda *args: os._exit(9)
load(sys.argv[1], device="cpu")
"""


def test_a_killed_process_leaves_nothing_that_is_used(copied):
    killed = subprocess.run([sys.executable, "-c", KILLED, copied], check=False)
    assert killed.returncode == 9
    left = list((copied / EXPORTS_FOLDER).iterdir())
    assert left
    assert all(folder.name.startswith(atomic_io.TEMPORARY_PREFIX) for folder in left)
    long_ago = time.time() - 2 * atomic_io.STALE_SECONDS
    for folder in left:
        os.utime(folder, (long_ago, long_ago))
    assert load(copied, device="cpu").remarks
    [only] = (copied / EXPORTS_FOLDER).iterdir()
    assert only.name.startswith("model-auto-")


def test_exports_being_made_by_another_process_are_kept(copied, monkeypatch):
    monkeypatch.setattr(atomic_io, "STALE_SECONDS", -1)
    with atomic_io.temporary_folder(copied / EXPORTS_FOLDER) as held:
        (held / "half").write_text("of it")
        export_into_run(open_run(copied, device=CPU), "model", "float32")
        assert (held / "half").exists()
    assert not held.exists()


def test_a_disk_without_locks_can_hold_exports(copied, monkeypatch):
    def refuse(*args):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(atomic_io.fcntl, "flock", refuse)
    monkeypatch.setattr(atomic_io, "STALE_SECONDS", -1)
    left = copied / EXPORTS_FOLDER / f"{atomic_io.TEMPORARY_PREFIX}-by-whom"
    left.mkdir(parents=True)
    export_into_run(open_run(copied, device=CPU), "model", "float32")
    assert left.exists()  # somebody may still be making it


def test_two_processes_at_once(copied):
    runs = [open_run(copied, device=CPU) for _ in range(2)]
    first, second = (export_into_run(run, "model", "float32") for run in runs)
    assert first.folder == second.folder
    assert [one.name for one in (copied / EXPORTS_FOLDER).iterdir()] == [first.folder.name]


def test_an_export_with_other_translations_is_refused(copied, monkeypatch):
    write = exporter.write_model

    def write_wrong(model, *args, **kwargs):
        weights = {name: one.clone() for name, one in model.state_dict().items()}
        model.load_state_dict({name: one.roll(1, 0) for name, one in weights.items()})
        written = write(model, *args, **kwargs)
        model.load_state_dict(weights)
        return written

    monkeypatch.setattr(exporter, "write_model", write_wrong)
    native = load(copied, device="cpu", precision="float32")
    assert native.engine_for() == "native"
    [remark] = native.remarks
    assert remark.startswith(f"{copied}: the native engine translates, in float32: ")
    assert remark.endswith("of the run's test split are translated differently in float32")
    report = found(copied).card.gate
    assert len(report.differences) == parity_check.MAX_SHOWN
    assert report.differences[0].native != report.differences[0].exported
    assert not (found(copied).folder / MODEL_FILE).exists()
    monkeypatch.setattr(exporter, "try_export", lambda *_, **__: pytest.fail("made again"))
    assert load(copied, device="cpu", precision="float32").remarks == (remark,)
    with pytest.raises(RunError, match="translated differently in float32"):
        load(copied, device="cpu", precision="float32", engine="ctranslate2")


def test_a_precision_that_costs_too_much_gives_way_to_float32(copied, monkeypatch):
    monkeypatch.setattr(parity_check, "_loss", lambda exact, lines, native, light: 0.5)
    run = open_run(copied, device=CPU)
    refused = export_into_run(run, "model", "int8")
    reason = refused.card.gate.refused
    assert reason.startswith("in int8 its translations of 20 sentences of the run's test split")
    assert "less likely by 0.500 nats a token; at most 0.02 is allowed" in reason
    assert reason.endswith("give --precision float32 or auto")
    native = load(copied, device="cpu", precision="int8")
    assert native.remarks == (f"{copied}: the native engine translates, in float32: {reason}",)
    exact = load(copied, device="cpu", engine="native").translate(["Elle danse."])
    assert native.translate(["Elle danse."])[0].score == exact[0].score
    losses = iter([0.5, 0.0])
    monkeypatch.setattr(parity_check, "_loss", lambda exact, lines, native, light: next(losses))
    export, remark = try_export(run, "model", "auto", required=True, tell=lambda message: None)
    assert export.card.precision == "float32"
    assert remark.endswith("int8 is not close enough: less likely by 0.500 nats a token")


def test_precisions_that_the_processor_lacks(copied, monkeypatch):
    monkeypatch.setattr(exporter.ctranslate2, "get_supported_compute_types", lambda _: {"float32"})
    with pytest.raises(
        SettingsError, match=r"int16: CTranslate2 does not support .* only float32$"
    ):
        load(copied, device="cpu", precision="int16", tell=pytest.fail)
    with pytest.raises(SettingsError, match=r"only float32; the native engine has it$"):
        load(copied, device="cpu", precision="bfloat16", tell=pytest.fail)
    assert not (copied / EXPORTS_FOLDER).exists()
    assert (
        export_into_run(open_run(copied, device=CPU), "model", "auto").card.precision == "float32"
    )


def test_an_export_in_a_folder_of_its_own(exported, tmp_path):
    run, place = open_run(exported, device=CPU), tmp_path / "new" / "fast"
    made = export_to(run, "model", "float32", place)
    assert made == open_export(place)
    alone, native = load(place), load(exported, device="cpu", engine="native")
    assert texts(alone.translate(SENTENCES)) == texts(native.translate(SENTENCES))
    with pytest.raises(SettingsError, match="an export supports only plain translation"):
        alone.look("Elle danse.")
    for wrong in ({"engine": "native"}, {"weights": "best"}, {"device": "cuda"}):
        with pytest.raises(SettingsError, match="an export runs alone"):
            load(place, **wrong)
    assert load(place, precision="float32", device="cpu").engine_for() == "ctranslate2"
    with pytest.raises(SettingsError, match="this export is in float32, not in int8"):
        load(place, precision="int8")
    assert export_to(run, "model", "float32", place).folder == place  # once more
    for name in ("config.json", MODEL_FILE):  # missed by CTranslate2, and by us
        (place / name).unlink()
        with pytest.raises(RunError, match="a damaged export"):
            load(place)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("precious")
    with pytest.raises(RunError, match="has other files in it"):
        export_to(run, "model", "float32", tmp_path / "other")
    with pytest.raises(RunError, match=r"thesis\.txt: a file; name a folder"):
        export_to(run, "model", "float32", tmp_path / "other" / "thesis.txt")


def test_weights_by_name_and_in_files(exported, tmp_path):
    copied = shutil.copytree(exported, tmp_path / "copy")
    best = load(copied, device="cpu", weights="best", precision="float32")
    assert best.engine_for() == "ctranslate2"
    assert {one.name.split("-")[0] for one in (copied / EXPORTS_FOLDER).iterdir()} == {
        "model",
        "best",
    }
    file = str(RunFolder(copied).weights("last"))
    assert load(copied, device="cpu", weights=file).engine_for() == "native"
    with pytest.raises(SettingsError, match="these are from a file"):
        load(copied, device="cpu", weights=file, engine="ctranslate2")
    run = open_run(copied, device=CPU)
    with pytest.raises(SettingsError, match="weights only; give a folder: --to"):
        export_into_run(run, file, "float32")


def test_models_that_cannot_be_exported(other_run, tiny_run):
    run = open_run(other_run, device=CPU)
    assert try_export(run, "model", "auto", required=False, tell=pytest.fail) == (None, "")
    assert load(other_run, device="cpu").engine_for() == "native"
    with pytest.raises(SettingsError, match="cannot be exported: CTranslate2 runs Transformers"):
        load(other_run, device="cpu", engine="ctranslate2")
    assert load(tiny_run, other_run, device="cpu").engine_for() == "native"
    with pytest.raises(SettingsError, match="and this is an ensemble"):
        load(tiny_run, other_run, device="cpu", engine="ctranslate2")


def test_a_run_with_settings_of_the_native_engine_alone_uses_it(copied):
    raw = yaml.safe_load((copied / "recipe.yaml").read_text())
    del raw["decoding"]["beam"]["normalise"], raw["decoding"]["rules"]["excluded"]
    (copied / "recipe.yaml").write_text(yaml.safe_dump(raw))
    RunFolder(copied).rebuild_manifest()
    old = load(copied, device="cpu")
    assert (old.engine_for(), old.remarks) == ("native", ())
    light = load(copied, device="cpu", precision="bfloat16")
    assert next(iter(light("Elle danse.").candidates)).score != old("Elle danse.").score
    with pytest.raises(SettingsError, match="int16 needs CTranslate2; the native engine has"):
        load(copied, device="cpu", precision="int16")
    asked = load(copied, device="cpu", engine="ctranslate2", precision="float32")
    assert asked.engine_for() == "ctranslate2"
    assert "need the native engine (normalise is gnmt)" in asked.remarks[-1]
    assert asked.settings.beam.normalise == "power"
    with pytest.raises(SettingsError, match="cannot do this: attention is to be recorded"):
        asked.look("Elle danse.")


def test_without_ctranslate2_all_is_native(exported, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert load(exported, device="cpu").engine_for() == "native"
    with pytest.raises(SettingsError, match="pip install ctranslate2"):
        load(exported, device="cpu", engine="ctranslate2")
    with pytest.raises(SettingsError, match="an export, which needs CTranslate2"):
        load(found(exported).folder)


def test_devices(exported, monkeypatch):
    with pytest.raises(SettingsError, match="it runs on the CPU here, and the device is cuda"):
        load(exported, device="cuda", engine="ctranslate2")
    monkeypatch.setattr(availability, "ct2_sees_gpu", lambda: True)
    assert load(exported, device="cpu", precision="float32").engine_for() == "ctranslate2"
    with pytest.raises(SettingsError, match="there is a GPU"):
        load(exported, engine="ctranslate2")


def test_unsupported_requests_go_to_the_native_engine(exported):
    both = load(exported, device="cpu", precision="float32")
    native = load(exported, device="cpu", engine="native")
    looked = both(SENTENCES[0], look=True)
    assert looked.attention is not None
    assert looked.text == native(SENTENCES[0]).text
    assert both.translate(SENTENCES[:1], prefix="The")[0].text.startswith("The")
    assert [run.folder.path for run in both.runs] == list(both.folders) == [exported]


def test_copies_of_a_translator_load_the_native_engine_once(exported):
    both = load(exported, device="cpu", precision="float32")
    watched, watched_too = both.observed(ObserverGroup()), both.observed(ObserverGroup())
    assert watched.runs[0] is watched_too.runs[0] is both.runs[0]


def test_the_card_says_what_was_compared(exported):
    card = json.loads((found(exported).folder / CARD_FILE).read_text())
    assert card["gate"]["identical"] == card["gate"]["same"] == card["gate"]["sentences"] == 20
    assert card["gate"]["score_difference"] < parity_check.SCORE_TOLERANCE
    assert read_export(exported) is None
