import json
import shutil

import pytest
import torch
from typer.testing import CliRunner

from regard.alignment import run_alignment
from regard.alignment.dictionary import read_dictionary
from regard.alignment.run_alignment import best_alignment
from regard.cli.main import command_app
from regard.errors import CorpusError, RunError, SettingsError
from regard.evaluation.pharaoh import read_pharaoh
from regard.inspection import attention_sinks
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder, load_data
from regard.recipes.verification import accept

app = command_app("align")

CPU = torch.device("cpu")


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
def copied(tiny_run, tmp_path):
    return shutil.copytree(tiny_run, tmp_path / "copy")


@pytest.fixture
def without_gold(tiny_run, tmp_path):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    for file in path.rglob("*.gold.txt"):
        file.unlink()
    return path


def test_a_line_for_each_pair(run, files):
    shown = run(*files, "--plain")
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


def test_json(run, files, tiny_run, tmp_path):
    (tmp_path / "gold").write_text("0-0 1-1\n\n0-0 1-1 2-2 3-3\n")
    said = json.loads(run(*files, "--gold", tmp_path / "gold", "--json").stdout)
    assert len(said["alignments"]) == 3
    assert said["alignments"][1] == []
    assert said["settings"] == best_alignment(open_run(tiny_run, device=CPU)).model_dump()
    assert said["reverse"] is None
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


def test_layers_heads_shift_and_reading_change_the_links(run):
    directions = [
        ("--plain",),
        ("--layer", 1, "--head", 0),
        ("--shift",),
        ("--links", "intersection"),
    ]
    found = {run(*direction).stdout for direction in directions}
    assert len(found) == 4


def test_the_best_alignment_is_chosen_on_valid_and_kept(run, copied, monkeypatch):
    monkeypatch.setattr(run_alignment, "NUM_SELECTION_PAIRS", 10)
    (copied / run_alignment.ALIGNMENT_FILE).unlink()
    shown = run("--choose", "--json", model=copied)
    chosen = json.loads(shown.stdout)["settings"]
    assert "on 10 pairs" in next(line for line in shown.stderr.splitlines() if "chose" in line)
    kept = json.loads((copied / run_alignment.ALIGNMENT_FILE).read_text())
    assert (kept["settings"], kept["by"], kept["pairs"]) == (chosen, "gold", 10)
    assert json.loads(run("--json", model=copied).stdout)["settings"] == chosen


def test_the_best_alignment_is_chosen_by_gold_from_the_command_line(run, files, copied, tmp_path):
    (tmp_path / "gold").write_text("1-1 2-2\n\n1-1 2-2 4-4\n")
    gold = "--gold", tmp_path / "gold", "--gold-from", 1
    shown = run(*files, *gold, "--choose", model=copied)
    assert "on 3 pairs" in shown.stderr
    kept = json.loads((copied / run_alignment.ALIGNMENT_FILE).read_text())
    assert kept["pairs"] == 3
    assert f"alignment error rate {kept['value']:.1%} " in shown.stderr


def test_gold_may_have_the_target_first(run, files, tmp_path):
    (tmp_path / "gold").write_text("0-0 1-1\n\n0-0 1-1 2-3 3?2\n")
    (tmp_path / "turned").write_text("0-0 1-1\n\n0-0 1-1 3-2 2?3\n")
    directions = ("gold",), ("turned", "--gold-reversed")
    scores = [
        json.loads(run(*files, "--json", "--gold", tmp_path / name, *rest).stdout)["score"]
        for name, *rest in directions
    ]
    assert scores[0] == scores[1]


def test_marks_may_be_cut_apart(run, tmp_path):
    for name, line in (
        ("a.fr", "Jane danse."),
        ("a.en", "Jane dances."),
        ("cut.fr", "Jane danse ."),
        ("cut.en", "Jane dances ."),
    ):
        (tmp_path / name).write_text(f"{line}\n")

    def links(name, *directions):
        files = "--source", tmp_path / f"{name}.fr", "--target", tmp_path / f"{name}.en"
        return next(read_pharaoh(run(*files, "--plain", *directions).stdout.splitlines())).sure

    cut = links("cut", "--cut-apart")
    assert {target for _, target in cut} == {0, 1, 2}
    # the model reads the same, but a word and its mark are told apart
    assert {min(1, s) for s, t in cut if t == 0} == {s for s, t in links("a") if t == 0}


