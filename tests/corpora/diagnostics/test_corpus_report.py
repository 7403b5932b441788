import json
from functools import partial

import pytest

from regard.corpora.cleaning.pair_filters import CleaningSettings
from regard.corpora.corpus import Corpus, Pair
from regard.corpora.diagnostics.corpus_report import (
    DuplicateCounts,
    LengthStatistics,
    analyze_corpus,
)
from regard.corpora.splits import SplitSettings
from regard.errors import CorpusError

CLEANING, SPLIT = CleaningSettings(), SplitSettings()


def corpus(languages=("en", "fr"), **splits):
    reading = {name: partial(iter, [Pair(*pair) for pair in some]) for name, some in splits.items()}
    return Corpus("mine", languages, reading)


def numbered(count, start=0):
    return [(f"This is number {n}", f"Voici le {n}") for n in range(start, start + count)]


def test_sizes_and_lengths():
    lengths = [1] * 5 + [2] * 13 + [9, 30]
    train = [(" ".join(["ab"] * n), "c" * n) for n in lengths]
    found = analyze_corpus(corpus(train=train, test=[("a", "b")]), CLEANING, SplitSettings(valid=0))
    report = found.splits["train"]
    assert report.pairs == 20
    assert report.source.words == LengthStatistics(total=70, mean=3.5, median=2, most=9, longest=30)
    assert report.source.characters.longest == 89
    assert report.target.words == LengthStatistics(total=20, mean=1.0, median=1, most=1, longest=1)
    assert report.target.characters == LengthStatistics(70, 3.5, 2, 9, 30)
    assert found.splits["test"].pairs == 1


def test_what_cleaning_would_drop_is_counted_in_every_split():
    found = analyze_corpus(
        corpus(train=[*numbered(12), ("", "x"), ("same", "same")], valid=[("", "")], test=[]),
        CLEANING,
        SPLIT,
    )
    assert found.splits["train"].cleaning.to_json()["dropped"] == {
        "empty": 1,
        "source equals target": 1,
    }
    assert found.splits["valid"].cleaning.kept == 0
    assert found.splits["test"].pairs == 0


def test_repeats_in_any_case_and_spacing():
    train = [("A dog", "x"), ("a  dog", "X"), ("A dog", "y"), ("a dog", "z"), ("cat", "x")]
    found = analyze_corpus(corpus(train=train, valid=[], test=[]), CLEANING, SPLIT)
    assert found.splits["train"].repeats == DuplicateCounts(pairs=1, sources=1, targets=1)


def test_missing_splits_are_cut_and_compared():
    found = analyze_corpus(corpus(train=numbered(200)), CLEANING, SplitSettings(valid=20, test=500))
    assert found.cut == {"valid": 20, "test": 20}
    assert len(found.notes) == 1
    assert "500" in found.notes[0]
    assert found.splits.keys() == {"train"}
    assert [leak.total for leak in found.overlap.leaks] == [20, 20, 20]
    assert found.overlap.leaking_pairs == 0
    assert found.splits["train"].pairs == 200


def test_a_corpus_that_cannot_be_cut_says_why():
    found = analyze_corpus(corpus(train=numbered(5)), CLEANING, SPLIT)
    assert found.split_error.startswith("mine: 5 pairs are too few to hold any out")
    assert found.cut == {}


def test_line_numbers_are_those_of_the_file():
    chars = [3, 40, 9, 80, 17, 25, 5, 60] * 125
    train = [(f"{'a' * n} {i}", f"{'b' * n} {i}") for i, n in enumerate(chars)]
    moved = [
        (source, target)
        for (source, _), (_, target) in zip(train, train[:600] + train[601:], strict=False)
    ]
    found = analyze_corpus(corpus(train=moved), CLEANING, SPLIT)
    [stretch] = found.splits["train"].alignment.stretches
    assert (stretch.shift, stretch.last) == (-1, 999)
    assert stretch.first == pytest.approx(601, abs=5)


def test_the_sample_is_of_clean_training_pairs_and_repeatable():
    pairs = [*numbered(500), ("", "x")]
    draw = partial(analyze_corpus, corpus(train=pairs, valid=[], test=[]), CLEANING, SPLIT)
    sample = draw(sample=50).sample
    assert len(set(sample)) == 50
    assert set(sample) <= {Pair(*pair) for pair in numbered(500)}
    assert sample == draw(sample=50).sample
    assert sample != draw(sample=50, seed=2).sample
    assert set(draw(sample=1000).sample) == {Pair(*pair) for pair in numbered(500)}
    assert draw().sample == ()


def test_the_sample_favours_no_place():
    places = [0, 0]
    for seed in range(200):
        found = analyze_corpus(
            corpus(train=numbered(10), valid=[], test=[]), CLEANING, SPLIT, sample=3, seed=seed
        )
        for pair in found.sample:
            places[int(pair.target.split()[-1]) >= 5] += 1
    assert sum(places) == 600
    assert places[0] == pytest.approx(300, abs=60)  # five standard deviations


def test_signs_are_counted_by_side():
    train = [(f"a dog , {n} .", f"Un chien, {n}.") for n in range(30)]
    report = analyze_corpus(corpus(train=train, valid=[], test=[]), CLEANING, SPLIT).splits["train"]
    assert report.source.surface["tokenised"] == (30, 30)
    assert report.target.surface["tokenised"] == (30, 0)
    assert report.source.surface["lowercase"].share == 1


def test_progress_is_told():
    told = []
    analyze_corpus(
        corpus(train=numbered(10_000), valid=[], test=[]),
        CLEANING,
        SPLIT,
        notify=lambda doing, pairs: told.append((doing, pairs)),
    )
    assert ("reading train", 8192) in told
    assert told[-1] == ("comparing the splits", 0)


def test_json_holds_all_numbers():
    found = analyze_corpus(corpus(train=numbered(50)), CLEANING, SPLIT)
    said = json.loads(json.dumps(found.to_json()))
    assert said["splits"]["train"]["pairs"] == 50
    assert said["splits"]["train"]["source"]["words"]["median"] == 4
    assert said["splits"]["train"]["source"]["signs"]["tags"] == {"lines": 50, "showing": 0}
    assert said["splits"]["train"]["cleaning"]["kept"] == 50
    assert said["splits"]["train"]["alignment"]["stretches"] == []
    assert said["cut"] == {"valid": 5, "test": 5}
    assert said["leaks"][0]["split"] == "valid"


def unreadable(pairs):
    yield from (Pair(*pair) for pair in pairs)
    raise CorpusError("x.txt: line 51: not UTF-8")


def test_what_can_be_read_of_a_broken_split_is_examined():
    reading = {"train": partial(unreadable, numbered(50))}
    found = analyze_corpus(Corpus("mine", ("en", "fr"), reading), CLEANING, SPLIT, sample=9)
    report = found.splits["train"]
    assert (report.pairs, report.read_error) == (50, "x.txt: line 51: not UTF-8")
    assert report.cleaning.kept == 50
    assert (found.cut, found.overlap.leaks) == ({}, ())


def test_a_split_of_which_nothing_can_be_read_is_an_error():
    reading = {"train": partial(unreadable, [])}
    with pytest.raises(CorpusError, match="line 51"):
        analyze_corpus(Corpus("mine", ("en", "fr"), reading), CLEANING, SPLIT)
