import shutil

import pytest
import torch

from ladders import small_recipe
from regard.atomic_io import write_atomic
from regard.batching.collate import collate_stream
from regard.batching.sampler import StreamPosition, sample_batches
from regard.comparison.plan import (
    Budget,
    ComparisonFolder,
    PlanEntry,
    entries_of,
    entry_of_run,
    make_plan,
)
from regard.comparison.rows import RowContext, is_trained
from regard.errors import CorpusError, SettingsError
from regard.recipes.recipe_files import load_recipe
from regard.recipes.run_folder import RunFolder
from regard.recipes.verification import verify
from regard.tasks.translation.comparison import shared_corpus as module
from regard.tasks.translation.comparison.rows import TranslatorRows, measure_row
from regard.tasks.translation.comparison.shared_corpus import (
    apply_budget,
    copy_shared_corpus,
    corpus_run,
    data_run,
    prepare_shared_corpus,
)
from regard.tasks.translation.prepared_data import prepare_data
from regard.tasks.translation.training_inputs import prepare
from regard.tasks.translation.trial.dry_run import TimedSteps
from regard.training.checkpoints import read_progress
from tiny import Quiet

CPU = torch.device("cpu")


@pytest.fixture
def row(tmp_path):
    """An entry and a function that trains it, until a stop is asked for."""
    folder, budget = ComparisonFolder(tmp_path), Budget(tokens=1000)
    plan = make_plan(entries_of(small_recipe("plain"), "plain", [4], budget), budget, 5)
    prepare_shared_corpus(plan, folder, lambda message: None)

    def run(*answers):
        asked = iter(answers)
        row = RowContext(plan.entries[0], plan, folder, CPU, Quiet())
        TranslatorRows().train(row, lambda: next(asked, bool(answers)))
        return row.reporter.notes

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


def test_a_run_that_was_trained_on_since_is_refused(tiny_run, tmp_path):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    entry = entry_of_run(path, None)
    plan = make_plan([entry], Budget(), 5)
    RunFolder(path).mark_unfinished()
    with pytest.raises(SettingsError, match="run: its training has not reached its end"):
        TranslatorRows().train(
            RowContext(entry, plan, ComparisonFolder(tmp_path), CPU, Quiet()), bool
        )


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
            apply_budget(RowContext(e, plan, folder, CPU, Quiet())).training.steps
            for e in plan.entries
        ]

    return steps


@pytest.mark.parametrize("accumulate", [1, 3])
def test_tokens_of_a_step_are_the_mean_of_an_epoch(tmp_path, accumulate):
    recipe = small_recipe("plain", f"training.accumulate={accumulate}", "training.max_tokens=15")
    prepared = prepare(recipe, tmp_path, print)
    s = recipe.training
    drawn = sample_batches(
        prepared.train, StreamPosition(0, 0), budget=256, seed=s.seed, max_tokens=s.max_tokens
    )
    stream = collate_stream(drawn)
    epoch = [next(stream)]
    while epoch[-1].next_position.epoch == 0:
        epoch.append(next(stream))
    tokens = [placed.batch.num_labels for placed in epoch]
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
    monkeypatch.setattr("regard.tasks.translation.trial.dry_run.MIN_TIMED_SECONDS", 0.0)
    assert within(Budget(minutes=0.5))[0] > 10


def entries(name, *overrides):
    return entries_of(small_recipe(name, *overrides), name, [1], Budget())


def shared(folder, *entries):
    notes = []
    plan = make_plan([e for some in entries for e in some], Budget(), 5)
    return prepare_shared_corpus(plan, folder, notes.append), notes


def test_one_corpus_is_read_once(folder):
    data, notes = shared(folder, entries("plain"), entries("search"))
    assert notes == ["reading and cleaning travel"]
    assert data.pairs == {"train": 200, "valid": 12, "test": 16}
    assert shared(folder, entries("plain"), entries("search")) == (data, [])


def test_unlike_corpora_are_refused(folder):
    other = entries("search", "corpus.generated={train: 150, valid: 12, test: 16}")
    with pytest.raises(
        CorpusError,
        match=r"plain-seed1 and search-seed1 are not trained on the same corpus: the SHA-256 of "
        r"the cleaned texts begins with \w{12} for one and \w{12} for the other; train all of "
        r"them on one, with --corpus NAME",
    ):
        shared(folder, entries("plain"), other)
    assert not any(folder.path.iterdir())  # what was read of them is gone
    shared(folder, entries("plain"))
    with pytest.raises(CorpusError):
        shared(folder, entries("plain"), other)
    assert shared(folder, entries("plain"))[1] == []  # what was there before is not


def test_a_finished_run_must_have_learned_from_the_same(folder, tiny_run):
    taken = entry_of_run(tiny_run, None)
    with pytest.raises(CorpusError, match="plain-seed1 and tiny-seed1 are not trained"):
        shared(folder, entries("plain"), [taken])
    same = entries("plain", "corpus.generated={train: 300, valid: 30, test: 20}")
    assert shared(folder, same, [taken])[0].pairs["train"] == 300


def test_a_run_gets_the_texts_that_were_read(folder):
    shared(folder, entries("plain"))
    entry: PlanEntry = entries("plain")[0]
    folder.run(entry).create()
    write_atomic(folder.run(entry).data / "train.source.txt", b"of a killed copy")
    copy_shared_corpus(entry, folder)
    notes = []
    data = prepare_data(entry.recipe, folder.run(entry).data, notes.append)
    assert notes == []
    assert len(list(data.read("test"))) == 16
    assert verify(folder.run(entry).path).whole
    (data.folder / "own.txt").write_text("kept")
    copy_shared_corpus(entry, folder)
    assert (data.folder / "own.txt").exists()


def test_an_imported_run_is_measured_on_the_corpus_of_the_others(row, tmp_path):
    entry, folder, run = row
    run()
    home = RunFolder(shutil.copytree(folder.run(entry).path, tmp_path / "imported"))
    for name in ("data", "checkpoints", "weights"):
        shutil.rmtree(home.path / name)
    recipe = home.load_recipe().with_values({"corpus": {"imported": True}, "name": "other"})
    home.recipe.unlink()
    home.save_recipe(recipe)
    imported, trained = entry_of_run(home.path, None), entry_of_run(folder.run(entry).path, None)
    plan = make_plan([imported, trained], Budget(), 2)
    prepare_shared_corpus(plan, folder, lambda message: None)
    measured = measure_row(RowContext(imported, plan, folder, CPU, Quiet()))
    assert (measured.steps, measured.flops, measured.tokens_per_second) == (0, 0, 0)
    assert measured.surprise.per_token > 1
    with pytest.raises(SettingsError, match="were imported, and have no data"):
        data_run(imported, make_plan([imported], Budget(), 2), folder)


def test_imported_runs_of_other_tasks_are_refused_with_the_command_that_measures_them(tmp_path):
    folder = RunFolder(tmp_path)
    given = load_recipe("shakespeare", ["corpus.imported=true", "corpus.name=null"])
    folder.save_recipe(given)
    with pytest.raises(SettingsError, match=r"no data to be compared on.*regard evaluate"):
        entry_of_run(tmp_path, None)


def test_rows_of_one_corpus_share_its_folder(folder):
    one, same = (PlanEntry(label=label, recipe=small_recipe("plain")) for label in "ab")
    changed = small_recipe("plain", "corpus.generated.seed=2")
    other = PlanEntry(label="c", recipe=changed)
    assert corpus_run(one, folder).path == corpus_run(same, folder).path
    assert corpus_run(one, folder).path != corpus_run(other, folder).path
