import json
import os
import shutil
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from regard.cli.main import command_app
from regard.errors import CorpusError, RunError, SettingsError
from regard.evaluation.scores import ScoreSettings, score
from regard.recipes.evaluator import held_out_split
from regard.recipes.run_folder import RunFolder, load_data
from regard.tasks.translation.pipeline import load

app = command_app("evaluate")


@pytest.fixture
def run(tiny_run):
    def invoke(*args, model=tiny_run):
        args = (str(model), *map(str, args), "--device", "cpu")
        return CliRunner().invoke(app, args, catch_exceptions=False, env={"COLUMNS": "150"})

    return invoke


@pytest.fixture
def pairs(tiny_run):
    return list(load_data(RunFolder(tiny_run)).read("test"))


@pytest.fixture
def files(pairs, tmp_path):
    for side in ("source", "target"):
        lines = "".join(f"{getattr(pair, side)}\n" for pair in pairs[:6])
        (tmp_path / side).write_text(lines)
    return "--source", tmp_path / "source", "--reference", tmp_path / "target"


@pytest.mark.skipif(find_spec("MeCab") is not None, reason="MeCab is installed")
def test_a_tokenizer_that_is_not_installed_is_refused_first(run, files, monkeypatch):
    monkeypatch.setattr(
        "regard.tasks.translation.measurements.evaluation.load", None
    )  # nothing is loaded
    with pytest.raises(SettingsError, match="'ja-mecab' needs the packages MeCab and ipadic"):
        run(*files, "--tokenize", "ja-mecab")


def test_the_split_kept_from_the_run(run, translator, pairs):
    shown = run("--json")
    said = json.loads(shown.stdout)
    assert said["sentences"] == 20
    assert shown.stderr.startswith("no --source given: the test split of the run, 20 pairs\n")
    texts = [answer.text for answer in translator.translate([pair.source for pair in pairs])]
    settings = ScoreSettings(metrics=("bleu", "chrf", "ter", "exact"))
    expected = score(texts, [pair.target for pair in pairs], settings)
    assert [one["name"] for one in said["scores"]] == ["BLEU", "chrF2", "TER", "exact"]
    assert [one["value"] for one in said["scores"]] == [one.value for one in expected]
    assert [one["signature"] for one in said["scores"]] == [one.signature for one in expected]
    assert said["scores"][0]["interval"] == list(expected[0].interval)
    assert said["perplexity"]["num_tokens"] > 20
    assert said["by_length"] == said["against"] == []


def test_what_the_limit_cuts_is_told(run, files, tiny_run, tmp_path):
    short = RunFolder(shutil.copytree(tiny_run, tmp_path / "run"))
    rules = {"decoding.rules.max_length_ratio": 0, "decoding.rules.max_length_offset": 3}
    short.save_recipe(short.load_recipe().with_values(rules))
    shown = run(*files, "--engine", "native", model=short.path)
    assert "6 of 6 references (100.0%) are longer than answers may be" in shown.stderr
    assert f"they are set in {short.path}/recipe.yaml" in shown.stderr.replace("\n", "")
    said = json.loads(run(*files, "--json").stdout)
    assert said["references_beyond_limit"] == 0


def test_models_that_vote_are_scored_together(run, files, tmp_path, tiny_run, other_run):
    out = tmp_path / "said.txt"
    voting = (*files, "--ensemble", other_run, "--output", out)
    said = json.loads(run(*voting, "--json").stdout)
    sources = (tmp_path / "source").read_text().splitlines()
    voted = load(tiny_run, other_run, device="cpu").translate(sources)
    assert out.read_text().splitlines() == [answer.text for answer in voted]
    assert said["perplexity"] is None
    shown = run(*voting).stdout
    assert f"{tiny_run} + {other_run}" in shown.replace("\n", "")
    assert "perplexity" not in shown


def test_a_table_for_people(run, files, tiny_run):
    shown = run(*files, "--by-length")
    assert shown.exit_code == 0
    assert f"{tiny_run} on 6 sentences" in shown.stdout
    for part in ("BLEU", "chrF2", "TER", "exact", "nrefs:1|", "perplexity", "by length"):
        assert part in shown.stdout


