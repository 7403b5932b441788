import json

import pytest
from typer.testing import CliRunner

from regard.cli.commands.heads import app
from regard.errors import SettingsError


@pytest.fixture
def run(tiny_run):
    def invoke(*args, model=tiny_run):
        args = (str(model), *map(str, args), "--beam", "1", "--device", "cpu")
        return CliRunner().invoke(app, args, catch_exceptions=False, env={"COLUMNS": "160"})

    return invoke


@pytest.fixture
def files(tmp_path, tiny_run, translator):
    """Two sentences that the model gets right, each with enough words for a BLEU of its own."""
    source, reference = tmp_path / "in.fr", tmp_path / "in.en"
    texts = (tiny_run / "data" / "test.source.txt").read_text().splitlines()
    answers = [translator(text, beam=1) for text in texts]
    long = [answer for answer in answers if len(answer.text.split()) >= 5][:2]
    source.write_text("".join(f"{answer.source}\n" for answer in long))
    reference.write_text("".join(f"{answer.text}\n" for answer in long))
    return "--source", source, "--reference", reference


def test_the_table(run, files):
    shown = run(*files, "--part", "cross")
    lines = shown.stdout.splitlines()
    assert "on 2 sentences: BLEU 100.00 (100.00 … 100.00)  nrefs:1|bs:1000|" in lines[0]
    assert lines[2].count("head ") == 4
    assert lines[2].endswith("whole layer")
    assert lines[3].startswith("cross 0")
    assert len(lines[4].split()) == 2 + 5
    assert lines[5] == "* differs from chance at p < 0.05"
    assert "dearest: cross " in lines[6]
    assert " of 8 heads" in lines[7]


def test_json_and_a_picture(run, files, tmp_path):
    png = tmp_path / "heads.png"
    shown = run(*files, "--part", "cross", "--json", "--png", png, "--theme", "dark")
    found = json.loads(shown.stdout)
    assert found["sentences"] == 2
    assert len(found["removals"]) == 10
    assert found["removals"][-1]["head"] is None
    assert png.read_bytes().startswith(b"\x89PNG")
    assert f"drew {png}" in shown.stderr


def test_the_runs_own_sentences_and_all_parts(run, other_run):
    shown = run("--sentences", "3", model=other_run)
    assert "test split of the run" in shown.stderr
    assert "on 3 sentences" in shown.stdout
    assert "whole layer" not in shown.stdout
    assert " of 1 head" in shown.stdout


def test_the_tolerance_decides_what_is_free(run, files):
    assert "8 of 8 heads" in run(*files, "--part", "cross", "--tolerance", "101").stdout


def test_mistakes(run, files, other_run):
    with pytest.raises(SettingsError, match="--source and --reference go together"):
        run("--source", "a")
    with pytest.raises(SettingsError, match=r"--svg a\.png: the file's name should end in \.svg"):
        run(*files, "--svg", "a.png")
    with pytest.raises(SettingsError, match="no encoder attention whose heads could be removed"):
        run(*files, "--part", "encoder", model=other_run)
    assert run("--part", "middle").exit_code == 2
