import pytest

from ladders import made_up_row, small_recipe
from regard.atomic_io import write_atomic
from regard.comparison.measurements import Failure
from regard.comparison.plan import Budget, ComparisonFolder, entries_of, make_plan
from regard.comparison.results import SeedSpread
from regard.errors import RunError
from regard.evaluation.scores import score
from regard.tasks.translation.comparison.results import (
    SCORE_SETTINGS,
    ComparisonResults,
    aggregate_results,
)
from regard.tasks.translation.comparison.shared_corpus import prepare_shared_corpus

SEEDS = {"good": [1, 2], "poor": [1], "mixed": [1, 2], "late": [1], "bad": [5]}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A ladder: good, poor, one with a seed of each kind, one late and one that failed."""
    folder, budget = ComparisonFolder(tmp_path_factory.mktemp("ladder")), Budget()
    recipe = small_recipe("plain", "corpus.generated={train: 100, valid: 5, test: 80}")
    entries = [
        e for label, seeds in SEEDS.items() for e in entries_of(recipe, label, seeds, budget)
    ]
    plan = make_plan(entries, budget, 5).model_copy(update={"at_once": 3})
    data = prepare_shared_corpus(plan, folder, lambda message: None)
    references = [pair.target for pair in data.read("test")]
    lengths = [len(pair.source.split()) for pair in data.read("test")]
    middle = sorted(lengths)[len(lengths) // 2]
    texts = {
        "good-seed1": references,
        "good-seed2": references,
        # right where the source is short, else half of it missing
        "poor-seed1": [
            text if length < middle else text[: len(text) // 2]
            for text, length in zip(references, lengths, strict=True)
        ],
    }
    texts |= {"mixed-seed1": references, "mixed-seed2": texts["poor-seed1"]}
    bleus = {"good-seed1": 98.0, "good-seed2": 100.0, "poor-seed1": 50.0}
    bleus |= {"mixed-seed1": 100.0, "mixed-seed2": 50.0}
    for entry in entries:
        if entry.name in texts:
            row = made_up_row(
                entry.label, bleus[entry.name], seed=entry.seed, seconds=10.0 * entry.seed
            )
            write_atomic(folder.row(entry), row.model_dump_json().encode())
            lines = "".join(f"{text}\n" for text in texts[entry.name])
            write_atomic(folder.translations(entry), lines.encode())
    failure = Failure(label="bad", seed=5, reason="too large")
    write_atomic(folder.row(entries[-1]), failure.model_dump_json().encode())
    return aggregate_results(plan, folder, data), data, (plan, folder)


def test_systems_stand_in_the_order_of_the_plan(built):
    results, *_ = built
    assert [one.label for one in results.standings] == list(SEEDS)
    assert [len(one.rows) for one in results.standings] == [2, 1, 2, 0, 0]
    assert [one.waiting for one in results.standings] == [0, 0, 0, 1, 0]
    assert [len(one.failures) for one in results.standings] == [0, 0, 0, 0, 1]
    assert len(results.rows) == 5


def test_seeds_are_put_together(built):
    good, poor, _, late, _ = built[0].standings
    assert good.bleu == SeedSpread(mean=99.0, low=98.0, high=100.0)
    assert good.chrf.mean == 119.0
    assert poor.bleu == SeedSpread(mean=50.0, low=50.0, high=50.0)
    assert late.bleu is late.chrf is late.perplexity is late.error_rate is None
    assert late.interval is late.costs is None
    assert (good.costs.seconds, poor.costs.seconds) == (15, 10)
    assert good.error_rate.mean == 0.125


def test_significance_is_against_the_best(built):
    results, *_ = built
    good, poor, _, late, bad = results.standings
    assert results.best == "good"
    assert good.significance is late.significance is bad.significance is None
    assert poor.significance.difference < -10
    assert poor.significance.p_value < 0.01


def test_intervals_and_significance_are_those_of_means_over_seeds(built):
    results, data, (plan, folder) = built
    good, poor, mixed, *_ = results.standings
    references = [pair.target for pair in data.read("test")]
    texts = folder.translations(plan.entry("poor-seed1")).read_text().splitlines()
    (alone,) = score(texts, references, SCORE_SETTINGS.model_copy(update={"metrics": ("bleu",)}))
    assert (poor.interval.low, poor.interval.high) == alone.interval  # of its one seed
    assert (good.interval.low, good.interval.high) == pytest.approx((100, 100))
    # the other seed has 100 in every resample
    halves = [(100 + bound) / 2 for bound in alone.interval]
    assert [mixed.interval.low, mixed.interval.high] == pytest.approx(halves)
    assert mixed.interval.low < (100 + alone.value) / 2 < mixed.interval.high
    assert mixed.significance.difference == pytest.approx((alone.value - 100) / 2)
    assert mixed.significance.p_value < 0.01  # its first seed is as good as the best


def test_quarters_are_the_same_sentences_for_all(built):
    results, data, _ = built
    good, poor, _, late, _ = results.standings
    assert len(results.quarters) == len(good.by_length) == len(poor.by_length) == 4
    assert late.by_length == ()
    lengths = [len(pair.source.split()) for pair in data.read("test")]
    assert sum(quarter.sentences for quarter in results.quarters) == len(lengths) == 80
    for quarter in results.quarters:
        inside = [n for n in lengths if quarter.shortest <= n <= quarter.longest]
        assert quarter.sentences == len(inside)
        assert quarter.mean_length == pytest.approx(sum(inside) / len(inside))
    assert good.by_length == pytest.approx((100,) * 4)
    assert poor.by_length[0] == pytest.approx(100)
    assert poor.by_length[3] < 60


def test_a_ladder_has_its_receipt(built):
    results, data, _ = built
    assert results.data == data.digest
    assert (results.split, results.sentences, results.beam) == ("test", 80, 5)
    assert results.signatures == {"BLEU": "b|1", "chrF2": "c|2"}
    assert len(results.machines) == 1
    assert results.at_once == 3
    assert ComparisonResults.model_validate_json(results.model_dump_json()) == results


def test_translations_that_were_cut_or_lost(built):
    _, data, (plan, folder) = built
    path = folder.translations(plan.entries[0])
    whole = path.read_bytes()
    try:
        path.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
        with pytest.raises(
            RunError, match=r"good-seed1.txt: expected 80 translations, found 3; re"
        ):
            aggregate_results(plan, folder, data)
        path.unlink()
        with pytest.raises(RunError, match=r"found 0; remove .*good-seed1.json to measure the row"):
            aggregate_results(plan, folder, data)
    finally:
        path.write_bytes(whole)