def test_another_model(run, other_run):
    said = json.loads(run("--against", other_run, "--json").stdout)
    assert [one["name"] for one in said["against"]] == ["BLEU", "chrF2", "TER", "exact"]
    for one in said["against"]:
        assert 0 < one["p_value"] <= 1
    shown = run("--against", other_run).stdout
    assert "paired bootstrap" in shown
    assert "* differs from chance at p < 0.05" in shown


def test_a_model_does_not_differ_from_itself(run, tiny_run):
    said = json.loads(run("--against", tiny_run, "--json").stdout)
    assert {one["delta"] for one in said["against"]} == {0.0}
    assert {one["p_value"] for one in said["against"]} == {1.0}


def test_few_sentences_test_nothing(run, files, tiny_run, other_run):
    shown = run(*files, "--against", other_run).stdout
    assert "no p-value: a paired bootstrap of fewer than 20 examples says nothing" in shown
    assert "*" not in shown
    said = json.loads(run(*files, "--against", other_run, "--json").stdout)
    assert {(one["p_value"], one["interval"]) for one in said["against"]} == {(None, None)}


def test_two_weights_of_one_run_are_told_apart(run, files, tiny_run):
    shown = run(*files, "--weights", "last", "--against", tiny_run).stdout
    assert f"{tiny_run} (last) on 6 sentences" in shown.replace("\n", "")


def test_options_reach_scorer_and_search(run, files):
    plain = json.loads(run(*files, "--json").stdout)
    changed = json.loads(
        run(*files, "--json", "--tokenize", "char", "--lowercase", "--beam", "1").stdout
    )
    assert "tok:char" in changed["scores"][0]["signature"]
    assert "case:lc" in changed["scores"][0]["signature"]
    assert plain["scores"][0]["signature"] != changed["scores"][0]["signature"]
    others = [run(*files, "--json", "--weights", name) for name in ("last", "average")]
    assert [json.loads(one.stdout)["perplexity"] for one in others] != [plain["perplexity"]] * 2


def test_unknown_words(run, words_run, tmp_path):
    said = {}
    for way in ("never", "keep", "copy"):
        option = () if way == "never" else ("--unknown", way)
        shown = run("--json", *option, "--output", tmp_path / way, model=words_run)
        said[way] = json.loads(shown.stdout)["scores"][0]["value"]
    texts = {way: (tmp_path / way).read_text() for way in said}
    assert "⁇" in texts["keep"]
    assert "⁇" not in texts["copy"] + texts["never"]
    assert len(set(texts.values())) == len(set(said.values())) == 3


def test_a_dictionary_from_a_pipe_is_read_once_for_both(run, words_run):
    read, write = os.pipe()
    os.write(write, b"Jane\tJane\n")
    os.close(write)
    try:
        options = ("--unknown", f"/dev/fd/{read}", "--against", words_run)
        said = json.loads(run("--json", *options, model=words_run).stdout)
    finally:
        os.close(read)
    assert {one["delta"] for one in said["against"]} == {0.0}


def test_mistakes(run, files, tmp_path):
    with pytest.raises(SettingsError, match="--source and --reference must be given together"):
        run("--source", tmp_path / "source")
    with pytest.raises(RunError, match="nowhere: no such folder"):
        run(model=tmp_path / "nowhere")
    with pytest.raises(RunError, match="none: no such folder"):
        run(*files, "--against", tmp_path / "none")
    (tmp_path / "short").write_text("one line\n")
    with pytest.raises(CorpusError, match="lines must pair up, found 6 source, 1 reference"):
        run(*files[:2], "--reference", tmp_path / "short")
    (tmp_path / "empty").touch()
    with pytest.raises(CorpusError, match="there is nothing to measure"):
        run("--source", tmp_path / "empty", "--reference", tmp_path / "empty")
    with pytest.raises(CorpusError, match="no such file"):
        run("--source", tmp_path / "nope", "--reference", tmp_path / "short")


def test_an_imported_run_has_no_test_data_wherever_it_is_named(tmp_path):
    own, imported = (
        SimpleNamespace(
            recipe=SimpleNamespace(is_imported=flag),
            folder=SimpleNamespace(path=name),
            task=SimpleNamespace(held_out=lambda: "test"),
        )
        for name, flag in {"own": False, "other": True}.items()
    )
    assert held_out_split([own], (), tmp_path) == "test"
    with pytest.raises(SettingsError, match="other: was imported and has no data"):
        held_out_split([own, imported], (), tmp_path)
