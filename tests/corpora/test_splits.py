import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.corpora import splits
from regard.corpora.cleaning.pair_filters import CleaningReport, CleaningSettings, clean
from regard.corpora.corpus import Corpus, Pair
from regard.corpora.splits import SplitSettings, comparison_key, drop_leaks, split_corpus
from regard.errors import CorpusError
from regard.types import GoldAlignment

PAIRS = [Pair(f"Sentence {n}", f"Satz {n}") for n in range(200)]


def corpus(pairs, **others):
    held = {name: lambda some=some: iter(some) for name, some in others.items()}
    return Corpus("mine", ("en", "de"), {"train": lambda: iter(pairs), **held})


def cut(pairs, valid=12, test=7, seed=1, notes=None):
    result = split_corpus(corpus(pairs), SplitSettings(valid=valid, test=test, seed=seed), notes)
    return {name: list(read()) for name, read in result.splits.items()}


def test_every_pair_falls_into_one_split():
    found = cut(PAIRS)
    assert {name: len(some) for name, some in found.items()} == {
        "train": 181,
        "valid": 12,
        "test": 7,
    }
    assert sorted(found["train"] + found["valid"] + found["test"]) == sorted(PAIRS)


def test_the_order_of_the_file_changes_nothing():
    shuffled = random.Random(3).sample(PAIRS, len(PAIRS))
    one, other = cut(PAIRS), cut(shuffled)
    assert one["valid"] == other["valid"]
    assert one["test"] == other["test"]
    assert one["train"] == [pair for pair in PAIRS if pair in one["train"]]
    assert other["train"] == [pair for pair in shuffled if pair in one["train"]]


def test_more_pairs_elsewhere_keep_most_of_the_choice():
    more = [Pair(f"Another {n}", "x") for n in range(20)]
    assert len(set(cut(PAIRS)["valid"]) & set(cut(PAIRS + more)["valid"])) > 6


def test_the_seed_changes_the_choice():
    assert cut(PAIRS)["valid"] != cut(PAIRS, seed=2)["valid"]
    assert cut(PAIRS, seed=2) == cut(PAIRS, seed=2)


def test_splits_can_be_read_again():
    result = split_corpus(corpus(PAIRS), SplitSettings(valid=3, test=3))
    for read in result.splits.values():
        assert list(read()) == list(read())


