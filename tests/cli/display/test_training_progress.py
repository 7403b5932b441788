import io

import pytest
import torch
from rich.console import Console

from regard.cli.display.training_progress import TerminalReporter
from regard.corpora.corpus import Pair
from regard.recipes.machine_load import OtherWork
from regard.settings import SettingChoice
from regard.tasks.translation.task import Translation
from tiny import tiny_recipe

NUMBERS = {
    "loss": 1.5,
    "perplexity": 4.48,
    "bleu": 12.0,
    "chrf": 30.0,
    "gleu": 15.0,
    "exact": 5.0,
}
SCORES = "loss 1.500  perplexity 4.48  bleu 12.00  chrf 30.00  gleu 15.00  exact 5.0"
LOGGED = {"loss": 1.5, "perplexity": 4.48, "tokens_per_second": 12345.6}


def prepared(recipe, folder):
    task = Translation(recipe, folder)
    task.prepare(print, resumed=False)
    torch.manual_seed(1)
    return task, task.new_model()


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Other processes of this machine change nothing."""
    monkeypatch.setattr(OtherWork, "takes_from", lambda self, threads: False)


@pytest.fixture
def console():
    return Console(record=True, width=100, file=io.StringIO())


def test_a_pipe_gets_plain_lines(console):
    with TerminalReporter(100, console=console) as reporter:
        reporter.noted("reading [a] file")
        reporter.logged(10, LOGGED)
        reporter.validated(50, NUMBERS, best=True)
        reporter.validated(1050, NUMBERS, best=False)
    assert console.export_text().splitlines() == [
        "reading [a] file",
        "step      10  loss 1.500  12,346 tokens/s",
        f"step      50  {SCORES} best so far",
        f"step   1,050  {SCORES}",
    ]


def test_a_pipe_is_told_the_time_and_some_fifty_lines_of_loss(console, monkeypatch):
    clock = iter(range(0, 10_000, 10))  # ten seconds for each line of metrics
    monkeypatch.setattr("regard.cli.display.training_progress.time.monotonic", lambda: next(clock))
    with TerminalReporter(10_000, console=console) as reporter:
        for step in range(20, 10_001, 20):
            reporter.logged(step, LOGGED)
    lines = console.export_text().splitlines()
    assert lines[1] == "time        about 83 minutes for the 9,960 steps left"
    assert lines[2] == "step     220  loss 1.500  12,346 tokens/s  82 minutes left"
    assert 45 <= len(lines) <= 55


def test_beside_other_work_no_time_is_told(console, monkeypatch):
    busy = iter([False, True, True, False])
    monkeypatch.setattr(OtherWork, "takes_from", lambda self, threads: next(busy))
    clock = iter([0, 10, 300, 310])
    monkeypatch.setattr("regard.cli.display.training_progress.time.monotonic", lambda: next(clock))
    with TerminalReporter(100, console=console) as reporter:
        for step in (10, 20, 30, 40):
            reporter.logged(step, LOGGED)
    *_, second, third, time, fourth = console.export_text().splitlines()
    assert second.endswith("tokens/s  the machine is busy")
    assert third.endswith("tokens/s  the machine is busy")
    assert time == "time        about 10 minutes for the 60 steps left"
    assert fourth.endswith("10 minutes left")


def test_after_the_last_step_no_time_is_estimated(console):
    with TerminalReporter(100, console=console) as reporter:
        reporter.logged(50, LOGGED)
        reporter.logged(100, LOGGED)
    assert "time" not in console.export_text()


def test_a_terminal_gets_a_live_line():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with TerminalReporter(100, console=console) as reporter:
        reporter.logged(10, LOGGED)
    shown = screen.getvalue()
    assert "loss 1.500" in shown
    assert "12,346 tokens/s" in shown
    assert "10/100" in shown


def test_the_second_stage_is_told_apart(console):
    screen = io.StringIO()
    for one in (console, Console(file=screen, force_terminal=True, width=120)):
        with TerminalReporter(100, console=one) as reporter:
            reporter.logged(100, LOGGED)
            reporter.second_stage("refinement", 30)
            reporter.logged(10, LOGGED)
    assert "\nrefinement  30 steps; step 0 is the end of training\n" in console.export_text()
    live = screen.getvalue()
    [line] = {one for one in live.splitlines() if "10/30" in one}
    assert "refinement" in line
    assert "training" not in line


def test_prepared_data_and_model_are_printed(console, tmp_path):
    task, model = prepared(tiny_recipe("training.max_tokens=20"), tmp_path)
    for _ in range(80):
        task.inputs.data.report.drop("empty", Pair("", "x"))
    chosen = SettingChoice("training.steps", 2000, "40 passes")
    task.inputs = task.inputs._replace(choices=(chosen,))
    with TerminalReporter(100, console=console) as reporter:
        reporter.prepared(task, model)
    shown = console.export_text()
    assert "pairs       300 train, 30 valid, 20 test" in shown
    assert f"vocabulary  {task.tokenizers.source.size:,} shared" in shown
    assert f"parameters  {sum(p.numel() for p in model.parameters()):,}" in shown
    assert f"left out    {task.inputs.num_too_long:,} pairs with more than 20 tokens" in shown
    assert "warning     cleaning has dropped 80 of 300 pairs (26.7%), 80 as 'empty'. Look" in shown
    assert "chosen      training.steps 2,000: 40 passes" in shown


def test_two_vocabularies_are_told_apart(console, tmp_path):
    recipe = tiny_recipe("text={joint: false, source: {kind: words}}", "model.embeddings=target")
    task, model = prepared(recipe, tmp_path)
    TerminalReporter(100, console=console).prepared(task, model)
    source, target = task.tokenizers
    assert f"vocabulary  {source.size:,} and {target.size:,}" in console.export_text()


def test_control_characters_of_labels_do_not_reach_the_terminal(console, tmp_path, monkeypatch):
    task, model = prepared(tiny_recipe(), tmp_path)
    monkeypatch.setattr(task, "summary", lambda: {"labels": "2: \x1b[31mred, blue"})
    TerminalReporter(10, console=console).prepared(task, model)
    assert r"2: \x1b[31mred, blue" in console.export_text()
