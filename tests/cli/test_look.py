import pytest
from typer.testing import CliRunner

from regard.cli.look import app
from regard.errors import RunError, SettingsError

SENTENCE = "Jane visite l'Afrique en septembre."


@pytest.fixture
def run(tiny_run):
    def invoke(*args, sentence=SENTENCE, model=tiny_run):
        args = (str(model), sentence, *map(str, args), "--device", "cpu")
        return CliRunner().invoke(app, args, catch_exceptions=False, env={"COLUMNS": "160"})

    return invoke


def test_the_translation_and_its_map(run, translator):
    shown = run()
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0] == translator(SENTENCE).text
    for word in SENTENCE.split():
        assert word in shown.stdout
    assert "</s>" not in shown.stdout


def test_parts_of_the_model(run):
    maps = {part: run("--part", part).stdout for part in ("cross", "encoder", "decoder")}
    assert len(set(maps.values())) == 3


def test_a_layer_and_a_head(run):
    maps = {run("--layer", layer, "--head", head).stdout for layer in (0, 1) for head in (0, 3)}
    assert len(maps) == 4


def test_pieces(run):
    assert "</s>" in run("--pieces").stdout


def test_every_head(run):
    shown = run("--all").stdout
    assert shown.count("layer ") == 2 * 4
    assert "layer 1, head 3" in shown
    assert run("--all", "--part", "encoder").stdout.count("layer ") == 3 * 4


def test_pictures(run, tmp_path):
    png, svg = tmp_path / "a.png", tmp_path / "a.svg"
    shown = run("--png", png, "--svg", svg)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text()
    assert shown.stderr.splitlines() == [f"drew {png}", f"drew {svg}"]
    grid = tmp_path / "heads.png"
    run("--all", "--png", grid)
    assert grid.stat().st_size > png.stat().st_size


def test_without_a_head(run, translator):
    lines = run("--without", "0.1", "--without", "1").stdout.splitlines()
    assert lines[0] == translator(SENTENCE).text
    assert lines[1].startswith("without 0.1, 1: ")
    assert run("--without", "0", "--part", "encoder").stdout != run("--part", "encoder").stdout


def test_notes_are_told(run):
    assert "control characters" in run(sentence="Jane\x07danse").stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--all", "--layer", "0"), "--all shows every layer and head: drop --layer and --head"),
        (("--without", "a"), "--without a: expected LAYER.HEAD or LAYER, such as 3.5"),
        (("--without", "1.2.3"), r"--without 1\.2\.3: expected LAYER\.HEAD"),
        (("--without", "-1"), "--without -1: expected LAYER.HEAD"),
        (("--without", "7"), "layer: cross attention of .* has 2, counted from 0; .* 7"),
        (("--without", "0.9"), "head: cross attention of .* has 4, counted from 0; got 9"),
        (("--layer", "5"), "layer: cross attention has 2, counted from 0; got 5"),
        (("--head", "5"), "head: cross attention has 4, counted from 0; got 5"),
        (("--png", "a.svg"), r"--png a\.svg: the file's name should end in \.png"),
        (("--svg", "a.png"), r"--svg a\.png: the file's name should end in \.svg"),
    ],
)
def test_mistakes(run, args, message):
    with pytest.raises(SettingsError, match=message):
        run(*args)


def test_a_blank_sentence(run):
    with pytest.raises(SettingsError, match="the sentence is blank: there is nothing to look at"):
        run(sentence="  ")


def test_a_part_that_the_model_has_not(run, other_run):
    assert run(model=other_run).exit_code == 0
    with pytest.raises(SettingsError, match="no encoder attention to look at; it has: cross"):
        run("--part", "encoder", model=other_run)


def test_an_unknown_part_is_refused(run):
    assert run("--part", "middle").exit_code == 2


def test_no_model(run, tmp_path):
    with pytest.raises(RunError, match="no such folder"):
        run(model=tmp_path / "none")
