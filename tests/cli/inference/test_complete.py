"""`regard complete` on a run that was trained for a few steps."""

import json
import re

import pytest
from typer.testing import CliRunner

from regard.cli.main import command_app
from regard.errors import RunError, SettingsError

RECIPE = """
task: language-model
name: tiny
corpus: {train: %s}
text: {kind: characters, size: 0}
model: {family: gpt, layers: 1, width: 8, heads: 2, context: 16, dropout: 0.0}
training: {steps: 4, batch_size: 4, precision: float32, schedule: {warmup: 0},
  validation: {every: 4}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complete")
    text, recipe = folder / "text.txt", folder / "tiny.yaml"
    text.write_text("the cat sat on the mat.\n" * 40)
    recipe.write_text(RECIPE % text)
    trained = CliRunner().invoke(
        command_app("train"), [str(recipe), "--out", str(folder / "run")], catch_exceptions=False
    )
    assert trained.exit_code == 0
    assert "word_perplexity" in trained.stdout
    return folder / "run"


def invoke(run, *args, given=None):
    result = CliRunner().invoke(
        command_app("complete"), [str(run), *args], input=given, catch_exceptions=False
    )
    assert result.exit_code == 0
    return result


def complete(run, *args, given=None):
    return invoke(run, *args, given=given).stdout


def test_each_prompt_gives_its_text(run):
    shown = complete(run, "the", "", "--max-tokens", "5", "--seed", "1", "--json")
    found = [json.loads(line) for line in shown.splitlines()]
    assert [one["prompt"] for one in found] == ["the", ""]
    assert all(len(one["continuations"][0]["text"]) <= 5 for one in found)
    again = complete(run, given="the\n\n")
    assert again.startswith("the")


def test_a_streamed_text_is_the_same_as_a_whole_one(run):
    options = ("the", "--max-tokens", "8", "--seed", "4")
    assert complete(run, *options, "--stream") == complete(run, *options)


def test_a_search_gives_as_many_as_asked(run):
    shown = complete(run, "the", "--beam", "3", "--n-best", "3", "--max-tokens", "4", "--json")
    found = json.loads(shown)["continuations"]
    assert len({one["text"] for one in found}) == 3
    scores = [one["log_probability"] for one in found]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["the", "--beam", "2", "--top-k", "3"], "--top-k cannot be used with --beam"),
        (["the", "cat", "--stream"], "one prompt"),
        (["the", "--stream", "--json"], "--stream cannot be used with --json"),
    ],
)
def test_options_that_exclude_each_other_are_refused(run, options, told):
    with pytest.raises(SettingsError, match=told):
        CliRunner().invoke(command_app("complete"), [str(run), *options], catch_exceptions=False)


def test_a_folder_without_a_language_model_is_refused(tmp_path):
    with pytest.raises(RunError, match="no such folder"):
        CliRunner().invoke(
            command_app("complete"), [str(tmp_path / "none"), "the"], catch_exceptions=False
        )


def test_a_text_that_fills_the_context_says_so(run):
    shown = invoke(run, "the cat", "--max-tokens", "40", "--beam", "1")
    assert re.search(r"ended after \d+ of 40 tokens: .* fill the 16 that the model", shown.stderr)
    assert "ended" not in invoke(run, "the cat", "--max-tokens", "4").stderr


def test_a_run_is_measured_on_other_texts(run, tmp_path):
    (tmp_path / "other.txt").write_text("the dog sat.\n")
    arguments = [str(run), "--data", str(tmp_path / "other.txt"), "--json"]
    found = CliRunner().invoke(command_app("evaluate"), arguments, catch_exceptions=False)
    measured = json.loads(found.stdout)
    assert measured["split"] == str(tmp_path / "other.txt")
    assert measured["notes"][0].startswith("12 tokens, 3 words")
    arguments[2] = str(tmp_path / "none.txt")
    assert CliRunner().invoke(command_app("evaluate"), arguments).exit_code == 1
