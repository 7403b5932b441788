import json
import random

import pytest
from typer.testing import CliRunner

from regard.cli.main import command_app
from regard.errors import CorpusError, SettingsError
from regard.tasks.translation.trial import dry_run

app = command_app("doctor")

WORDS = ("Anna", "Bern", "Cairo", "drum", "eagle", "fox", "gold", "hill", "iris", "jade", "kiwi")
TINY = """
name: tiny
corpus: {name: copy, generated: {train: 300, valid: 50, test: 50}}
text: {source: {kind: words}, joint: false}
model:
  {family: transformer, encoder_layers: 1, decoder_layers: 1, width: 8, heads: 2,
   feed_forward: 16, embeddings: target}
training: {steps: 10, batch_tokens: 128}
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr(dry_run, "MIN_TIMED_SECONDS", 0.0)
    monkeypatch.setattr(dry_run, "DECODED_SENTENCES", 5)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)


def run(*args):
    return CliRunner().invoke(app, args, catch_exceptions=False, env={"COLUMNS": "120"})


def sentences(count, seed=1):
    rng = random.Random(seed)
    drawn = [rng.choices(WORDS, k=rng.randint(7, 24)) for _ in range(count)]
    sources = [f"We {' '.join(words)}." for words in drawn]
    return sources, [f"Nous {' '.join(word[::-1] for word in words)}." for words in drawn]


def write(tmp_path, name, lines):
    (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return name


def files(tmp_path, sources, targets, name="a"):
    return write(tmp_path, f"{name}.en", sources), write(tmp_path, f"{name}.fr", targets)


def test_a_recipe_is_examined_and_tried(tmp_path):
    shown = run("tiny.yaml")
    assert shown.exit_code == 0
    for part in (
        "copy  und → und",
        "Sizes",
        "Cleaning and repeats in train",
        "300 of 300 pairs are kept",
        "Splits compared",
        "Training here",
        "transformer, ",
        "Findings",
        "✓ The two sides belong together",
    ):
        assert part in shown.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.yaml"]


def test_without_a_trial():
    shown = run("tiny.yaml", "--no-trial")
    assert shown.exit_code == 0
    assert "Training here" not in shown.stdout


def test_json():
    shown = run("tiny.yaml", "--json", "--set", "corpus.generated.train=200")
    [line] = shown.stdout.splitlines()
    said = json.loads(line)
    assert said["splits"]["train"]["pairs"] == 200
    assert said["trial"]["pairs"] == 200
    assert {finding["level"] for finding in said["findings"]} <= {"ok", "note", "warning"}


def test_shifted_files_are_a_problem(tmp_path):
    sources, targets = sentences(1000)
    source, target = files(tmp_path, sources, ["Nous.", *targets[:-1]])
    shown = run("--source", source, "--target", target, "--languages", "en-fr", "--no-trial")
    assert shown.exit_code == 1
    assert "✗ train: lines 1 to 1,000 look shifted by +1" in shown.stdout
    assert "a.en and a.fr  en → fr" in shown.stdout
    assert "cut from train" in shown.stdout
    assert "1 problem" in shown.stdout.splitlines()[-1]


def test_files_of_unlike_lengths_are_examined_all_the_same(tmp_path):
    sources, targets = sentences(1000)
    source, target = files(tmp_path, sources[:600] + sources[601:], targets)
    shown = run("--source", source, "--target", target, "--recipe", "tiny.yaml")
    assert shown.exit_code == 1
    assert "has 999 lines and a.fr has 1000" in " ".join(shown.stdout.split())
    assert "to 999 look shifted by +1" in shown.stdout
    assert "Training here" not in shown.stdout


def test_own_files_with_held_out_ones_and_a_recipe(tmp_path):
    source, target = files(tmp_path, *sentences(500))
    table = write(tmp_path, "t.tsv", map("\t".join, zip(*sentences(40, seed=2), strict=True)))
    shown = run(
        *("--source", source, "--target", target, "--test", table, "--recipe", "tiny.yaml"),
        *("--set", "training.batch_tokens=256", "--set", "training.schedule.warmup=auto"),
        *("--set", "training.steps=90"),
    )
    assert shown.exit_code == 0
    assert "(tiny)" in shown.stdout
    assert "a step of 256" in shown.stdout
    assert "Training holds out 50 pairs for valid" in shown.stdout
    assert "warmup 9: for a width of" in shown.stdout


def test_a_file_of_pairs_may_be_named_alone(tmp_path):
    table = write(tmp_path, "all.tsv", map("\t".join, zip(*sentences(300), strict=True)))
    shown = run(table, "--languages", "en-fr", "--no-trial")
    assert shown.exit_code == 0
    assert "en → fr" in shown.stdout


def test_rules_of_cleaning_follow_the_corpus(tmp_path):
    source = [f"go {n} times" for n in range(400)]
    table = write(
        tmp_path, "long.tsv", [f"{one}\t{'walk ' * (n % 4 + 20)}" for n, one in enumerate(source)]
    )
    said = json.loads(run(table, "--no-trial", "--json").stdout)
    chosen = {choice["place"]: choice["value"] for choice in said["choices"]}
    assert chosen["corpus.cleaning.leaks"] == "source"
    assert chosen["corpus.cleaning.max_ratio"] > 12
    assert said["splits"]["train"]["cleaning"]["kept"] == 400
    assert said["leaking_pairs"] == 0


def test_a_named_corpus_with_another_recipe():
    shown = run("sort", "--recipe", "tiny.yaml", "--set", "corpus.generated.train=200", "--json")
    said = json.loads(shown.stdout)
    assert said["name"] == "sort"
    assert said["trial"]["batch_tokens"] == 128


def test_the_corpus_of_one_recipe_with_another():
    shown = run("tiny.yaml", "--recipe", "travel", "--no-trial", "--json")
    assert json.loads(shown.stdout)["splits"]["train"]["pairs"] == 300


def test_training_that_fails_at_once_is_a_problem():
    wrong = ("--set", "training.max_tokens=1", "--set", "model.embeddings=shared")
    shown = run("tiny.yaml", *wrong, "--devices", "2")
    assert shown.exit_code == 1
    assert "✗ Training fails at once: " in shown.stdout


def test_a_corpus_too_small_to_train_on_is_not_tried(tmp_path):
    source, target = files(tmp_path, *sentences(6))
    shown = run("--source", source, "--target", target)
    assert shown.exit_code == 1
    assert "✗ No pairs can be held out" in shown.stdout
    assert "Training" not in shown.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "give one corpus to examine"),
        (("travel", "--data", "a.tsv"), "give one corpus to examine"),
        (("travle",), "travle: no corpus or recipe has this name; did you mean 'travel'"),
        (("zzz",), "zzz: no corpus or recipe has this name; corpora: travel, "),
        (("travel", "--valid", "x.tsv"), "--valid, --test, --languages and --skip-bad need"),
        (("--source", "-", "--target", "a.fr"), "train: the standard input can be read only once"),
        (("--data", "a.tsv", "--test", "-"), "test: the standard input can be read only once"),
    ],
)
def test_mistakes(args, message):
    with pytest.raises(SettingsError, match=message):
        run(*args)


def test_a_file_that_is_not_there():
    with pytest.raises(CorpusError, match=r"none\.tsv: no such file"):
        run("none.tsv")


def test_several_devices_are_planned():
    shown = run("tiny.yaml", "--devices", "3", "--device", "cpu", "--bandwidth", "2", "--json")
    said = json.loads(shown.stdout)["devices"]
    assert [row["devices"] for row in said["rows"]] == [1, 2, 3]
    assert said["bandwidth"] == 2.0
    assert "On several devices" in run("tiny.yaml", "--devices", "2", "--device", "cpu").stdout
    with pytest.raises(SettingsError, match="--devices needs the steps of a trial: drop"):
        run("no-such-corpus", "--devices", "2", "--no-trial")  # before anything is read
    with pytest.raises(SettingsError, match="--bandwidth can only be used with --devices"):
        run("no-such-corpus", "--bandwidth", "2")
