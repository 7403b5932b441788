"""What is printed, written and drawn."""

import argparse
import json
import re

import pytest

from bench import report
from bench.machine_state import MachineState
from bench.report import BenchRow, Table, draw_bars
from bench.scaling_plot import draw_curves
from regard.errors import SettingsError

ROWS = (
    BenchRow("regard", True, (20.0, 10.0, 20.0), {"BLEU": "35.10"}),
    BenchRow("Other", False, (10.0, 5.0, 8.0), {"BLEU": "35.00"}),
)
QUIET = MachineState("2026-11-15", "a machine", {"Other": "1.0"}, ("JoeyNMT",), 0.0, 0.01)


def test_ratios_say_how_many_times_as_good():
    more = Table("speed", "sentences/s", ROWS)
    assert more.times(*ROWS) == 2.0
    assert Table("time", "ms", ROWS, "less").times(*ROWS) == 0.5


def test_a_table_says_medians_spread_quality_and_ratios(capsys):
    report.show(Table("speed", "sentences/s", ROWS))
    printed = capsys.readouterr().out
    for word in ("sentences/s", "20.0", "10.0", "35.10", "35.00", "2.00 × Other"):
        assert word in printed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--rounds", "1"], "--rounds: 1 show no spread; ask for at least 3"),
        (["--plot", "a.doc"], "--plot a.doc: the file's name should end in .png or .svg"),
    ],
)
def test_what_would_fail_behind_all_rounds_fails_before_them(given, message):
    with pytest.raises(SettingsError, match=re.escape(message)):
        report.options("what").parse_args(given)


def test_a_picture_may_be_the_first_in_its_folder(tmp_path):
    asked = argparse.Namespace(json=None, plot=tmp_path / "new" / "a.png")
    tables = [Table("speed", "sentences/s", ROWS)]
    report.save(asked, QUIET, tables, left={}, setting={}, draw=draw_bars)
    assert asked.plot.read_bytes().startswith(b"\x89PNG")


def test_json_holds_all_rounds(tmp_path, capsys):
    asked = argparse.Namespace(json=tmp_path / "a.json", plot=None)
    tables = [Table("speed", "sentences/s", ROWS)]
    report.save(asked, QUIET, tables, left={"X": "gone"}, setting={"beam": 5}, draw=draw_bars)
    found = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert found["left_out"] == {"X": "gone"}
    assert found["surroundings"]["missing"] == ["JoeyNMT"]
    first = found["tables"][0]["rows"][0]
    assert first["rounds"] == [20.0, 10.0, 20.0]
    assert first["median"] == 20.0
    assert first["times"] == {"Other": 2.0}


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_bars_are_drawn(tmp_path, ending):
    draw_bars([Table("speed", "sentences/s", ROWS)], tmp_path / f"a.{ending}")
    assert (tmp_path / f"a.{ending}").stat().st_size > 1000


def test_curves_are_drawn(tmp_path):
    rows = tuple(
        BenchRow(f"{size} tokens", True, (size / 10, size / 9), {"size": str(size), "MB": "2.0"})
        for size in (1, 2, 4, 8)
    )
    draw_curves([Table("length", "s", rows, "less")], tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_busy_machine_is_said():
    busy = MachineState("2026-11-15", "a machine", {}, (), 3.5, 0.42)
    assert "42% of its cores were at work" in busy.warn()
    assert any("WARNING" in line for line in busy.lines())
    assert QUIET.warn() == ""


def test_missing_peers_are_said_plainly():
    assert any("not installed: JoeyNMT; pip install" in line for line in QUIET.lines())
