from pathlib import Path

import pytest

from ladders import small_recipe
from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.plan import Budget, PlanEntry, entries_of, entry_of_run, make_plan
from regard.errors import RunError


def test_a_plan_is_kept(tmp_path):
    folder = ComparisonFolder(tmp_path)
    plan = make_plan(entries_of(small_recipe("plain"), "a", [1], Budget()), Budget(), 5)
    plan.save(folder.plan)
    assert folder.load_plan() == plan


def test_a_folder_without_a_plan(tmp_path):
    with pytest.raises(RunError, match="holds no comparison yet: name recipes or runs to compare"):
        ComparisonFolder(tmp_path).load_plan()


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
    with pytest.raises(RunError, match="none of its rows is finished; go on with it first"):
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
    assert folder.corpus(one.recipe) == folder.corpus(other.recipe)
    assert folder.corpus(one.recipe) != folder.corpus(
        small_recipe("plain", "corpus.generated.seed=2")
    )
