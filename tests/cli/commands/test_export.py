import json
import re
import shutil
import sys

import pytest
from typer.testing import CliRunner

from regard.cli.main import command_app
from regard.engines.ctranslate2 import exporter
from regard.engines.ctranslate2.export_artifact import EXPORTS_FOLDER, ParityReport
from regard.errors import RunError, SettingsError
from regard.tasks.translation.pipeline import load

app = command_app("export")
NEED_PACKAGES = (
    "regard.cli.commands.export",
    "regard.engines.ctranslate2.exporter",
    "regard.engines.onnx",
    "regard.exchange",
    "regard.pipelines.exchange",
    "regard.text.hf_tokenizer",
)
"""Modules that are imported again where packages are hidden."""

pytest.importorskip("ctranslate2")


@pytest.fixture
def copied(tiny_run, tmp_path):
    folder = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(folder / EXPORTS_FOLDER, ignore_errors=True)
    return folder


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)


def test_an_export_is_kept_in_the_run(copied):
    shown = run(copied, "--precision", "float32")
    [folder] = (copied / EXPORTS_FOLDER).iterdir()
    assert shown.stdout.startswith(f"{folder}  ctranslate2 ")
    assert "float32: 20 of 20 translated as by the native engine, scores within" in shown.stdout
    assert load(copied, device="cpu", precision="float32").remarks == ()


def test_an_export_of_its_own(copied, tmp_path):
    said = json.loads(run(copied, "--to", tmp_path / "out", "--weights", "best", "--json").stdout)
    assert said["folder"] == str(tmp_path / "out")
    assert said["precision"] in ("int8", "float32")
    assert said["gate"]["identical"] == 20
    assert not (copied / EXPORTS_FOLDER).exists()
    assert load(tmp_path / "out")("Elle danse.").candidates


def test_a_refusal_shows_what_differs(copied, monkeypatch):
    different = {"source": "Elle danse.", "native": "She dances.", "exported": "He sings."}
    report = ParityReport(
        sentences=9, identical=8, score_difference=1.0, same=8, loss=0.0, refused="1 of 9 differ",
        differences=[different],
    )  # fmt: skip
    monkeypatch.setattr(exporter, "check_parity", lambda *engines: report)
    shown = CliRunner().invoke(app, [str(copied)])
    assert isinstance(shown.exception, RunError)
    assert str(shown.exception) == f"{copied}: the export is refused: 1 of 9 differ"
    for text in different.values():
        assert text in shown.stderr


def test_what_cannot_be_exported(other_run):
    with pytest.raises(SettingsError, match="cannot be exported: CTranslate2 runs Transformers"):
        run(other_run)


@pytest.mark.parametrize("to", ["hf", "onnx", "run"])
def test_what_a_format_has_not_is_refused(to, tmp_path):
    with pytest.raises(SettingsError, match=f"^--to {to} writes a folder: name one"):
        run("runs/any", "--to", to)
    with pytest.raises(SettingsError, match=r"^--precision int16.* float32"):
        run("runs/any", "--to", to, "--out", tmp_path / "out", "--precision", "int16")


def test_float16_is_of_runs_alone():
    with pytest.raises(SettingsError, match="float16: CTranslate2 has auto, float32, int8"):
        run("runs/any", "--precision", "float16")


def test_each_format_needs_only_its_own_packages(tiny_run, tmp_path, monkeypatch):
    for name in ("ctranslate2", "onnx", "onnxruntime", "tokenizers", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in [one for one in sys.modules if one.startswith(NEED_PACKAGES)]:
        monkeypatch.delitem(sys.modules, name)
    shown = CliRunner().invoke(command_app("export"), ["--help"])
    assert "--precision" in shown.stdout
    wanted = {
        "ctranslate2": r"needs CTranslate2\. .*pip install.*--to hf, --to onnx",
        "hf": r"needs the package tokenizers.*pip install 'regard\[exchange\]'",
        "onnx": r"needs onnx and onnxruntime.*pip install 'regard\[onnx\]'",
    }
    for to, message in wanted.items():
        shown = CliRunner().invoke(
            command_app("export"), [str(tiny_run), "--to", to, "--out", str(tmp_path / to)]
        )
        assert type(shown.exception).__name__ in ("SettingsError", "TextError")
        assert re.search(message, str(shown.exception))
