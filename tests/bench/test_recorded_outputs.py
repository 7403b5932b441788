"""A recording holds all that can be seen of a command, and two recordings show what has changed."""

import shutil

import regard
from bench.recorded_outputs import Cases, Recorder, compare, read_cases
from bench.volatile import normalised
from regard.cli.main import COMMANDS

FEW = Cases(
    files={},
    settings={},
    runs=[],
    commands={"few": ["--version > version.txt", "nothing < version.txt"]},
    servers={},
)


def test_a_recording_holds_all_that_is_seen_and_a_comparison_shows_what_changed(tmp_path, capfd):
    runs, first, second = (tmp_path / name for name in ("runs", "first", "second"))
    runs.mkdir()
    recorder = Recorder(FEW, runs, forked=False)
    assert not recorder.record(list(FEW.commands), first)
    text = (first / "few.txt").read_text()
    version = f"regard {regard.__version__}\n"
    assert f"$ regard --version > version.txt\nexit code 0\n--- stdout\n{version}" in text
    assert "exit code 2\n--- stderr\n" in text
    assert text.endswith(f"--- wrote version.txt\n{version}")
    shutil.copytree(first, second)
    capfd.readouterr()
    assert compare(first, second, "") == 0
    assert capfd.readouterr().out == "1 cases equal, 0 different\n"
    (second / "few.txt").write_text(text.replace("exit code 2", "exit code 1"))
    (second / "more.txt").touch()
    assert compare(first, second, "few") == 1
    told = capfd.readouterr().out
    assert "-exit code 2\n+exit code 1\n" in told
    assert "0 cases equal, 1 different\n  few\n" in told
    assert compare(first, first, "nothing is called so") == 1


def test_what_differs_between_times_is_left_out_and_nothing_else():
    text = "/tmp/x/a: 2026-11-19T10:02:03 1,200 tokens/s; 2026-11-19 is a Thursday"
    expected = "<folder>/a: <time> <speed> tokens/s; 2026-11-19 is a Thursday"
    assert normalised(text, {"/tmp/x": "<folder>"}) == expected
    kept = "status 404\nexit code 2\nregard 0.1.0\n1 1 2 3 5 8\n0-0 1-1\nFriday\t0.8\nBLEU 11.2 %"
    assert normalised(kept) == kept


def test_every_command_is_asked():
    commands = read_cases().commands.values()
    lines = [line for one in commands for line in ([one] if isinstance(one, str) else one)]
    assert not COMMANDS.keys() - {line.partition(" ")[0] for line in lines}
