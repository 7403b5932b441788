import re
import shutil
from pathlib import Path

import pytest

from ladders import small_recipe
from regard.comparison.plan import (
    Budget,
    ComparisonFolder,
    PlanEntry,
    check_same_plan,
    entries_of,
    entry_of_run,
    make_plan,
    name_runs_apart,
)
from regard.errors import RunError, SettingsError
from regard.recipes.run_folder import RunFolder

HERE = Path("ladders/here")


def plan(*overrides, seeds=(1, 2), label="plain", budget=None, beam=4):
    budget = budget or Budget()
    entries = entries_of(small_recipe("plain", *overrides), label, seeds, budget)
    return make_plan(entries, budget, beam)


def test_an_entry_for_each_seed():
    made = plan(seeds=(3, 5), budget=Budget(steps=77))
    assert [(e.name, e.seed, e.recipe.training.steps) for e in made.entries] == [
        ("plain-seed3", 3, 77),
        ("plain-seed5", 5, 77),
    ]
    assert made.entry("plain-seed5") is made.entries[1]


def test_a_saved_plan_with_an_old_name_of_a_setting_is_read():
    model = {"family": "moe", "experts": {"chosen": 3}}
    recipe = {"name": "old", "corpus": {"name": "copy"}, "model": model}
    entry = PlanEntry.model_validate({"label": "old", "recipe": recipe})
    assert entry.recipe.model.experts.top_k == 3


def test_what_is_to_be_chosen_is_part_of_a_plan():
    made = plan("training.steps=auto", "training.schedule.warmup=auto")
    assert "training.steps" in made.entries[0].recipe.auto
    assert type(made).model_validate_json(made.model_dump_json()) == made
    [entry, _] = plan("training.steps=auto", budget=Budget(steps=7)).entries
    assert (entry.recipe.training.steps, "training.steps" in entry.recipe.auto) == (7, False)


def test_a_plan_keeps_its_tokenizer():
    begun = plan().model_copy(update={"tokenize": "zh"})
    check_same_plan(begun, plan(), HERE)  # which asks for none
    with pytest.raises(SettingsError, match='tokenize was "zh" and is now "char"'):
        check_same_plan(begun, plan().model_copy(update={"tokenize": "char"}), HERE)
    old = type(begun).model_validate_json(begun.model_dump_json(exclude={"tokenize"}))
    assert old.tokenize == "13a"  # what all were scored with then


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "as long as its recipe says for each row"),
        ({"steps": 5000}, "5,000 steps of training for each row"),
        ({"tokens": 12345}, "12,345 tokens of training for each row"),
        ({"minutes": 2.5}, "2.5 minutes of training for each row"),
    ],
)
def test_a_budget_in_words(given, said):
    assert Budget(**given).describe("each row") == said


def test_a_budget_is_not_that_of_finished_runs(tiny_run):
    budget, taken = Budget(steps=9), entry_of_run(tiny_run, None)
    made = entries_of(small_recipe("plain"), "plain", [1], budget)
    assert make_plan(made, budget, 5).budget_text == "9 steps of training for each row"
    assert make_plan([*made, taken], budget, 5).budget_text == (
        "9 steps of training for each row trained here; finished runs as they were"
    )
    assert make_plan([taken], Budget(), 5).budget_text == "finished runs as they were"


def test_a_run_of_a_comparison_keeps_its_name(tiny_run, tmp_path):
    runs = tmp_path / "runs"
    for name in ("my tiny-seed1", "other"):
        shutil.copytree(tiny_run, runs / name)
    assert entry_of_run(runs / "my tiny-seed1", None).label == "tiny"  # no comparison's yet
    (tmp_path / "plan.json").touch()
    assert entry_of_run(runs / "my tiny-seed1", None).name == "my tiny-seed1"
    assert entry_of_run(runs / "my tiny-seed1", "new").label == "new"
    assert entry_of_run(runs / "other", None).label == "tiny"


