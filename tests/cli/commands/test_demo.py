import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from regard.cli.commands import demo
from regard.cli.main import command_app
from regard.errors import SettingsError

app = command_app("demo")

QUICK = [
    "training.steps=3",
    "training.validation.sentences=3",
    "corpus.generated={train: 200, valid: 20, test: 12}",
    "model.width=16",
    "model.feed_forward=16",
]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def invoke(*args):
        changed = [part for setting in QUICK for part in ("--set", setting)]
        return CliRunner().invoke(
            app,
            [*changed, "--device", "cpu", *args],
            catch_exceptions=False,
            env={"COLUMNS": "120"},
        )

    return invoke


def test_the_demo_trains_translates_and_looks(run, tmp_path):
    shown = run()
    assert shown.exit_code == 0
    for part in (
        "1. Train",
        "2. Translate",
        "3. Look",
        "4. Go on",
        "12 held-out sentences",
    ):
        assert part in shown.stdout
    assert demo.SENTENCE in shown.stdout
    assert "alignment error rate" in shown.stdout
    assert "regard look runs/demo" in shown.stdout
    for name in ("attention.png", "heads.png"):
        assert (tmp_path / "runs" / "demo" / name).read_bytes().startswith(b"\x89PNG")
    again = run("--sentence", "Paul aime la mer.")
    assert again.exit_code == 0
    assert "Paul aime la mer." in again.stdout
    assert "reading and cleaning" not in again.stderr


def test_a_demo_that_is_stopped_can_go_on(run, monkeypatch):
    class InterruptedBySignal(demo.StopRequests):
        def __call__(self):
            self.received = signal.SIGINT
            return True

    monkeypatch.setattr(demo, "StopRequests", InterruptedBySignal)
    shown = run("--out", "there")
    assert shown.exit_code == 130
    assert "stopped at step 1; all is saved: run the same again to continue" in shown.stderr


def test_another_model_needs_another_folder(run):
    run("--out", "there")
    with pytest.raises(SettingsError, match="there: its run was started with another model"):
        run("--out", "there", "--set", "model.width=32")


def test_suggested_commands_run_as_shown(tmp_path, monkeypatch):
    """As `make demo` runs it: from a virtual environment that is not activated, or from one."""
    environment = tmp_path / "a project" / ".venv" / "bin"
    environment.mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a project")
    monkeypatch.setattr(sys, "executable", str(environment / "python"))
    monkeypatch.setenv("PATH", os.defpath)
    assert demo._invocation() == ("", f"'{environment}/python' -m regard")

    (environment / "activate").write_text(f"PATH='{environment}':$PATH\n")
    (environment / "regard").write_text("#!/bin/sh\necho this one\n")
    (environment / "regard").chmod(0o755)
    first, name = demo._invocation()
    assert (first, name) == (". .venv/bin/activate", "regard")
    typed = ["/bin/sh", "-c", f"{first}; {name}"]
    assert subprocess.run(typed, stdout=subprocess.PIPE, text=True).stdout == "this one\n"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert demo._invocation()[0] == f". '{environment}/activate'"

    monkeypatch.setenv("PATH", f"{environment}{os.pathsep}{os.defpath}")
    assert demo._invocation() == ("", "regard")
