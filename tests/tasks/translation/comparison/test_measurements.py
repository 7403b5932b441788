import json
import math
import re

import pytest
import torch

from ladders import be_quick, made_up_row, small_recipe
from regard.alignment.run_alignment import (
    align_pairs,
    measure_by_gold,
    read_gold,
    read_selection_examples,
)
from regard.atomic_io import write_atomic
from regard.comparison.measurements import Failure, load_row, this_machine
from regard.comparison.plan import (
    Budget,
    ComparisonFolder,
    PlanEntry,
    entries_of,
    entry_of_run,
    make_plan,
)
from regard.comparison.rows import RowContext
from regard.errors import RunError
from regard.evaluation.alignment_error import score_alignments
from regard.evaluation.scores import ScoreSettings, score
from regard.recipes.finish_run import finish_run
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder, load_data
from regard.recipes.train_run import train
from regard.tasks.translation.comparison.results import UntimedMeasurements
from regard.tasks.translation.comparison.rows import measure_row, measure_untimed
from regard.tasks.translation.measurements.evaluation import translator_perplexity
from regard.tasks.translation.pipeline import Translator
from tiny import Quiet

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    be_quick(monkeypatch)


def context(entry, folder, beam=2):
    return RowContext(entry, make_plan([entry], Budget(), beam), folder, CPU, Quiet())


def measured(entry, folder, beam=2):
    return measure_row(context(entry, folder, beam))


def test_a_run_is_measured_as_other_commands_measure_it(tiny_run, tmp_path):
    folder, entry = ComparisonFolder(tmp_path), entry_of_run(tiny_run, "mine")
    before = {path: path.stat().st_mtime_ns for path in tiny_run.rglob("*")}
    row = measured(entry, folder)
    assert load_row(folder, entry) == row
    assert before == {path: path.stat().st_mtime_ns for path in tiny_run.rglob("*")}

    run, data = open_run(tiny_run, device=CPU), load_data(RunFolder(tiny_run))
    pairs = list(data.read("test"))
    sources, references = [p.source for p in pairs], [p.target for p in pairs]
    texts = folder.translations(entry).read_text().splitlines()
    assert texts == [one.text for one in Translator([run]).translate(sources)]  # beam 2, too
    bleu, chrf = score(texts, references, ScoreSettings(metrics=("bleu", "chrf")))
    assert [(one.name, one.value, one.low, one.signature) for one in row.scores] == [
        (one.name, one.value, one.interval.low, one.signature) for one in (bleu, chrf)
    ]
    assert row.value("chrF2") == chrf.value

    surprise = translator_perplexity(Translator([run]), sources, references)
    nats = surprise.num_tokens * math.log(surprise.value)
    words, letters = sum(len(text.split()) for text in references), sum(map(len, references))
    assert row.surprise.per_token == pytest.approx(surprise.value)
    assert math.log(row.surprise.per_word) == pytest.approx(nats / words)
    assert row.surprise.bits_per_character == pytest.approx(nats / letters / math.log(2))

    choice = measure_by_gold(run, *read_selection_examples(data), save=False)
    error = score_alignments(align_pairs(run, pairs, choice.settings), read_gold(data, "test"))
    assert row.alignment.error_rate == error.error_rate
    assert row.alignment.chosen == str(choice.settings)


def test_untimed_measurements_are_saved_and_reused(tiny_run, tmp_path):
    folder, entry = ComparisonFolder(tmp_path), entry_of_run(tiny_run, "mine")
    found = measure_untimed(context(entry, folder))
    other = found.model_copy(update={"flops": 12.0})
    folder.findings(entry).write_text(other.model_dump_json())
    row = measured(entry, folder)
    assert (
        UntimedMeasurements(
            **{name: getattr(row, name) for name in UntimedMeasurements.model_fields}
        )
        == other
    )
    folder.findings(entry).write_text("{")  # damaged: it is found again
    assert measure_untimed(context(entry, folder)) == found


def test_costs_of_a_row_are_those_of_its_run(tiny_run, tmp_path):
    row = measured(entry_of_run(tiny_run, None), ComparisonFolder(tmp_path))
    run = open_run(tiny_run, device=CPU)
    assert (row.label, row.seed, row.family, row.attends) == ("tiny", 1, "transformer", True)
    assert row.parameters == sum(p.numel() for p in run.model.parameters())
    assert row.steps == 60
    assert 60 * 200 < row.tokens < 60 * 512  # of batches of 512 positions
    assert row.flops > 6 * row.tokens * 10_000
    assert min(row.seconds, row.tokens_per_second, row.sentences_per_second) > 0
    assert row.machine.device.startswith("cpu")


def test_a_model_without_attention_has_no_alignment(tmp_path):
    entry = PlanEntry(label="plain", recipe=small_recipe("plain", "training.steps=2"))
    folder = ComparisonFolder(tmp_path)
    home = folder.run(entry)
    progress = train(entry.recipe, home, device=CPU, reporter=Quiet(), stop_requested=lambda: False)
    finish_run(home, progress, CPU)
    row = measured(entry, folder)
    assert not row.attends
    assert row.alignment is None
    assert row.steps == 2


def test_rows_and_failures_are_read_again(tmp_path):
    folder = ComparisonFolder(tmp_path)
    first, second, none = entries_of(small_recipe("plain"), "a", [1, 2, 3], Budget())
    failure = Failure(label="a", seed=2, reason="no memory")
    for entry, row in ((first, made_up_row("a", 30.0)), (second, failure)):
        row.save(folder.row(entry))
        assert load_row(folder, entry) == row
    assert load_row(folder, none) is None
    write_atomic(folder.row(none), json.dumps({"label": "a"}).encode())
    with pytest.raises(RunError, match=r"a-seed3.json: damaged.*remove it to measure the row"):
        load_row(folder, none)


def test_this_machine_is_described():
    found = this_machine(CPU)
    assert found.device.startswith("cpu, ")
    assert re.search(r"regard \d.*Python 3.*torch 2.*sacrebleu 2", found.versions)
    assert str(found).startswith(f"{found.device} ({found.processor}), ")
