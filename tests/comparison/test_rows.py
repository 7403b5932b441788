"""Comparisons of classifiers: what they begin with is trained once, corpora have tables apart."""

import json

import pytest
import yaml

from classifiers import classifier_recipe, examples, write_table
from drawing import words_in
from ladders import be_quick, run_compare, write_recipes
from languages import language_recipe
from regard.comparison.plan import (
    Budget,
    ComparisonFolder,
    PlanEntry,
    make_plan,
    start_entries,
)
from regard.comparison.plots import plot_scores
from regard.comparison.results import aggregate_task_results
from regard.comparison.row_processes import start_levels
from regard.errors import SettingsError
from regard.training.checkpoints import load_weights


def write(path, recipe, **changed):
    plain = recipe.model_dump(mode="json") | changed
    path.write_text(yaml.safe_dump(plain))
    return path


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    """Classifiers from nothing and from a language model, which is tuned first, on two corpora."""
    folder = tmp_path_factory.mktemp("ladder")
    first = write(folder / "first.yaml", language_recipe("gpt", folder), name="first")
    start = {"recipe": str(first)}
    tuned = language_recipe("gpt", folder, start=start)
    second = write(folder / "second.yaml", tuned, name="second")
    plain = classifier_recipe(folder)
    other = {"train": write_table(folder / "other.tsv", examples(70, start=3)), "test_share": 0.3}
    recipes = [
        write(folder / "none.yaml", plain, name="none"),
        write(
            folder / "begun.yaml", plain, name="begun", model={"pooling": "mean"},
            start={"recipe": str(second)},
        ),
        write(folder / "elsewhere.yaml", plain, name="elsewhere", corpus=other),
    ]  # fmt: skip
    arguments = [*recipes, "--seeds", "1,2", "--against", "none", "--out", folder / "out"]
    with pytest.MonkeyPatch.context() as patch:
        be_quick(patch)
        shown = run_compare(*arguments)
        again = run_compare(*arguments)
    return folder / "out", shown, again


def test_starts_are_trained_once_and_rows_begin_with_them(ladder):
    folder, shown, _ = ladder
    assert shown.exit_code == 0, shown.output
    starts = ComparisonFolder(folder).load_plan().starts
    assert [start.recipe.name for start in starts] == ["first", "second"]
    second = ComparisonFolder(folder).run(starts[1]).path
    given = load_weights(second / "model.safetensors")
    for seed in (1, 2):
        begun = load_weights(
            folder / "runs" / f"begun-seed{seed}" / "weights" / "start.safetensors"
        )
        assert all((begun[f"encoder.{name}"] == given[name]).all() for name in given)


def test_each_corpus_has_its_table_and_tests(ladder):
    folder, shown, _ = ladder
    found = json.loads((folder / "ladder.json").read_text())
    first, second = found["corpora"]
    assert [system["label"] for system in first["systems"]] == ["none", "begun"]
    assert [system["label"] for system in second["systems"]] == ["elsewhere"]
    assert first["against"] == "none"
    assert first["score"] == "accuracy"
    none, begun = first["systems"]
    assert none["significance"] is None
    assert begun["significance"]["p_value"] is None  # of 12 examples
    assert len(begun["rows"]) == 2
    assert begun["rows"][0]["start_seconds"] > 0
    assert begun["score"]["mean"] == pytest.approx(
        sum(row["score"]["value"] for row in begun["rows"]) / 2
    )
    report = (folder / "ladder.md").read_text()
    assert "| begun |" in report or "| **begun** |" in report
    assert "- second: trained once, seed 1, which started from a run of" in report
    for name in ("scores.png", "scores.svg"):
        assert (folder / name).is_file()
    assert "scores.png (and .svg)" in shown.stderr


def test_the_same_command_finds_all_of_it_done(ladder):
    _, _, again = ladder
    assert again.exit_code == 0
    assert "training none" not in again.stderr


def test_the_figure_names_every_system(ladder, tmp_path):
    folder, _, _ = ladder
    plan = ComparisonFolder(folder).load_plan()
    results = aggregate_task_results(plan, ComparisonFolder(folder))
    words = words_in(plot_scores(results), tmp_path)
    assert {"none", "begun", "elsewhere"} <= set(words)
    assert not results.failed


def begun_with(name, tmp_path, start=None):
    begun = {} if start is None else {"start": {"recipe": start}}
    return language_recipe("gpt", tmp_path, **begun).model_copy(update={"name": name})


def test_starts_come_behind_what_they_begin_with(tmp_path):
    starts = {"a": None, "b": "a", "c": "b", "d": None}
    plain = {name: begun_with(name, tmp_path, start) for name, start in starts.items()}
    plain["row"] = begun_with("row", tmp_path, "d")
    rows = [PlanEntry(label=name, recipe=plain[name]) for name in ("c", "row")]
    found = start_entries(rows, plain.__getitem__)
    assert [entry.label for entry in found] == ["a", "b", "d"]
    plan = make_plan(rows, Budget(), 1, starts=found)
    levels = [[entry.name for entry in level] for level in start_levels(plan)]
    assert levels == [["start-a", "start-d"], ["start-b"]]


def test_recipes_that_begin_with_each_other_are_refused(tmp_path):
    plain = {"x": begun_with("x", tmp_path, "y"), "y": begun_with("y", tmp_path, "x")}
    with pytest.raises(SettingsError, match="y starts from x starts from y"):
        start_entries([PlanEntry(label="x", recipe=plain["x"])], plain.__getitem__)


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["--minutes", "1"], "--minutes has no effect on runs of text-classification"),
        (["--beam", "3"], "--beam has no effect"),
        (["--against", "who"], "--against who: no system of that name"),
    ],
)
def test_options_without_effect_are_refused(tmp_path, arguments, wrong):
    recipe = write(tmp_path / "none.yaml", classifier_recipe(tmp_path))
    with pytest.raises(SettingsError, match=wrong):
        run_compare(recipe, *arguments, "--out", tmp_path / "out")


def test_tasks_are_not_mixed(tmp_path):
    write_recipes(tmp_path)
    recipe = write(tmp_path / "none.yaml", classifier_recipe(tmp_path))
    with pytest.raises(SettingsError, match="runs of text-classification and translation cannot"):
        run_compare(recipe, tmp_path / "plain.yaml", "--out", tmp_path / "out")


def test_a_start_that_fails_is_the_failure_of_its_rows(tmp_path, monkeypatch):
    be_quick(monkeypatch)
    first = write(tmp_path / "first.yaml", language_recipe("gpt", tmp_path), name="first")
    plain = classifier_recipe(tmp_path)
    start, model = {"recipe": str(first)}, {"pooling": "mean"}
    recipe = write(tmp_path / "begun.yaml", plain, name="begun", start=start, model=model)
    (tmp_path / "text.txt").unlink()
    shown = run_compare(recipe, "--out", tmp_path / "out")
    assert shown.exit_code == 1
    assert "its start, first, was not trained" in shown.output
