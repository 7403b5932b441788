from random import Random

import pytest

from regard.corpora.corpus import AlignedPair, Pair
from regard.corpora.generated.generator import (
    GeneratedSettings,
    generated_corpus,
    sample_splits,
)
from regard.errors import CorpusError
from regard.types import GoldAlignment

SETTINGS = GeneratedSettings(train=40, valid=7, test=11, seed=3)


def draw_number(random: Random) -> AlignedPair:
    number = random.randrange(500)
    gold = frozenset({(0, 0)})
    return AlignedPair(Pair(f"n{number}", f"t{number // 2}"), GoldAlignment(gold, gold))


def test_splits_have_their_sizes_and_share_nothing():
    sampled = sample_splits("numbers", draw_number, SETTINGS)
    assert {split: len(examples) for split, examples in sampled.items()} == {
        "train": 40,
        "valid": 7,
        "test": 11,
    }
    pairs = {split: [example.pair for example in examples] for split, examples in sampled.items()}
    sources = [pair.source for split in pairs.values() for pair in split]
    assert len(sources) == len(set(sources))
    targets = [{pair.target for pair in split} for split in pairs.values()]
    assert sum(map(len, targets)) == len(set.union(*targets))


def test_spellings_that_differ_in_case_count_as_one():
    def draw(random: Random) -> AlignedPair:
        word = random.choice(("one", "ONE", "two", "three", "four"))
        return AlignedPair(Pair(word, word))

    sampled = sample_splits("words", draw, GeneratedSettings(train=2, valid=1, test=1))
    words = [example.pair.source.casefold() for split in sampled.values() for example in split]
    assert sorted(words) == ["four", "one", "three", "two"]


def test_the_size_of_train_changes_only_its_end():
    small = sample_splits("numbers", draw_number, SETTINGS)
    large = sample_splits("numbers", draw_number, SETTINGS.model_copy(update={"train": 60}))
    assert (small["valid"], small["test"]) == (large["valid"], large["test"])
    assert small["train"] == large["train"][:40]


def test_another_seed_makes_other_pairs():
    other = SETTINGS.model_copy(update={"seed": 4})
    assert sample_splits("numbers", draw_number, SETTINGS) != sample_splits(
        "numbers", draw_number, other
    )


def test_asking_for_more_than_there_is_is_an_error():
    settings = GeneratedSettings(train=600, valid=1, test=1)
    with pytest.raises(CorpusError, match=r"numbers: 600 pairs were asked for in train, .* fewer"):
        sample_splits("numbers", draw_number, settings)


def test_corpus_reads_again_and_again_and_draws_once():
    drawn = []

    def draw(random: Random) -> AlignedPair:
        drawn.append(1)
        return draw_number(random)

    corpus = generated_corpus("numbers", ("und", "und"), draw, SETTINGS)
    assert not drawn
    first = list(corpus.splits["test"]())
    count = len(drawn)
    assert list(corpus.splits["test"]()) == first
    assert len(list(corpus.gold["train"]())) == 40
    assert len(drawn) == count
    assert "seed 3" in corpus.origin


def test_corpus_without_alignments_has_no_gold():
    corpus = generated_corpus("numbers", ("und", "und"), draw_number, SETTINGS, aligned=False)
    assert not corpus.gold
