import json

import pytest
from typer.testing import CliRunner

from caption_runs import TRANSFORMER, save_picture, train_captioner
from regard.cli.main import command_app

caption, look, evaluate = (command_app(name) for name in ("caption", "look", "evaluate"))


def run(app, *args, **options):
    return CliRunner().invoke(app, [str(arg) for arg in args], **options)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    save_picture(folder / "a.png")
    save_picture(folder / "more" / "b.png", 5)
    (folder / "notes.txt").write_text("none")
    return folder


@pytest.fixture(scope="module")
def transformer_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        return train_captioner(folder / "run", TRANSFORMER, "training.steps=40")


def test_one_picture_gives_its_caption_alone(caption_run, folder):
    found = run(caption, caption_run, folder / "a.png", "--device", "cpu")
    assert found.exit_code == 0
    assert found.stdout.startswith("a ")
    assert found.stdout.count("\n") == 1
    assert "\t" not in found.stdout


def test_pictures_of_folders_and_lists_are_named(caption_run, folder):
    found = run(caption, caption_run, folder)
    names = [line.split("\t")[0] for line in found.stdout.splitlines()]
    assert names == [str(folder / "a.png"), str(folder / "more" / "b.png")]
    listed = f"{folder / 'more' / 'b.png'}\n{folder / 'a.png'}\n"
    again = run(caption, caption_run, input=listed)
    assert sorted(again.stdout.splitlines()) == sorted(found.stdout.splitlines())


def test_one_bad_picture_does_not_spoil_the_others(caption_run, folder):
    (folder / "bad.jpg").write_text("no picture")
    found = run(caption, caption_run, folder)
    assert found.exit_code == 1
    lines = [line.split("\t") for line in found.stdout.splitlines()]
    assert [bool(text) for _, text in lines] == [True, False, True]
    assert "bad.jpg: not a picture" in " ".join(found.stderr.split())
    objects = [
        json.loads(line) for line in run(caption, caption_run, folder, "--json").stdout.splitlines()
    ]
    assert ["error" in one for one in objects] == [False, True, False]


def test_a_layer_and_a_head_of_a_caption_are_looked_at(transformer_run, folder, tmp_path):
    picture = folder / "a.png"
    shown = {
        (layer, head): run(look, transformer_run, picture, "--layer", layer, "--head", head).stdout
        for layer in (0, 1)
        for head in (0, 1)
    }
    assert len({*shown.values(), run(look, transformer_run, picture).stdout}) == 5
    for name, options in (("one", ("--layer", 0)), ("other", ("--layer", 1))):
        run(look, transformer_run, picture, *options, "--svg", tmp_path / f"{name}.svg")
    assert (tmp_path / "one.svg").read_text() != (tmp_path / "other.svg").read_text()
    found = run(look, transformer_run, picture, "--layer", 2)
    assert str(found.exception) == "layer: cross attention has 2, counted from 0; got 2"
    found = run(look, transformer_run, picture, "--head", 2)
    assert str(found.exception) == "head: cross attention has 2, counted from 0; got 2"


def test_mistakes_are_told(caption_run, folder, tiny_run):
    found = run(caption, caption_run, folder / "a.png", "--top-k", 3)
    assert "--top-k can only be used with --sample" in str(found.exception)
    (folder / "empty").mkdir()
    found = run(caption, caption_run, folder / "empty")
    assert "a folder without pictures" in str(found.exception)
    found = run(caption, tiny_run, folder / "a.png")
    assert "its task is translation, not caption" in str(found.exception)


def test_looking_at_a_picture_draws_it_and_writes_a_page(caption_run, folder, tmp_path):
    files = ("--png", tmp_path / "words.png", "--html", tmp_path / "look.html")
    found = run(look, caption_run, folder / "a.png", *files)
    assert found.exit_code == 0, found.exception
    assert "where each word looked most, of 6 × 6 regions" in found.stdout
    assert (tmp_path / "words.png").read_bytes()[1:4] == b"PNG"
    assert "data:image/jpeg;base64" in (tmp_path / "look.html").read_text()
    flat = run(look, caption_run, folder / "a.png", "--flatten", 0)
    assert "3%" in flat.stdout  # one of 36 regions, alike for every word
    found = run(look, caption_run, folder / "a.png", "--without", "1.0")
    assert "there is no such head" in str(found.exception)
    document = json.loads(run(look, caption_run, folder / "a.png", "--json").stdout)
    assert document["attention"]["grid"] == [6, 6]
    assert len(document["words"]) == len(document["attention"]["weights"][0][0])


def test_evaluating_a_captioner(caption_run, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(caption_run.parent / "cache"))
    found = json.loads(run(evaluate, caption_run, "--json").stdout)
    assert found["split"] == "test"
    assert found["BLEU-1"] > 0
    assert "against" not in found
    shown = run(evaluate, caption_run, "--against", caption_run)
    assert "paired bootstrap" in shown.stdout
    assert "CIDEr-D" in shown.stdout
