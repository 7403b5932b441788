import json
import shutil

import pytest
from typer.testing import CliRunner

from regard.cli.align import app
from regard.errors import CorpusError, RunError, SettingsError
from regard.evaluation.pharaoh import read_pharaoh
from regard.recipes.prepare import load_data
from regard.recipes.run_folder import RunFolder
from regard.serving import aligning
from regard.serving.dictionary import read_dictionary


@pytest.fixture
def run(tiny_run):
    def invoke(*args, model=tiny_run, given=None):
        args = (str(model), *map(str, args), "--device", "cpu")
        return CliRunner().invoke(app, args, catch_exceptions=False, input=given)

    return invoke


@pytest.fixture
def files(tmp_path):
    (tmp_path / "a.fr").write_text("Jane danse.\n\nPaul aime la mer.\n")
    (tmp_path / "a.en").write_text("Jane dances.\n\nPaul loves the sea.\n")
    return "--source", tmp_path / "a.fr", "--target", tmp_path / "a.en"


@pytest.fixture
def without_gold(tiny_run, tmp_path):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    for file in path.rglob("*.gold.txt"):
        file.unlink()
    return path


def test_a_line_for_each_pair(run, files):
    shown = run(*files)
    assert shown.exit_code == 0
    assert shown.stderr == ""
    first, blank, last = read_pharaoh(shown.stdout.splitlines())
    assert {target for _, target in first.sure} == {0, 1}
    assert blank.sure == frozenset()
    assert {target for _, target in last.sure} == {0, 1, 2, 3}
    assert all(source < 4 for source, _ in last.sure)


def test_the_split_kept_from_the_run_with_its_gold(run, tiny_run):
    shown = run()
    assert len(shown.stdout.splitlines()) == 20
    first, second = shown.stderr.splitlines()
    assert first == "no --source given: the test split of the run, 20 pairs"
    assert second.startswith("alignment error rate ")
    assert second.endswith(" on 20 pairs")


def test_json(run, files, tmp_path):
    (tmp_path / "gold").write_text("0-0 1-1\n\n0-0 1-1 2-2 3-3\n")
    said = json.loads(run(*files, "--gold", tmp_path / "gold", "--json").stdout)
    assert len(said["alignments"]) == 3
    assert said["alignments"][1] == []
    assert said["settings"]["layer"] is None
    assert 0 <= said["score"]["error_rate"] <= 1
    assert json.loads(run(*files, "--json").stdout)["score"] is None


def test_gold_may_be_counted_from_one(run, files, tmp_path):
    (tmp_path / "gold0").write_text("0-0 1-1\n\n0-0 1p1\n")
    (tmp_path / "gold1").write_text("1-1 2-2\n\n1-1 2p2\n")
    scores = [
        json.loads(run(*files, "--json", "--gold", tmp_path / f"gold{n}", "--gold-from", n).stdout)
        for n in (0, 1)
    ]
    assert scores[0] == scores[1]


def test_own_gold_for_the_runs_own_split(run, tmp_path):
    (tmp_path / "gold").write_text("0-0\n" * 20)
    assert run("--gold", tmp_path / "gold", "--quiet").stderr != run("--quiet").stderr


def test_quiet_prints_the_error_alone(run):
    shown = run("--quiet")
    assert shown.stdout == ""
    assert "alignment error rate" in shown.stderr


def test_layers_heads_and_shift_change_the_links(run):
    found = {run(*way).stdout for way in [(), ("--layer", 1, "--head", 0), ("--shift",)]}
    assert len(found) == 3


def test_the_best_head_is_chosen_on_valid(run, monkeypatch):
    monkeypatch.setattr(aligning, "CHOSEN_ON", 10)
    shown = run("--choose", "--json")
    chosen = json.loads(shown.stdout)["settings"]
    assert "on 10 pairs" in next(line for line in shown.stderr.splitlines() if "chose" in line)
    again = ["--shift"] * chosen["shift"]
    for name in ("layer", "head"):
        again += [f"--{name}", chosen[name]] if chosen[name] is not None else []
    assert json.loads(run(*again, "--json").stdout)["settings"] == chosen


