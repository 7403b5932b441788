from dataclasses import replace

import pytest

from regard.decoding.constraints.length_limits import DEFAULT_LIMITS, TruncationReport
from regard.recipes.recipe_files import make_recipe
from regard.tasks.translation.trial.dry_run import DryRun, PerSide, RunSeconds, StepStats, TextStats
from regard.tasks.translation.trial.findings import busy_clause, diagnose_dry_run

GB = 10**9


def recipe(*overrides):
    return make_recipe({"name": "mine", "corpus": {"name": "copy"}}, overrides, where="test")


GOOD = DryRun(
    recipe=recipe(),
    choices=(),
    truncation=TruncationReport(20_000, 0, 0, DEFAULT_LIMITS),
    device="cpu, 2 threads",
    load=1.0,
    pairs=20_000,
    all_pairs=50_000,
    text=TextStats(
        vocabulary=(8000, 8000),
        tokens_per_word=PerSide(1.2, 1.3),
        unknown=PerSide(0.0, 0.0),
        too_long=0.0,
    ),
    steps=StepStats(
        parameters=10_000_000,
        batch_tokens=4096,
        step_seconds=0.1,
        tokens_per_second=40_000,
        memory=1 * GB,
        checkpoint=GB // 10,
    ),
    epochs=10.0,
    memory_available=16 * GB,
    disk=1 * GB,
    disk_free=100 * GB,
    times=RunSeconds(10.0, 1000.0, 50.0),
)


def changed(result, **values):
    """A dry run with other values, wherever they are."""
    text = {name: values.pop(name) for name in TextStats._fields if name in values}
    steps = {name: values.pop(name) for name in StepStats._fields if name in values}
    text, steps = result.text._replace(**text), result.steps._replace(**steps)
    return replace(result, text=text, steps=steps, **values)


GPU = replace(GOOD, device="NVIDIA H200")


def level_of(findings, part):
    [one] = [finding for finding in findings if part in finding.text]
    return one.level


def test_room_for_a_larger_batch_is_what_the_optimizer_leaves():
    heavy = changed(GPU, parameters=60_000_000, memory=1 * GB)  # Adam's state: 0.96 GB
    for kind, tokens in (("adam", "1,048,576"), ("sgd", "65,536")):
        given = recipe(f"training.optimizer.kind={kind}")
        [note] = [one.text for one in diagnose_dry_run(heavy, given) if "There is room" in one.text]
        assert f"training.batch_tokens={tokens}," in note


def test_a_good_trial_says_so():
    findings = diagnose_dry_run(GOOD, recipe())
    assert [finding.level for finding in findings] == ["ok", "ok", "ok"]
    assert level_of(findings, "1.0 GB of 16.0 GB of memory on cpu, 2 threads") == "ok"
    assert level_of(findings, "1.0 GB of the 100.0 GB of disk") == "ok"
    assert level_of(findings, "Training takes about 18 minutes") == "ok"


@pytest.mark.parametrize(
    ("values", "overrides", "text", "level"),
    [
        ({"memory": 15 * GB}, (), "which is tight: lower training.batch_tokens", "warning"),
        ({"disk": 90 * GB}, (), "90.0 GB of the 100.0 GB of disk", "warning"),
        ({"disk": 200 * GB}, (), "200.0 GB of disk, and 100.0 GB are free. Make", "problem"),
        ({"times": RunSeconds(0, 3e5, 0)}, (), "about 3.5 days. Fewer training.steps", "warning"),
        ({"times": RunSeconds(0, 60, 40)}, (), "Validations take 40% of that", "note"),
        ({"epochs": 0.3}, (), "steps see 30% of the corpus", "note"),
        ({"epochs": 500.0}, (), "steps see each pair 500 times", "note"),
        ({"epochs": 4000.0}, (), "4,000 times, so that it may be memorised", "note"),
        (
            {"load": 99.0},
            (),
            "18 minutes, less when this machine is not busy: the load was 99",
            "ok",
        ),
        ({}, ("training.compile=true",), "without training.compile", "note"),
        ({}, ("refinement.steps=70",), "The 70 steps of refinement are not included", "note"),
        ({}, ("training.validation.patience=3",), "if it does not stop early,", "ok"),
        ({"too_long": 0.02}, (), "2.0% of the pairs have more than 256 tokens", "note"),
        ({"too_long": 0.2}, (), "20.0% of the pairs have more than 256 tokens", "warning"),
        ({"unknown": PerSide(0.02, 0)}, (), "2.0% of the held-out source tokens", "note"),
        ({"unknown": PerSide(0, 0.2)}, (), "20.0% of the held-out target tokens", "warning"),
        ({"vocabulary": (5000, 5000)}, (), "a vocabulary of 5,000, not 8,000", "note"),
    ],
)
def test_a_measurement_beyond_its_limit_is_a_finding(values, overrides, text, level):
    assert level_of(diagnose_dry_run(changed(GOOD, **values), recipe(*overrides)), text) == level


def test_a_whole_corpus_gives_the_vocabulary_that_it_gives():
    found = changed(GOOD, vocabulary=(50, 50), all_pairs=20_000)
    assert not any("vocabulary" in one.text for one in diagnose_dry_run(found, recipe()))


def test_a_batch_that_does_not_fit():
    found = changed(GPU, batch_tokens=1024)
    findings = diagnose_dry_run(found, recipe("training.accumulate=2"))
    text = "--set training.batch_tokens=1024 --set training.accumulate=8 is equivalent"
    assert level_of(findings, text) == "problem"


def test_room_for_a_larger_batch_on_a_gpu():
    # 0.16 GB of state leave 0.84 GB for 4,096 tokens, and 12.64 GB for 61,000
    assert level_of(diagnose_dry_run(GPU, recipe()), "training.batch_tokens=32,768") == "note"
    busy = changed(GPU, memory=10 * GB)
    assert not any("There is room" in one.text for one in diagnose_dry_run(busy, recipe()))


def test_a_patience_is_not_advised_where_there_is_one():
    findings = diagnose_dry_run(
        changed(GOOD, epochs=500.0), recipe("training.validation.patience=3")
    )
    assert not any("patience" in one.text for one in findings)


def test_how_busy_the_cores_are_does_not_matter_to_a_gpu():
    assert busy_clause(replace(GOOD, load=99.0))
    assert busy_clause(GOOD) == busy_clause(replace(GPU, load=99.0)) == ""
