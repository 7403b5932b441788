import json

import pytest
from typer.testing import CliRunner

from regard.cli.commands.distances import app
from regard.errors import SettingsError


def run(model, *args):
    args = (str(model), *map(str, args), "--beam", "1", "--device", "cpu")
    return CliRunner().invoke(app, args, catch_exceptions=False, env={"COLUMNS": "100"})


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "in.fr"
    path.write_text("Jane visite l'Afrique en septembre.\n\nElle danse.\n")
    return path


def test_the_table_and_a_picture(tiny_run, sentences, tmp_path):
    png = tmp_path / "far.png"
    shown = run(tiny_run, "--source", sentences, "--part", "encoder", "--png", png)
    title, header, *rows = shown.stdout.splitlines()
    assert title.startswith("encoder attention")
    assert header.split() == ["layer.head", "away", "at", "once", "-2", "-1", "0", "+1", "+2"]
    assert [row.split()[0] for row in rows[:2]] == ["0.0", "0.1"]
    assert len(rows) == 3 * 4
    assert png.read_bytes().startswith(b"\x89PNG")


def test_json_of_the_runs_own_sentences(tiny_run):
    shown = run(tiny_run, "--sentences", "3", "--json")
    found = json.loads(shown.stdout)
    assert found["part"] == "cross"
    assert len(found["mean"]) == len(found["spread"]) == 2
    assert len(found["shares"][0][0]) == 21
    assert sum(found["shares"][0][0]) == pytest.approx(1, abs=1e-4)
    assert "test split of the run" in shown.stderr


def test_pieces_are_another_count(tiny_run, sentences):
    by = [run(tiny_run, "--source", sentences, *more).stdout for more in ((), ("--pieces",))]
    assert by[0] != by[1]


def test_blank_sentences_show_nothing(tiny_run, tmp_path):
    path = tmp_path / "blank.fr"
    path.write_text("\n \n")
    with pytest.raises(SettingsError, match="all sentences are blank: there is nothing to look at"):
        run(tiny_run, "--source", path)
