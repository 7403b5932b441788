import json
import signal
import time

import pytest

from forks import Fork
from ladders import be_quick, run_compare, write_recipes
from regard.errors import RunError, SettingsError
from regard.recipes.run_folder import RunFolder
from regard.training.checkpoints import read_progress

DONE = ("plain.yaml", "good=search.yaml", "--steps", 4, "--seeds-for", "good=1,2", "--beam", 2)
"""What the comparison that the tests share was asked for."""
WORDS = "text.source={kind: words, size: 100}"
WRITTEN = [
    "ladder.json",
    "ladder.md",
    *(f"{a}.{b}" for a in ("by-length", "quality-cost") for b in ("png", "svg")),
]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of a finished comparison, beside its recipes, and what was printed."""
    home = tmp_path_factory.mktemp("compare")
    write_recipes(home)
    with pytest.MonkeyPatch.context() as patch:
        be_quick(patch)
        patch.chdir(home)
        shown = run_compare(*DONE, "--out", "done")
    assert shown.exit_code == 0
    return home / "done", shown


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    be_quick(monkeypatch)
    monkeypatch.chdir(tmp_path)
    write_recipes(tmp_path)


def files(folder):
    """All files, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_recipes_become_a_ladder(done):
    folder, shown = done
    for name in WRITTEN:
        assert (folder / name).stat().st_size > 500
    ladder = json.loads((folder / "ladder.json").read_text())
    assert [
        (one["label"], [row["seed"] for row in one["rows"]]) for one in ladder["standings"]
    ] == [
        ("plain", [1]),
        ("good", [1, 2]),
    ]
    assert {row["steps"] for one in ladder["standings"] for row in one["rows"]} == {4}
    assert (ladder["sentences"], ladder["beam"]) == (16, 2)
    for part in ("Quality and cost (16 sentences of test, beam 2)", "plain", "good", "BLEU"):
        assert part in shown.stdout
    for part in ("reading and cleaning travel", "training good-seed2", "the results are in done"):
        assert part in shown.stderr
    assert "seeds: plain 1; good 1, 2" in (folder / "ladder.md").read_text()
    for name in ("plain-seed1", "good-seed1", "good-seed2"):
        assert RunFolder(folder / "runs" / name).card.exists()
        assert len((folder / "rows" / f"{name}.txt").read_text().splitlines()) == 16


def test_a_finished_comparison_is_only_drawn_again(done, monkeypatch):
    folder, shown = done
    monkeypatch.chdir(folder.parent)
    before = files(folder)
    for args in ((*DONE, "--out", "done"), ("--out", "done")):
        again = run_compare(*args)
        assert again.exit_code == 0
        assert again.stdout == shown.stdout
    changed = {path.name for path, when in files(folder).items() if before.get(path) != when}
    assert changed <= {*WRITTEN, "plan.json", "manifest.json", ".lock"}


def test_json(done, monkeypatch):
    folder, _ = done
    monkeypatch.chdir(folder.parent)
    said = json.loads(run_compare("--out", "done", "--json").stdout)
    assert said == json.loads((folder / "ladder.json").read_text())


def test_other_arguments_are_refused(done, monkeypatch):
    folder, _ = done
    monkeypatch.chdir(folder.parent)
    before = files(folder)
    with pytest.raises(SettingsError, match="begun with other arguments: beam was 2 and is now 3"):
        run_compare(*DONE[:-1], 3, "--out", "done")
    with pytest.raises(SettingsError, match=r"entries.plain-seed1.recipe.training.steps was 4"):
        run_compare("plain.yaml", "good=search.yaml", "--steps", 5, "--out", "done")
    assert files(folder) == before


def test_finished_runs_are_rows_too(done, tmp_path):
    runs = [done[0] / "runs" / f"{name}-seed1" for name in ("plain", "good")]
    shown = run_compare(f"old={runs[0]}", runs[1], "turned.yaml", "--beam", 2, "--steps", 2)
    assert shown.exit_code == 0
    ladder = json.loads((tmp_path / "ladder" / "ladder.json").read_text())
    assert [(one["label"], one["rows"][0]["steps"]) for one in ladder["standings"]] == [
        ("old", 4),
        ("good", 4),
        ("turned", 2),
    ]
    assert [path.name for path in (tmp_path / "ladder" / "runs").iterdir()] == ["turned-seed1"]


