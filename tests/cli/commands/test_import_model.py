import json

import pytest
from typer.testing import CliRunner

from hf_folders import save_folder
from regard.cli.main import command_app
from regard.errors import RunError, SettingsError

pytest.importorskip("transformers")


def run(command, *args):
    app = command_app(command)
    return CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": "150"})


def test_a_folder_becomes_a_run_and_a_run_a_folder(tmp_path):
    folder, made, back = (tmp_path / name for name in ("folder", "run", "back"))
    save_folder(folder, "gpt2")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# A model\n")
    shown = run("import", folder, "--out", made)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "3 of 3 answers are the same" in shown.stdout.replace("\n", " ")
    assert json.loads((made / "exchange.json").read_text())["licence"] == "mit"
    assert "licence: mit" in (made / "card.md").read_text()
    assert run("verify", made).exit_code == 0
    assert run("complete", made, "The cat", "--max-tokens", 3).exit_code == 0
    found = json.loads(run("export", made, "--to", "hf", "--out", back, "--json").stdout)
    assert found["gate"]["refused"] is None
    assert found["licence"] == "mit"
    assert isinstance(run("import", tmp_path / "nowhere", "--out", made).exception, RunError)
    assert isinstance(run("export", made, "--to", "hf").exception, SettingsError)
