import shutil

import pytest
import torch

from ladders import small_recipe
from regard.batching.collate import collate_stream
from regard.batching.sampler import StreamPosition, sample_batches
from regard.comparison import row_training as module
from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.plan import Budget, entries_of, entry_of_run, make_plan
from regard.comparison.row_training import apply_budget, is_trained, train_row
from regard.comparison.shared_corpus import prepare_shared_corpus
from regard.errors import SettingsError
from regard.recipes.dry_run import TimedSteps
from regard.recipes.prepared_data import prepare
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


CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path):
    return ComparisonFolder(tmp_path / "ladder")


@pytest.fixture
def within(folder):
    """The steps of two seeds under a budget."""

    def steps(budget):
        plan = make_plan(entries_of(small_recipe("plain"), "plain", [1, 2], budget), budget, 5)
        prepare_shared_corpus(plan, folder, lambda message: None)
        return [
            apply_budget(e, budget, folder, device=CPU, reporter=Quiet()).training.steps
            for e in plan.entries
        ]

    return steps


@pytest.mark.parametrize("accumulate", [1, 3])
def test_tokens_of_a_step_are_the_mean_of_an_epoch(tmp_path, accumulate):
    recipe = small_recipe("plain", f"training.accumulate={accumulate}", "training.max_tokens=15")
    prepared = prepare(recipe, RunFolder(tmp_path), print)
    s = recipe.training
    drawn = sample_batches(
        prepared.train, StreamPosition(0, 0), budget=256, seed=s.seed, max_tokens=s.max_tokens
    )
    stream = collate_stream(drawn)
    epoch = [next(stream)]
    while epoch[-1].next_position.epoch == 0:
        epoch.append(next(stream))
    tokens = [placed.batch.num_tokens for placed in epoch]
    wanted = accumulate * sum(tokens) / len(tokens)
    assert prepared.fitting.tokens_per_step(s) == pytest.approx(wanted)


def test_without_a_budget_the_recipe_decides(within, folder):
    assert within(Budget()) == [6, 6]
    assert within(Budget(steps=8)) == [8, 8]
    assert not (folder.path / "runs").exists()


def test_tokens_become_steps(within):
    one, ten = within(Budget(tokens=20_000)), within(Budget(tokens=200_000))
    assert one[0] == one[1]
    assert 80 < one[0] < 200  # a batch has up to 256 positions
    assert ten[0] == pytest.approx(10 * one[0], abs=6)
    assert within(Budget(tokens=1)) == [1, 1]


def test_minutes_are_timed_once_for_all_seeds(within, folder, monkeypatch):
    calls = []

    def timed(inputs, folder, *, device):
        calls.append(inputs.recipe.training.seed)
        return TimedSteps(torch.nn.Identity(), seconds=0.05 * len(calls), tokens_per_second=1.0)

    monkeypatch.setattr(module, "time_steps", timed)
    assert within(Budget(minutes=2)) == [2400, 2400]
    assert within(Budget(minutes=2)) == [2400, 2400]
    assert calls == [1]


def test_real_steps_are_timed(within, monkeypatch):
    monkeypatch.setattr("regard.recipes.dry_run.MIN_TIMED_SECONDS", 0.0)
    assert within(Budget(minutes=0.5))[0] > 10
