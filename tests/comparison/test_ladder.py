import pytest

from ladders import made_up_row, small_recipe
from regard.comparison.corpus import share_corpus
from regard.comparison.folder import ComparisonFolder
from regard.comparison.ladder import Ladder, Quarter, Spread, build_ladder
from regard.comparison.measuring import Failure
from regard.comparison.plan import Budget, entries_of, make_plan
from regard.errors import RunError
from regard.files import write_whole

SEEDS = {"good": [1, 2], "poor": [1], "late": [1], "bad": [5]}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A ladder: good with two seeds, poor, one that is late and one that failed."""
    folder, budget = ComparisonFolder(tmp_path_factory.mktemp("ladder")), Budget()
    recipe = small_recipe("plain", "corpus.generated={train: 100, valid: 5, test: 80}")
    entries = [
        e for label, seeds in SEEDS.items() for e in entries_of(recipe, label, seeds, budget)
    ]
    plan = make_plan(entries, budget, 5)
    data = share_corpus(plan, folder, lambda message: None)
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
    bleus = {"good-seed1": 98.0, "good-seed2": 100.0, "poor-seed1": 50.0}
    for entry in entries:
        if entry.name in texts:
            row = made_up_row(entry.label, bleus[entry.name], seed=entry.seed)
            write_whole(folder.row(entry), row.model_dump_json().encode())
            lines = "".join(f"{text}\n" for text in texts[entry.name])
            write_whole(folder.translations(entry), lines.encode())
    failure = Failure(label="bad", seed=5, reason="too large")
    write_whole(folder.row(entries[-1]), failure.model_dump_json().encode())
    return build_ladder(plan, folder, data), data, (plan, folder)


def test_systems_stand_in_the_order_of_the_plan(built):
    ladder, *_ = built
    assert [one.label for one in ladder.standings] == list(SEEDS)
    assert [len(one.rows) for one in ladder.standings] == [2, 1, 0, 0]
    assert [one.waiting for one in ladder.standings] == [0, 0, 1, 0]
    assert [len(one.failures) for one in ladder.standings] == [0, 0, 0, 1]
    assert len(ladder.rows) == 3


def test_seeds_are_put_together(built):
    good, poor, late, _ = built[0].standings
    assert good.bleu == Spread(mean=99.0, low=98.0, high=100.0)
    assert good.chrf.mean == 119.0
    assert poor.bleu == Spread(mean=50.0, low=50.0, high=50.0)
    assert late.bleu is late.chrf is late.perplexity is late.error_rate is None
    assert good.error_rate.mean == 0.125


def test_significance_is_against_the_best(built):
    ladder, *_ = built
    good, poor, late, bad = ladder.standings
    assert ladder.best == "good"
    assert good.significance is late.significance is bad.significance is None
    assert poor.significance.difference < -10
    assert poor.significance.p_value < 0.01


def test_quarters_are_the_same_sentences_for_all(built):
    ladder, data, _ = built
    good, poor, late, _ = ladder.standings
    assert len(ladder.quarters) == len(good.by_length) == len(poor.by_length) == 4
    assert late.by_length == ()
    lengths = [len(pair.source.split()) for pair in data.read("test")]
    assert sum(quarter.sentences for quarter in ladder.quarters) == len(lengths) == 80
    for quarter in ladder.quarters:
        inside = [n for n in lengths if quarter.shortest <= n <= quarter.longest]
        assert quarter.sentences == len(inside)
        assert quarter.mean_length == pytest.approx(sum(inside) / len(inside))
    assert good.by_length == pytest.approx((100,) * 4)
    assert poor.by_length[0] == pytest.approx(100)
    assert poor.by_length[3] < 60


def test_a_ladder_has_its_receipt(built):
    ladder, data, _ = built
    assert ladder.data == data.digest
    assert (ladder.split, ladder.sentences, ladder.beam) == ("test", 80, 5)
    assert ladder.signatures == {"BLEU": "b|1", "chrF2": "c|2"}
    assert len(ladder.machines) == 1
    assert Ladder.model_validate_json(ladder.model_dump_json()) == ladder


def test_translations_that_were_cut_or_lost(built):
    _, data, (plan, folder) = built
    path = folder.translations(plan.entries[0])
    whole = path.read_bytes()
    try:
        path.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
        with pytest.raises(
            RunError, match=r"good-seed1.txt: expected 80 translations, found 3; re"
        ):
            build_ladder(plan, folder, data)
        path.unlink()
        with pytest.raises(RunError, match=r"found 0; remove .*good-seed1.json to measure the row"):
            build_ladder(plan, folder, data)
    finally:
        path.write_bytes(whole)


def test_quarters_in_words():
    quarter = Quarter(shortest=9, longest=10, sentences=1, mean_length=9.5)
    assert str(quarter) == "9–10"
    assert str(quarter.model_copy(update={"longest": 9})) == "9"


def test_no_values_have_no_spread():
    assert Spread.of([]) is None