def test_a_comparison_stands_for_its_rows(done, tmp_path):
    shown = run_compare(done[0], "turned.yaml", "--beam", 2, "--steps", 2)
    assert shown.exit_code == 0
    ladder = json.loads((tmp_path / "ladder" / "ladder.json").read_text())
    assert [
        (one["label"], [row["seed"] for row in one["rows"]]) for one in ladder["standings"]
    ] == [
        ("plain", [1]),
        ("good", [1, 2]),
        ("turned", [1]),
    ]
    assert ladder["rising"] == ["plain", "good", "turned"]  # a warm-up of 10 steps
    assert (
        "- budget: 2 steps of training for each row trained here; finished runs as they"
        in (tmp_path / "ladder" / "ladder.md").read_text()
    )
    assert "Trained for fewer steps than their warm-up: plain, good, turned" in shown.stderr
    with pytest.raises(SettingsError, match="the rows of a comparison have names: drop all="):
        run_compare(f"all={done[0]}", "turned.yaml")


def test_a_row_that_fails_is_told_and_stops_no_other(tmp_path):
    write_recipes(tmp_path, "training.max_tokens=1")
    (tmp_path / "bad.yaml").write_bytes((tmp_path / "search.yaml").read_bytes())
    write_recipes(tmp_path)
    shown = run_compare("bad=bad.yaml", "plain.yaml", "--steps", 2, "--beam", 1)
    assert shown.exit_code == 1
    assert "the results are in ladder: ladder.md, ladder.json, by-length.png" in shown.stderr
    assert "bad-seed1 failed: none of the 200 training pairs has at most 1 tokens" in shown.stderr
    bad, plain = json.loads((tmp_path / "ladder" / "ladder.json").read_text())["standings"]
    assert bad["failures"][0]["reason"].startswith("none of the 200 training pairs")
    assert bad["rows"] == []
    assert plain["rows"][0]["steps"] == 2
    assert "- bad, seed 1, failed: none of the 200" in (tmp_path / "ladder/ladder.md").read_text()


@pytest.mark.parametrize(
    ("budget", "steps"), [(("--tokens", 900), range(4, 10)), (("--minutes", 0.002), range(1, 999))]
)
def test_budgets_become_steps(tmp_path, budget, steps):
    shown = run_compare("plain.yaml", *budget, "--seeds", "1,2", "--beam", 1, "--jobs", 2)
    assert shown.exit_code == 0
    ladder = json.loads((tmp_path / "ladder" / "ladder.json").read_text())
    assert ladder["at_once"] == 2
    assert "Up to 2 rows were trained at a time, so seconds are of a shared machine" in shown.stderr
    assert (
        run_compare("--out", "ladder").stderr.count("Up to 2 rows were trained at a time") == 1
    )  # it stays
    (plain,) = ladder["standings"]
    one, other = (row["steps"] for row in plain["rows"])
    assert one == other
    assert one in steps
    assert ("timing plain-seed1" in shown.stderr) == (budget[0] == "--minutes")


def test_another_corpus_for_all(tmp_path):
    lines = [f"{a} {b}" for a in "abcdefghij" for b in "klmnopqrst"]
    (tmp_path / "a.en").write_text("".join(f"say {line}\n" for line in lines))
    (tmp_path / "a.de").write_text("".join(f"sage {line} du\n" for line in lines))
    few = ("--steps", 2, "--beam", 1, "--set", WORDS, "--json")
    own = ("--source", "a.en", "--target", "a.de", "--languages", "en-de")
    said = json.loads(run_compare("plain.yaml", *own, *few, "--out", "own").stdout)
    assert "a.en" in said["origin"]
    assert said["standings"][0]["rows"][0]["alignment"] is None  # there is no gold
    sizes = ("--set", "corpus.generated={train: 90, valid: 9, test: 9}")
    said = json.loads(run_compare("search.yaml", "--corpus", "copy", *sizes, *few).stdout)
    assert said["sentences"] == 9


