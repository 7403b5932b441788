"""A recording holds all that can be seen of a command, and two recordings show what has changed."""

import pytest

from bench.recorded_outputs import Cases, Recorder, compare, read_cases
from bench.volatile import normalised
from regard.cli.main import COMMANDS

FEW = Cases(
    files={"mine.yaml": "name: mine\n"},
    settings={"short": ["training.steps=5"]},
    runs=[],
    commands={
        "shown": ["recipes show travel {short} > shown.yaml", "recipes show nowhere"],
        "version": "--version",
    },
    servers={},
)


@pytest.fixture
def record(tmp_path):
    """Records the few cases in a folder, with each command in a process of its own."""
    runs = tmp_path / "runs"
    runs.mkdir()

    def run(name):
        recorder = Recorder(FEW, runs, forked=False)
        assert not recorder.record(list(FEW.commands), tmp_path / name, jobs=2)
        return tmp_path / name

    return run


def test_two_recordings_are_equal_until_an_answer_changes(record, capsys):
    first = record("first")
    shown = (first / "shown.txt").read_text()
    assert "exit code 0\n--- stdout\ntask: translation\n" in shown
    assert "steps: 5\n" in shown
    assert "exit code 1\n--- stderr\nerror: " in shown
    assert "--- wrote shown.yaml\ntask: translation\n" in shown
    second = record("second")
    capsys.readouterr()
    assert compare(first, second, "") == 0
    assert capsys.readouterr().out == "2 cases equal, 0 different\n"
    (second / "shown.txt").write_text(shown.replace("steps: 5", "steps: 6"))
    (second / "version.txt").unlink()
    assert compare(first, second, "") == 1
    told = capsys.readouterr().out
    assert "0 cases equal, 2 different" in told
    assert "-  steps: 5\n+  steps: 6\n" in told
    assert compare(first, first, "nothing is called so") == 1


def test_what_differs_between_times_is_left_out_and_nothing_else():
    text = "/tmp/x/a: 2026-11-19T10:02:03 1,200 tokens/s; 2026-11-19 is a Thursday"
    expected = "<folder>/a: <time> <speed> tokens/s; 2026-11-19 is a Thursday"
    assert normalised(text, {"/tmp/x": "<folder>"}) == expected
    kept = "status 404\nexit code 2\nregard 0.1.0\n1 1 2 3 5 8\n0-0 1-1\nFriday\t0.8\nBLEU 11.2 %"
    assert normalised(kept) == kept


def test_every_command_is_asked():
    cases = read_cases()
    lines = [
        line for one in cases.commands.values() for line in ([one] if isinstance(one, str) else one)
    ]
    assert COMMANDS.keys() - {line.partition(" ")[0] for line in lines} == {"receipts"}