def turn(folder):
    """Let a run be of the other direction."""
    known = folder / "data" / "prepared.json"
    known.write_text(json.dumps({**json.loads(known.read_text()), "languages": ["en", "fr"]}))
    accept(folder)
    return folder


def test_two_models_align_together(run, files, copied):
    reverse_run = turn(copied)

    def links(*directions):
        return [each.sure for each in read_pharaoh(run(*files, *directions).stdout.splitlines())]

    forward = links("--links", "rows")
    directions = ("intersection", "grow-diag", "union")
    both = [
        links("--reverse", reverse_run, "--symmetrize", direction, "--layer", 1)
        for direction in directions
    ]
    assert [len(each) for each in both] == [3, 3, 3]
    for small, middle, large in zip(*both, strict=True):
        assert small <= middle <= large
    assert len(forward) == 3
    assert links("--reverse", reverse_run, "--layer", 1) != both[1]  # their maps are averaged


def test_a_second_model_of_the_same_direction_is_refused(run, files, copied):
    message = "it goes from fr to en, but a model from en to fr is needed"
    with pytest.raises(SettingsError, match=message):
        run(*files, "--reverse", copied)
    assert run(*files, "--reverse", turn(copied)).exit_code == 0
    shutil.rmtree(copied / "data")  # with it goes what says so
    assert run(*files, "--reverse", copied).exit_code == 0


def test_gold_that_does_not_fit_is_told_before_anything_is_printed(run, files, tmp_path, capfd):
    (tmp_path / "gold").write_text("0-0\n\n0-99\n")
    with pytest.raises(CorpusError, match="gold"):
        run(*files, "--gold", tmp_path / "gold")
    assert capfd.readouterr().out == ""


def test_gold_to_choose_by_must_fit_its_pairs(run, files, copied, tmp_path):
    (tmp_path / "gold").write_text("0-0\n\n0-0\n0-0\n")
    with pytest.raises(CorpusError, match="3 attentions, 4 gold alignments"):
        run(*files, "--gold", tmp_path / "gold", "--choose", model=copied)


def test_without_gold_two_models_are_chosen_by_their_agreement(run, without_gold, tmp_path):
    reverse_run = turn(shutil.copytree(without_gold, tmp_path / "back"))
    shown = run("--choose", "--reverse", reverse_run, "--json", model=without_gold)
    kept = [
        json.loads((each / run_alignment.ALIGNMENT_FILE).read_text())
        for each in (without_gold, reverse_run)
    ]
    assert [each["by"] for each in kept] == ["agreement", "agreement"]
    assert shown.stderr.count("an agreement with the other direction of") == 2
    said = json.loads(shown.stdout)
    assert [said["settings"], said["reverse"]] == [each["settings"] for each in kept]


def test_with_gold_both_models_are_chosen_by_it(run, copied, tmp_path):
    reverse_run = turn(shutil.copytree(copied, tmp_path / "back"))
    shown = run("--choose", "--reverse", reverse_run, "--quiet", model=copied)
    assert shown.stderr.count("chose ") == 2
    kept = [
        json.loads((each / run_alignment.ALIGNMENT_FILE).read_text())
        for each in (copied, reverse_run)
    ]
    assert [each["by"] for each in kept] == ["gold", "gold"]
    assert kept[0]["value"] != kept[1]["value"]  # the second reads English and writes French


def test_sinks_are_reported(run, monkeypatch):
    monkeypatch.setattr(attention_sinks, "MIN_SINK_WEIGHT", 0.001)
    shown = run("--sinks")
    header, *rows = shown.stdout.splitlines()
    assert header.split() == ["layer", "head", "on", "share", "sentences"]
    assert any("</s>" in row for row in rows)
    assert "of all that the head attends to in 20 sentences" in shown.stderr
    said = json.loads(run("--sinks", "--json").stdout)["sinks"]
    assert len(said) == len(rows)
    assert said[0]["part"] == "cross"
    assert "attention sinks, mostly layer" in run("--quiet").stderr


