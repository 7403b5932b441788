import json
import shutil

import pytest
from typer.testing import CliRunner

from flips import flip
from regard.cli.main import command_app
from regard.errors import RunError

app = command_app("verify")


def run(*args):
    return CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": "150"})


def test_a_run_is_verified(tiny_run, tmp_path):
    copied = shutil.copytree(tiny_run, tmp_path / "run")
    shown = run(copied)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "files, all as they were written" in shown.stdout
    flip(copied / "model.safetensors", 500)
    shown = run(copied)
    assert isinstance(shown.exception, RunError)  # of which the command line makes a line and a 1
    assert str(shown.exception).endswith("files damaged or missing")
    assert shown.stdout.startswith("damaged model.safetensors: ")
    found = json.loads(run(copied, "--json").stdout)
    assert not found["whole"]
    assert [one["file"] for one in found["findings"]] == ["model.safetensors"]
    shown = run(copied, "--accept")
    assert shown.exit_code == 0
    assert "its files are accepted as they are now" in shown.stderr


def test_a_damaged_manifest_counts_as_a_file(tmp_path):
    for name in ("recipe.yaml", "manifest.json"):
        (tmp_path / name).touch()
    assert str(run(tmp_path).exception) == f"{tmp_path}: 1 of 1 file damaged or missing"


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(RunError, match="neither a run"):
        raise run(tmp_path).exception