def test_a_run_must_have_come_to_its_end(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(SettingsError, match="run: its checkpoints, which say how long it was"):
        entry_of_run(run, None)
    (run / "card.md").unlink()
    with pytest.raises(
        SettingsError,
        match="its training has not reached its end; continue with: regard train --resume --out",
    ):
        entry_of_run(run, None)
    with pytest.raises(RunError, match="none: no such folder"):
        entry_of_run(Path("none"), None)


def test_a_run_that_is_being_trained_is_no_row(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run, tmp_path / "run")
    with (
        RunFolder(run).locked(),
        pytest.raises(SettingsError, match="run: a process is training there; wait for it, or"),
    ):
        entry_of_run(run, None)
    assert entry_of_run(run, None).run == run


@pytest.mark.parametrize("label", ["a/b", "", ".hidden", "a\nb"])
def test_a_name_must_be_usable_as_a_file_name(label):
    with pytest.raises(SettingsError, match="cannot be the name of a row: give it another one"):
        plan(label=label)


def test_two_rows_of_one_name_and_seed_are_refused():
    entries = plan().entries
    with pytest.raises(SettingsError, match="two rows are called plain with seed 1: give one of"):
        make_plan([*entries, entries[0]], Budget(), 5)


def test_runs_of_one_recipe_are_called_by_their_folders_unless_seeds_alone_differ(tmp_path):
    one, two = plan(label="x", seeds=(1, 2)).entries
    named = [
        entry.model_copy(update={"label": entry.recipe.name, "run": tmp_path / folder})
        for entry, folder in ((one, "a"), (two, "b"), (one, "c"))
    ]
    assert [entry.label for entry in name_runs_apart(named)] == ["a", "b", "c"]
    assert name_runs_apart(named[:2]) == named[:2]
    given = [entry.model_copy(update={"label": "mine"}) for entry in named]
    assert name_runs_apart(given) == given


def test_rows_of_one_name_may_differ_in_their_seed_only():
    other = plan("training.batch_tokens=99", seeds=(3,)).entries
    with pytest.raises(
        SettingsError,
        match=r"plain-seed1 and plain-seed3 differ in more than their seed: training.batch_tokens "
        "was 256 and is now 99",
    ):
        make_plan([*plan().entries, *other], Budget(), 5)


def test_the_same_plan_is_the_same_whatever_was_typed():
    check_same_plan(plan(), plan().model_copy(update={"command": ("regard", "compare")}), HERE)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seeds": (1, 2, 3)}, "entries.plain-seed3 is new"),
        ({"seeds": (1,)}, "entries.plain-seed2 is no longer there"),
        ({"seeds": (2, 1)}, "its rows were in another order"),
        ({"beam": 5}, "beam was 4 and is now 5"),
        ({"budget": Budget(tokens=9)}, "budget.tokens was null and is now 9"),
        (
            {"seeds": (1,), "beam": 1},
            "entries.plain-seed2 is no longer there (and 1 more); continue",
        ),
    ],
)
def test_other_arguments_are_refused(changed, said):
    with pytest.raises(
        SettingsError,
        match=re.escape(
            f"ladders/here: holds a comparison that was begun with other arguments: {said}"
        ),
    ):
        check_same_plan(plan(), plan(**changed), HERE)


def test_the_number_of_jobs_may_change_on_resuming():
    made = plan()
    check_same_plan(made.model_copy(update={"at_once": 4}), made, HERE)


def test_a_plan_stays_on_its_texts():
    begun = plan().with_data("a" * 64, HERE)
    assert begun.with_data("a" * 64, HERE) == begun
    with pytest.raises(SettingsError, match=r"its corpus has changed since .* a{12}… before"):
        begun.with_data("b" * 64, HERE)


def test_a_plan_is_kept(tmp_path):
    folder = ComparisonFolder(tmp_path)
    plan = make_plan(entries_of(small_recipe("plain"), "a", [1], Budget()), Budget(), 5)
    plan.save(folder.plan)
    assert folder.load_plan() == plan


def test_a_damaged_plan(tmp_path):
    (tmp_path / "plan.json").write_text('{"entries": []}')
    with pytest.raises(RunError, match=r"plan.json: damaged, or of another version of regard: "):
        ComparisonFolder(tmp_path).load_plan()


def test_finished_rows_are_rows_of_another_comparison(tiny_run, tmp_path):
    folder, taken = ComparisonFolder(tmp_path), entry_of_run(tiny_run, "old")
    waiting = entries_of(small_recipe("plain"), "plain", [1], Budget())
    make_plan([*waiting, taken], Budget(), 5).save(folder.plan)
    assert folder.finished_entries() == [taken]
    make_plan(waiting, Budget(), 5).save(folder.plan)
    with pytest.raises(RunError, match="none of its rows is finished; continue it first"):
        folder.finished_entries()


def test_a_run_is_no_place_for_a_comparison(tmp_path):
    folder = ComparisonFolder(tmp_path)
    folder.check_no_run()
    (tmp_path / "recipe.yaml").touch()
    with pytest.raises(RunError, match="holds a run; compare in another folder with --out"):
        folder.check_no_run()


def test_what_belongs_to_a_row_has_its_name(tmp_path):
    folder = ComparisonFolder(tmp_path)
    one, other = (PlanEntry(label=label, recipe=small_recipe("plain")) for label in "ab")
    for where in (folder.row, folder.translations, folder.log, folder.steps):
        assert where(one) != where(other)
    assert folder.run(one).path == tmp_path / "runs" / "a-seed1"
    assert folder.run(one.model_copy(update={"run": Path("there")})).path == Path("there")


@pytest.mark.parametrize("kind", ["entries", "starts"])
def test_names_in_a_forged_plan_choose_no_place(kind, tmp_path):
    folder = ComparisonFolder(tmp_path)
    plan = make_plan(entries_of(small_recipe("plain"), "a", [1], Budget()), Budget(), 5)
    forged = tuple(one.model_copy(update={"label": "../../x"}) for one in plan.entries)
    plan.model_copy(update={kind: forged}).save(folder.plan)
    with pytest.raises(SettingsError, match=r"'\.\./\.\./x' cannot be the name of a row"):
        folder.load_plan()