def test_a_run_without_test_pairs_aligns_valid(run, tiny_run, tmp_path):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    known = path / "data" / "prepared.json"
    saved = json.loads(known.read_text())
    saved["pairs"]["test"] = 0
    known.write_text(json.dumps(saved))
    shown = run(model=path)
    assert len(shown.stdout.splitlines()) == 30
    assert "the valid split" in shown.stderr
    assert load_data(RunFolder(path)).held_out() == "valid"


def test_a_dictionary_of_the_training_pairs(run, words_run, tmp_path):
    path = tmp_path / "new" / "fr-en.tsv"
    shown = run("--dictionary", path, model=words_run)
    assert shown.stdout == ""
    entries = read_dictionary(path)
    assert shown.stderr.splitlines() == [
        "no --source given: the train split of the run, 300 pairs",
        f"wrote {len(entries)} words to {path}",
    ]
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    assert [row[0] for row in rows] == sorted(entries)
    assert min(int(row[2]) for row in rows) == 1
    assert all(0 < float(row[3]) <= 1 for row in rows)
    again = path.read_bytes()
    run("--dictionary", path, model=words_run)
    assert path.read_bytes() == again
    run("--dictionary", path, "--min-count", 3, model=words_run)
    assert 0 < len(read_dictionary(path)) < len(entries)
    few = path.read_bytes()
    with pytest.raises(SettingsError, match="no two words were aligned 99999 times; count on mor"):
        run("--dictionary", path, "--min-count", 99999, model=words_run)
    assert path.read_bytes() == few


def test_a_dictionary_of_some_pairs_or_of_files(run, files, tmp_path):
    path = tmp_path / "fr-en.tsv"
    run("--dictionary", path, "--pairs", 20)
    some = read_dictionary(path)
    run("--dictionary", path)
    assert 0 < len(some) < len(read_dictionary(path))
    run(*files, "--dictionary", path)
    assert read_dictionary(path).keys() <= {"Jane", "danse", "Paul", "aime", "la", "mer"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--source", "a"), "--source and --target go together"),
        (("--target", "a"), "--source and --target go together"),
        (("--source", "-", "--target", "-"), "cannot both be the standard input"),
        (("--choose", "--layer", "0"), "--choose finds --layer, --head and --shift by itself"),
        (("--choose", "--shift"), "--choose finds"),
        (("--gold-from", "1"), "--gold-from goes with --gold"),
        (("--dictionary", "d", "--quiet"), "--dictionary prints nothing: drop --gold, --quiet and"),
        (("--dictionary", "d", "--json"), "--dictionary prints nothing"),
        (("--pairs", "9"), "--min-count and --pairs go with --dictionary"),
        (("--min-count", "1"), "--min-count and --pairs go with --dictionary"),
        (("--layer", "9"), "layer: cross attention has 2, counted from 0; got 9"),
    ],
)
def test_mistakes(run, args, message):
    with pytest.raises(SettingsError, match=message):
        run(*args)


def test_no_gold_to_go_by(run, without_gold):
    with pytest.raises(SettingsError, match=r"--choose: the corpus of .* has no gold alignments"):
        run("--choose", model=without_gold)
    with pytest.raises(SettingsError, match="--quiet prints the error rate alone, but there is no"):
        run("--quiet", model=without_gold)


def test_gold_of_another_length(run, files, tmp_path):
    (tmp_path / "gold").write_text("0-0\n")
    with pytest.raises(CorpusError, match="3 predicted alignments, 1 gold alignments"):
        run(*files, "--gold", tmp_path / "gold")


def test_gold_that_is_none(run, files, tmp_path):
    (tmp_path / "gold").write_text("0-0\nx\n\n")
    with pytest.raises(CorpusError, match="gold:2: 'x' is not a link"):
        run(*files, "--gold", tmp_path / "gold")


def test_data_that_are_gone(run, tiny_run, tmp_path, files):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(path / "data")
    assert len(run(*files, model=path).stdout.splitlines()) == 3
    with pytest.raises(RunError, match="its data are gone"):
        run(model=path)
