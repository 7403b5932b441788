"""`regard fill` and `regard look` on a run that was trained for a few steps."""

import json

import pytest
from typer.testing import CliRunner

from languages import RECIPES, TEXT
from regard.cli.main import command_app
from regard.errors import RunError, SettingsError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fill")
    text, recipe = folder / "text.txt", folder / "tiny.json"
    text.write_text(TEXT)
    corpus = {"train": str(text), "documents": "line"}
    recipe = folder / "tiny.yaml"
    recipe.write_text(json.dumps({"name": "tiny", "corpus": corpus, **RECIPES["bert"]}))
    trained = invoke("train", str(recipe), "--out", str(folder / "run"))
    for name in ("masked_accuracy", "next_sentence_accuracy", "pseudo_perplexity"):
        assert name in trained
    return folder / "run"


def invoke(command, *args, given=None):
    found = CliRunner().invoke(command_app(command), args, input=given, catch_exceptions=False)
    assert found.exit_code == 0
    return found.stdout


def test_each_answer_is_a_line_and_each_text_ends_in_a_blank_one(run):
    shown = invoke("fill", str(run), "the [MASK] sat", "the [MASK] sat on [MASK] .", "--top", "2")
    lines = [line.split("\t") for line in shown.splitlines()]
    assert [len(line) for line in lines] == [3, 3, 1, 4, 4, 4, 4, 1]
    assert [line[0] for line in lines[3:7]] == ["1", "1", "2", "2"]
    assert lines[0][2] == f"the {lines[0][1]} sat"


def test_each_line_of_the_standard_input_has_an_answer(run):
    given = "the [MASK] sat\n\nthe cat\n[MASK]\n"
    found = CliRunner().invoke(command_app("fill"), [str(run), "--top", "1"], input=given)
    assert found.exit_code == 0
    filled = [line != "" for line in found.stdout.splitlines()]
    assert filled == [True, False, False, False, True, False]  # each text ends in a blank line
    assert "'': the text is empty" in found.stderr
    assert "the cat: there is no [MASK] in it" in found.stderr


def test_a_look_shows_the_answers_and_every_head(run, tmp_path):
    page = tmp_path / "look.html"
    shown = invoke("look", str(run), "the cat", "on [MASK]", "--all", "--html", str(page))
    assert "the likeliest tokens in masked places" in shown
    assert "the second text follows the first" in shown
    assert "layer 0, head 1" in shown
    assert "masked" in page.read_text()


def test_the_part_of_the_model_may_be_named_and_a_text_without_masks_has_no_heading(run):
    shown = invoke("look", str(run), "the cat", "--part", "encoder")
    assert shown == invoke("look", str(run), "the cat")
    assert "the text\n" not in shown


def test_what_cannot_be_done_is_said(run, tmp_path):
    with pytest.raises(RunError, match="its task is masked-language-model, not language-model"):
        invoke("complete", str(run), "the cat")
    with pytest.raises(SettingsError, match="tree: the model answers without a search"):
        invoke("look", str(run), "the cat", "--as", "tree", "--png", str(tmp_path / "a.png"))
    with pytest.raises(SettingsError, match="--part has no effect here"):
        invoke("look", str(run), "the cat", "--part", "decoder")
    with pytest.raises(SettingsError, match="--max-tokens"):
        invoke("look", str(run), "the cat", "--max-tokens", "3")