def test_a_smaller_split_is_part_of_a_larger():
    assert set(cut(PAIRS, valid=5)["valid"]) < set(cut(PAIRS, valid=12)["valid"])


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), min_size=60, max_size=120),
    st.integers(1, 9),
)
def test_repeats_of_a_source_fall_together(numbers, size):
    spellings = ("the {}", "The {}", " THE  {}", "ｔｈｅ {}")
    pairs = [Pair(spellings[n % 4].format(key), f"das {key} {n}") for key, n in numbers]
    if len({key for key, _ in numbers}) < 15:
        return
    found = cut(pairs, valid=size, test=size)
    keys = {name: {comparison_key(pair.source) for pair in some} for name, some in found.items()}
    assert not keys["train"] & keys["valid"]
    assert not keys["train"] & keys["test"]
    assert not keys["valid"] & keys["test"]
    assert set(found["train"] + found["valid"] + found["test"]) == set(pairs)
    largest = max(
        sum(comparison_key(p.source) == f"the {key}" for p in set(pairs)) for key in range(31)
    )
    wanted = min(size, len(pairs) // 10)
    for name in ("valid", "test"):
        assert wanted <= len(found[name]) < wanted + largest


def test_the_same_pair_is_held_out_once():
    found = cut(PAIRS * 50)
    assert sorted(found["valid"]) == sorted(cut(PAIRS)["valid"])
    assert len(found["train"]) == 50 * 181


def test_pairs_with_an_empty_side_stay_in_train():
    blank = [Pair(pair.source, "") for pair in PAIRS] + [Pair(" ", "x")] * 100
    found = cut(PAIRS + blank)
    assert sorted(found["valid"]) == sorted(cut(PAIRS)["valid"])
    assert len(found["train"]) == 181 + 300


@pytest.mark.parametrize(("valid", "test"), [(12, 0), (0, 7), (0, 0)])
def test_none_asked_none_cut(valid, test):
    found, both = cut(PAIRS, valid, test), cut(PAIRS)
    assert found.keys() == {"train"} | {n for n, k in (("valid", valid), ("test", test)) if k}
    assert all(found[name] == both[name] for name in found if name != "train")
    assert len(found["train"]) == 200 - valid - test


def test_splits_that_are_there_stay():
    given_valid = [Pair("one", "eins")]
    result = split_corpus(corpus(PAIRS, valid=given_valid), SplitSettings(valid=12, test=7))
    assert list(result.splits["valid"]()) == given_valid
    assert list(result.splits["test"]()) == cut(PAIRS)["test"]
    assert len(list(result.splits["train"]())) == 193


def test_a_whole_corpus_is_not_read():
    whole = corpus(None, valid=[], test=[])
    assert split_corpus(whole, SplitSettings()) is whole


def test_gold_alignments_go_with_their_pairs():
    def golds():
        return (GoldAlignment(frozenset({(n, n)}), frozenset({(n, n)})) for n in range(200))

    whole = Corpus("mine", ("en", "de"), {"train": lambda: iter(PAIRS)}, {"train": golds})
    result = split_corpus(whole, SplitSettings(valid=12, test=7))
    total = 0
    for name, read in result.splits.items():
        for pair, gold in zip(read(), result.gold[name](), strict=True):
            (link,) = gold.sure
            assert pair == PAIRS[link[0]]
            total += 1
    assert total == 200


def test_a_small_corpus_gets_small_splits():
    notes = []
    found = cut(PAIRS[:50], valid=1000, test=3, notes=notes)
    assert (len(found["valid"]), len(found["test"]), len(found["train"])) == (5, 3, 42)
    assert notes == ["mine: valid holds 5 of 50 pairs instead of 1,000"]


def test_ten_pairs_are_enough():
    found = cut(PAIRS[:10])
    assert (len(found["valid"]), len(found["test"]), len(found["train"])) == (1, 1, 8)


ADVICE = "give validation and test pairs in separate files, or ask for 0 of them"


@pytest.mark.parametrize(
    ("pairs", "complaint"),
    [
        (PAIRS[:9], f"mine: 9 pairs are too few to hold any out, which takes 10; {ADVICE}"),
        (PAIRS[:1] * 50, f"mine: no source sentence was found for test; {ADVICE}"),
    ],
)
def test_too_few(pairs, complaint):
    with pytest.raises(CorpusError) as caught:
        cut(pairs)
    assert str(caught.value) == complaint


def test_nothing_left():
    with pytest.raises(CorpusError) as caught:
        cut(PAIRS[:1] * 50, test=0)
    assert str(caught.value) == (
        "mine: too few different source sentences: none would be left to train on; " + ADVICE
    )


def test_no_training_pairs():
    whole = Corpus("mine", ("en", "de"), {})
    with pytest.raises(CorpusError, match=r"^mine: no training pairs to cut valid and test from$"):
        split_corpus(whole, SplitSettings())


def test_sizes_are_counts():
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        SplitSettings(valid=-1)


def test_the_choice_takes_little_memory(monkeypatch):
    monkeypatch.setattr(splits, "CHUNK", 256)

    def peak(size):
        pairs = Corpus(
            "mine", ("en", "de"), {"train": lambda: (Pair(f"{n}", "x") for n in range(size))}
        )
        tracemalloc.start()
        split_corpus(pairs, SplitSettings(valid=20, test=20))
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    assert peak(20_000) < 2 * peak(5000)


class TestLeaks:
    def kept(self, pairs, held_out):
        report = CleaningReport()
        return list(drop_leaks(pairs, held_out, report)), report

    def test_source_or_target_held_out(self):
        held = [Pair("One  dog", "Ein Hund"), Pair("Two", "Zwei")]
        pairs = [
            Pair("one dog", "Ein Köter"),
            Pair("A dog", "EIN\u00a0HUND"),
            Pair("Ein Hund", "One dog"),
            Pair("Two cats", "Zwei Katzen"),
            Pair("Ｔｗｏ", "2"),
        ]
        kept, report = self.kept(pairs, held)
        assert kept == pairs[2:4]
        assert report.dropped == {"in valid or test": 3}
        assert (report.total, report.kept) == (5, 2)
        assert report.rows()[0].example == "one dog ||| Ein Köter"

    def test_nothing_held_out(self):
        assert self.kept(PAIRS, [])[0] == PAIRS

    def test_chunks(self, monkeypatch):
        monkeypatch.setattr(splits, "CHUNK", 7)
        kept, report = self.kept(PAIRS, PAIRS[::3])
        assert kept == [pair for n, pair in enumerate(PAIRS) if n % 3]
        assert report.dropped.total() == 67

    def test_one_report_for_both_stages(self):
        report = CleaningReport()
        pairs = [*PAIRS, Pair("", ""), PAIRS[0]]
        fit = clean(pairs, CleaningSettings(), ("en", "de"), report)
        kept = list(drop_leaks(fit, PAIRS[:50], report))
        assert kept == PAIRS[50:]
        assert (report.total, report.kept) == (202, 150)
        assert [row[:2] for row in report.rows()] == [
            ("empty", 1),
            ("duplicate", 1),
            ("in valid or test", 50),
        ]


@pytest.mark.parametrize(
    ("text", "same"), [("  A\t b\u3000c ", "a b c"), ("ﬁn", "FIN"), ("STRASSE", "straße")]
)
def test_normalise(text, same):
    assert comparison_key(text) == comparison_key(same)


@pytest.mark.parametrize(("by", "shared"), [("either", set()), ("source", {"target"})])
def test_a_given_test_is_kept_out_of_what_is_cut(by, shared):
    test = [Pair(f" SENTENCE {n}", "x") for n in range(0, 200, 2)] + [
        Pair("y", f"Satz {n}") for n in range(1, 180, 2)
    ]
    found = split_corpus(corpus(PAIRS, test=test), SplitSettings(valid=20), by=by)
    sides = {
        "source": {comparison_key(pair.source) for pair in test},
        "target": {one[1] for one in test},
    }
    valid = list(found.splits["valid"]())
    assert valid
    assert not {comparison_key(pair.source) for pair in valid} & sides["source"]
    assert {"target" for pair in valid if pair.target in sides["target"]} == shared


def test_leaks_but_for_punctuation():
    held_out, pairs = (
        [Pair("It is late.", "x")],
        [Pair("it is late", "y"), Pair("Is it late?", "z")],
    )
    for ignored, kept in (("spacing", pairs), ("punctuation", pairs[1:])):
        assert list(drop_leaks(pairs, held_out, CleaningReport(), ignored=ignored)) == kept
