import json

import pytest
from typer.testing import CliRunner

from regard.cli.commands.positions import app
from regard.errors import SettingsError


def run(model, *args):
    args = (str(model), *map(str, args))
    return CliRunner().invoke(app, args, catch_exceptions=False, env={"COLUMNS": "100"})


def test_the_table_and_a_picture(tiny_run, tmp_path):
    svg = tmp_path / "positions.svg"
    shown = run(tiny_run, "--svg", svg, "--length", "20", "--theme", "dark")
    title, header, row = shown.stdout.splitlines()[:3]
    assert title.strip() == "mean cosine of two that are so far apart"
    assert header.split() == ["kind", "where", "vectors", "1", "2", "4", "8", "16", "32"]
    kind, *where, size, _, _, _, _, last = row.split()
    assert (kind, size) == ("sinusoid", "20×32")
    assert where == ["source_positions,", "target_positions"]
    assert float(last) < 1  # 16 apart; none of 20 are 32 apart
    assert "<svg" in svg.read_text()
    assert f"drew {svg}" in shown.stderr


def test_json(tiny_run):
    [found] = json.loads(run(tiny_run, "--json", "--length", "5").stdout)
    assert found["kind"] == "sinusoid"
    assert found["places"] == [0, 1, 2, 3, 4]
    assert len(found["vectors"]) == len(found["cosine_by_distance"]) == 5
    assert found["cosine_by_distance"][0] == pytest.approx(1)


def test_recurrent_models_have_none(other_run):
    with pytest.raises(SettingsError, match="this model is not told positions"):
        run(other_run)


def test_the_file_must_be_named_for_what_it_is(tiny_run, tmp_path):
    with pytest.raises(SettingsError, match=r"should end in \.png"):
        run(tiny_run, "--png", tmp_path / "positions.jpg")
