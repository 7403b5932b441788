import json
from itertools import pairwise

import pytest
from PIL import Image
from typer.testing import CliRunner

from forecasts import train_forecaster
from regard.cli.main import command_app
from regard.errors import CorpusError, RegardError, SettingsError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return str(train_forecaster(tmp_path_factory.mktemp("run"), "training.steps=300"))


def call(name, *args, given=None):
    args = [*map(str, args)]
    return CliRunner().invoke(command_app(name), args, input=given, catch_exceptions=False)


def test_numbers_of_the_command_line(run):
    shown = call("forecast", run, 1, 1, 2, 3, 5, 8)
    assert abs(float(shown.stdout) / 13 - 1) < 0.1
    numbers = [float(number) for number in call("forecast", run, 3, 5, "--steps", 4).stdout.split()]
    assert len(numbers) == 4
    assert all(first < second for first, second in pairwise(numbers))
    assert call("forecast", run, "-1.5", -2, "-3e0").exit_code == 0
    assert call("forecast", run, " ".join(200 * ["21"])).exit_code == 0  # longer than a file name


def test_a_line_in_is_a_line_out(run):
    shown = call("forecast", run, given="1 2 3\n\n5,8,13\nx 1\n7\n")
    lines = shown.stdout.splitlines()
    assert [bool(line) for line in lines] == [True, False, True, False, True]
    assert "line 4: time step 1: expected a number, and 'x' is not a number" in shown.stderr
    assert "line 5: 1 time steps are fewer than the 2" in shown.stderr


def test_files_and_json(run, tmp_path):
    table, lines = tmp_path / "own.csv", tmp_path / "own.txt"
    table.write_text("fibonacci\n1\n2\n3\n5\n")
    lines.write_text("1 2 3 5\n\n")
    [one] = map(json.loads, call("forecast", run, table, "--json").stdout.splitlines())
    first, second = map(json.loads, call("forecast", run, lines, "--json").stdout.splitlines())
    assert one["given"] == first["given"] == [1, 2, 3, 5]
    assert one["forecast"] == first["forecast"]
    assert second == {"line": 2, "notes": []}


def test_what_is_no_number_is_told(run):
    with pytest.raises(CorpusError, match="time step 2: expected a number, and 'two' is not"):
        call("forecast", run, 1, "two")
    with pytest.raises(CorpusError, match="'--stepz' is not a number"):
        call("forecast", run, 1, "--stepz")


def test_a_look_is_shown_and_drawn(run, tmp_path):
    shown = call("look", run, 1, 1, 2, 3, "--png", tmp_path / "weights.png")
    lines = shown.stdout.splitlines()
    assert lines[1] == "attention over 4 time steps (no distribution: their signs count)"
    assert [line.split()[0] for line in lines[2:]] == ["1", "1", "2", "3"]
    with Image.open(tmp_path / "weights.png") as picture:
        assert picture.width > 500
    changed = call("look", run, 1, 1, 2, 3, "--flatten", 0).stdout.splitlines()
    assert changed[0] == lines[0]
    assert changed[1].startswith("flat 0: ")
    assert changed[3].endswith("0.2500")
    document = json.loads(call("look", run, 1, 2, "--json").stdout)
    assert len(document["attention"]["weights"]) == 2
    with pytest.raises(SettingsError, match=r"--heads has no effect here: the task of .* forecast"):
        call("look", run, "--heads")


def test_evaluate_measures_the_run_again(run):
    found = json.loads(call("evaluate", run, "--json").stdout)
    with open(f"{run}/scores.json") as file:
        assert found == json.load(file)
    assert "mse of the last number" in call("evaluate", run).stdout


def test_commands_for_pairs_say_that_it_is_none(run, tmp_path):
    for name, *args in (
        ("translate", run),
        ("bench", run),
        ("align", run),
        ("doctor", "fibonacci"),
    ):
        with pytest.raises(RegardError, match=r"task is forecast, (not|and this needs) transl"):
            call(name, *args, given="")
    with pytest.raises(SettingsError, match=r"fibonacci\.yaml: source and target files are for"):
        call("train", "fibonacci", "--source", "a", "--target", "b", "--out", tmp_path / "run")


def test_a_table_of_ones_own_is_trained_on(tmp_path):
    table = tmp_path / "own.csv"
    table.write_text("day,shoes\n" + "".join(f"{n},{n * n}\n" for n in range(60)))
    options = ("--set", "corpus.columns=[shoes]", "--set", "training.steps=50")
    shown = call("train", "fibonacci", "--data", table, *options, "--out", tmp_path / "run")
    assert "60 time steps of shoes" in shown.stderr
    assert " windows/s" in shown.stderr


def test_the_series_is_among_the_corpora():
    assert "fibonacci" in call("corpora").stdout
    window, behind = call("corpora", "show", "fibonacci", "-n", 1).stdout.rstrip().split("\t")
    numbers = [float(number) for number in window.split()]
    assert len(numbers) == 20
    assert float(behind) == pytest.approx(sum(numbers[-2:]), rel=1e-4)