def test_no_sinks_to_report(run, monkeypatch):
    monkeypatch.setattr(attention_sinks, "MIN_SINK_WEIGHT", 1.1)
    shown = run("--sinks")
    assert shown.stdout == ""
    assert "no head is an attention sink" in shown.stderr


def test_a_run_without_test_pairs_aligns_valid(run, tiny_run, tmp_path):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    known = path / "data" / "prepared.json"
    saved = json.loads(known.read_text())
    saved["pairs"]["test"] = 0
    known.write_text(json.dumps(saved))
    accept(path)
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
    with pytest.raises(SettingsError, match="no two words were aligned 99999 times; use mor"):
        run("--dictionary", path, "--min-count", 99999, model=words_run)
    assert path.read_bytes() == few


def test_a_dictionary_of_some_pairs_or_of_files(run, files, tmp_path):
    path = tmp_path / "fr-en.tsv"
    run("--dictionary", path, "--pairs", 20)
    sampled = read_dictionary(path)
    run("--dictionary", path)
    assert 0 < len(sampled) < len(read_dictionary(path))
    run(*files, "--dictionary", path)
    assert read_dictionary(path).keys() <= {"Jane", "danse", "Paul", "aime", "la", "mer"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--source", "a"), "--source can only be used with --target"),
        (("--target", "a"), "--target can only be used with --source"),
        (("--source", "-", "--target", "-"), "cannot both be the standard input"),
        (("--choose", "--layer", "0"), "--choose finds --layer, --head, --shift and --links"),
        (("--choose", "--shift"), "--choose finds"),
        (("--choose", "--plain"), "--choose finds"),
        (
            ("--plain", "--links", "union"),
            "--links cannot be used with --plain: drop one of them; --plain reads by rows",
        ),
        (("--gold-from", "1"), "--gold-from can only be used with --gold"),
        (("--gold-reversed",), "--gold-reversed can only be used with --gold"),
        (("--symmetrize", "union"), "--symmetrize can only be used with --reverse"),
        (("--reverse", "m", "--links", "union"), "--links is for one model: with --reverse give"),
        (("--dictionary", "d", "--quiet"), "--quiet cannot be used with --dictionary"),
        (("--sinks", "--gold", "g"), "--gold cannot be used with --sinks"),
        (("--sinks", "--reverse", "m"), "--reverse cannot be used with --sinks"),
        (("--sinks", "--layer", "0"), "--layer cannot be used with --sinks"),
        (("--dictionary", "d", "--json"), "--json cannot be used with --dictionary"),
        (("--cut-apart",), "--cut-apart can only be used with --source"),
        (("--pairs", "9"), "--pairs can only be used with --dictionary"),
        (("--min-count", "1"), "--min-count can only be used with --dictionary"),
        (("--layer", "9"), "layer: cross attention has 2, counted from 0; got 9"),
    ],
)
def test_mistakes(run, args, message):
    with pytest.raises(SettingsError, match=message):
        run(*args)


def test_no_gold_to_go_by(run, without_gold):
    with pytest.raises(SettingsError, match=r"--choose: the pairs that .* have no gold"):
        run("--choose", model=without_gold)
    with pytest.raises(SettingsError, match="--quiet prints only the error rate, which needs"):
        run("--quiet", model=without_gold)


def test_gold_of_another_length(run, files, tmp_path):
    (tmp_path / "gold").write_text("0-0\n")
    with pytest.raises(CorpusError, match="3 predicted alignments, 1 gold alignments"):
        run(*files, "--gold", tmp_path / "gold")


def test_gold_that_is_none(run, files, tmp_path):
    (tmp_path / "gold").write_text("0-0\nx\n\n")
    with pytest.raises(CorpusError, match="gold:2: 'x' is not a link"):
        run(*files, "--gold", tmp_path / "gold")


def test_gold_that_goes_beyond_the_sentence(run, files, tmp_path):
    (tmp_path / "gold").write_text("1-1 2-2\n\n1-1\n")
    with pytest.raises(
        CorpusError, match="gold:1: links word 2 of the source, counted from 0, with"
    ):
        run(*files, "--gold", tmp_path / "gold")


def test_data_that_are_gone(run, tiny_run, tmp_path, files):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(path / "data")
    assert len(run(*files, model=path).stdout.splitlines()) == 3
    with pytest.raises(RunError, match="its data are gone"):
        run(model=path)