@pytest.mark.parametrize(
    ("args", "kind", "message"),
    [
        ((), RunError, "ladder: holds no comparison yet: name recipes or runs to compare"),
        (("--steps", 3), SettingsError, "name the recipes or runs to compare: options alone are"),
        (("--beam", 3), SettingsError, "name the recipes or runs to compare: options alone are"),
        (("travle",), SettingsError, "did you mean 'travel'"),
        (("plain.yaml", "--steps", 3, "--tokens", 5), SettingsError, "--tokens: give only one"),
        (("plain.yaml", "--seeds", "1,x"), SettingsError, "--seeds 1,x: expected different"),
        (("plain.yaml", "--seeds", "1,1"), SettingsError, "--seeds 1,1: expected different"),
        (("plain.yaml", "--seeds", f"1,{2**63}"), SettingsError, "numbers from 0 to 92233720368"),
        (
            ("plain.yaml", "--seeds-for", "plain=1", "--seeds-for", "plain=2"),
            SettingsError,
            "--seeds-for plain: given twice; give all of its seeds once",
        ),
        (("plain.yaml", "--seeds-for", "3"), SettingsError, "--seeds-for 3: expected NAME=N,N"),
        (
            ("plain.yaml", "--seeds-for", "rnn=3"),
            SettingsError,
            "--seeds-for rnn: no compared recipe has this name; there are plain",
        ),
        (("plain.yaml", "plain.yaml"), SettingsError, "two rows are called plain with seed 1"),
        (
            ("plain.yaml", "--corpus", "copy", "--data", "a.tsv"),
            SettingsError,
            "--corpus and files of your own exclude each other",
        ),
        (
            ("x=/etc/passwd",),
            SettingsError,
            r"/etc/passwd: a recipe is a \.yaml file, and a run is a folder",
        ),
        (
            ("sst2", "sst2-ulmfit", "--set", "text.size=900"),
            SettingsError,
            "text.size=900: has no effect: training that starts from a run of sst2-awd-lstm has "
            "the value 8000 for text.size; leave it out",
        ),
        (("there",), RunError, r"there: not a run: it has no recipe\.yaml"),
    ],
)
def test_mistakes(args, kind, message, tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(kind, match=message):
        run_compare(*args)
    assert not (tmp_path / "ladder" / "plan.json").exists()


def test_options_that_would_do_nothing(done):
    with pytest.raises(
        SettingsError, match="only finished runs are compared, and nothing is trained"
    ):
        run_compare(done[0] / "runs" / "plain-seed1", "--steps", 9)


def test_a_path_may_hold_an_equals_sign(tmp_path):
    (tmp_path / "rate=1").mkdir()
    (tmp_path / "plain.yaml").rename(tmp_path / "rate=1" / "plain.yaml")
    for system, label in (("rate=1/plain.yaml", "plain"), ("mine=rate=1/plain.yaml", "mine")):
        with pytest.raises(SettingsError, match=f"no compared recipe has this name.* are {label}$"):
            run_compare(system, "--seeds-for", "other=1")


def test_without_a_row_there_are_no_figures(tmp_path):
    shown = run_compare("plain.yaml", "--set", "training.max_tokens=1")
    assert shown.exit_code == 1
    assert "the results are in ladder: ladder.md, ladder.json, logs/, runs/" in shown.stderr
    assert not list((tmp_path / "ladder").glob("*.png"))


def test_files_that_changed_are_noticed(tmp_path):
    def write(word):
        lines = [f"{word} {a} {b}" for a in "abcdefghij" for b in "klmnopqrst"]
        (tmp_path / "a.tsv").write_text("".join(f"{line}\tx {line}\n" for line in lines))

    args = ("plain.yaml", "--data", "a.tsv", "--set", WORDS, "--steps", 2, "--beam", 1)
    write("say")
    assert run_compare(*args).exit_code == 0
    write("tell")
    with pytest.raises(SettingsError, match="its corpus has changed since the comparison was beg"):
        run_compare(*args)


@pytest.mark.slow
def test_stopped_in_whatever_way_it_goes_on(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    write_recipes(tmp_path, "training.steps=300", "training.save_every=10")
    training_options = ("plain.yaml", "--beam", 1, "--out", "here")
    args = ("compare", *training_options, "--device", "cpu")
    run = tmp_path / "here" / "runs" / "plain-seed1"
    log = tmp_path / "here" / "logs" / "plain-seed1.log"

    def progress():
        return next((one.step for one in read_progress(run / "checkpoints")), 0)

    def begun():
        return log.read_text().count("parameters") if log.exists() else 0

    def wait_for(process, happened):
        deadline = time.monotonic() + 120
        while not happened():
            assert process.poll() is None, process.said()
            assert time.monotonic() < deadline, "it never happened"
            time.sleep(0.01)

    for turn, (number, code) in enumerate([(signal.SIGKILL, -9), (signal.SIGTERM, 143)], 1):
        with Fork(tmp_path / "said", *args) as stopped:
            wait_for(stopped, lambda: begun() == turn)  # noqa: B023  # it is done within the loop
            reached = progress()
            wait_for(stopped, lambda: progress() > reached)  # noqa: B023
            stopped.send_signal(number)
            assert stopped.wait(300) == code
        assert ("Continue with: regard compare --out here" in stopped.said()) == (code == 143)
        assert 0 < progress() < 300
        assert not (tmp_path / "here" / "rows").exists()
    with Fork(tmp_path / "said", *args) as whole:
        assert whole.wait(300) == 0, whole.said()
    assert "Quality and cost" in whole.said()
    assert progress() == 300
    assert log.read_text().count("learning the vocabulary") == 1
    assert begun() == 3  # and taken up twice
