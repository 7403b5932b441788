import io
import json

import pytest
from rich.console import Console

from ladders import made_up_ladder, made_up_row, made_up_standing, small_recipe
from regard.cli.display import compare_view as module
from regard.cli.display.compare_view import ComparisonProgress, print_results
from regard.comparison.measurements import Failure
from regard.comparison.plan import Budget, ComparisonFolder, entries_of
from regard.comparison.row_processes import RowJob

LONG = " at all" * 20
NAMES = ("travel-rnn", "travel-rnnsearch", "travel-transformer")


@pytest.fixture
def screen(monkeypatch):
    """A terminal, or a pipe, and what is shown in it."""

    def show(terminal, width=100):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=width, highlight=False)
        monkeypatch.setattr(module, "err", console)
        monkeypatch.setattr(module, "out", console)
        monkeypatch.setattr(module, "note", console.print)
        return console.file

    return show


@pytest.fixture
def job(tmp_path):
    (entry,) = entries_of(small_recipe("plain"), "plain", [3], Budget())
    return ComparisonFolder(tmp_path), RowJob(entry, "measure")


def test_the_tables_fit_100_columns(screen):
    shown = screen(terminal=False, width=80)
    standings = [
        made_up_standing(name, [30.0, 31.0, 99.999], (30.12,) * 4, p_value=0.001) for name in NAMES
    ]
    failed = made_up_standing("lost", [], ()).model_copy(
        update={"failures": (Failure(label="lost", seed=1, reason=f"[x] no memory{LONG}"),)}
    )
    results = made_up_ladder(*standings, failed, best=NAMES[0])
    print_results(results)
    lines = shown.getvalue().splitlines()
    tables = lines[: next(n for n, line in enumerate(lines) if line.startswith("best: "))]
    assert max(map(len, tables)) <= 100
    for name in NAMES:
        assert len([line for line in tables if line.startswith(f"{name} ")]) == 2
    assert f"lost, seed 1, failed: [x] no memory{LONG}" in lines[-1]


def test_a_pipe_gets_a_line_for_each_event(screen, job):
    shown, (folder, one) = screen(terminal=False), job
    with ComparisonProgress(folder) as watcher:
        watcher.started(one)
        watcher.polled([one])
        watcher.ended(one, made_up_row("plain", 31.5))
        watcher.ended(one, Failure(label="plain", seed=3, reason=f"no [memory]{LONG}"))
        watcher.ended(one, None)
        watcher.ended(one._replace(goal="train"), None)
    assert shown.getvalue().splitlines() == [
        "training plain-seed3",
        "plain-seed3: BLEU 31.50 after 5,000 steps in 1,234 s",
        f"plain-seed3 failed: no [memory]{LONG}",
        "plain-seed3: trained",
    ]


def test_a_terminal_shows_how_far_a_row_is(screen, job):
    shown, (folder, one) = screen(terminal=True), job
    home = folder.run(one.entry)
    with ComparisonProgress(folder) as watcher:
        watcher.started(one)
        watcher.polled([one])
        home.save_recipe(one.entry.recipe)
        lines = [{"kind": "train", "step": step, "loss": 2.341 + step / 1000} for step in range(5)]
        written = "".join(json.dumps(line) + "\n" for line in lines)
        (home.path / "metrics.jsonl").write_text("\n" * module.TAIL_BYTES + written)
        watcher.polled([one])
        watcher.refresh()
        assert "training plain-seed3" in shown.getvalue()
        assert "4/6" in shown.getvalue()
        assert "loss 2.345" in shown.getvalue()
        watcher.polled([])
        assert not watcher.tasks
