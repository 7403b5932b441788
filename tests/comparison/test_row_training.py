import shutil

import pytest
import torch

from ladders import small_recipe
from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.plan import Budget, entries_of, entry_of_run, make_plan
from regard.comparison.row_training import is_trained, train_row
from regard.comparison.shared_corpus import prepare_shared_corpus
from regard.errors import SettingsError
from regard.recipes.run_folder import RunFolder
from regard.training.checkpoints import read_progress
from tiny import Quiet


@pytest.fixture
def row(tmp_path):
    """An entry and a function that trains it, until a stop is asked for."""
    folder, budget = ComparisonFolder(tmp_path), Budget(tokens=1000)
    plan = make_plan(entries_of(small_recipe("plain"), "plain", [4], budget), budget, 5)
    prepare_shared_corpus(plan, folder, lambda message: None)

    def run(*answers):
        asked = iter(answers)
        reporter = Quiet()
        train_row(
            plan.entries[0],
            plan,
            folder,
            device=torch.device("cpu"),
            reporter=reporter,
            stop_requested=lambda: next(asked, bool(answers)),
        )
        return reporter.notes

    return plan.entries[0], folder, run


def test_a_row_becomes_a_run_like_any_other(row):
    entry, folder, run = row
    assert not is_trained(entry, folder)
    notes = run()
    assert is_trained(entry, folder)
    assert "reading and cleaning travel" not in notes
    home = folder.run(entry)
    assert home.load_recipe().training.seed == 4
    steps = home.load_recipe().training.steps
    assert 4 <= steps <= 10  # 1,000 tokens in batches of up to 256 positions
    assert read_progress(home.path / "checkpoints")[0].step == steps
    assert run() == []


def test_a_stopped_row_goes_on(row):
    entry, folder, run = row
    run(False, True)
    assert not is_trained(entry, folder)
    assert read_progress(folder.run(entry).path / "checkpoints")[0].step == 2
    run()
    assert is_trained(entry, folder)


def test_a_finished_run_is_left_alone(tiny_run, tmp_path):
    entry = entry_of_run(tiny_run, None)
    assert is_trained(entry, ComparisonFolder(tmp_path))


def test_a_run_that_was_trained_on_since_is_refused(tiny_run, tmp_path):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    entry, budget = entry_of_run(path, None), Budget()
    RunFolder(path).mark_unfinished()
    with pytest.raises(SettingsError, match="run: its training has not reached its end"):
        train_row(
            entry,
            make_plan([entry], budget, 5),
            ComparisonFolder(tmp_path),
            device=torch.device("cpu"),
            reporter=Quiet(),
            stop_requested=lambda: False,
        )
