from functools import partial

import pytest

from regard.corpora.corpus import Corpus, Pair
from regard.corpora.diagnostics.split_overlap import (
    MAX_EXAMPLES,
    Leak,
    NearLeak,
    SplitOverlap,
    compare_splits,
    hash_pairs,
)


def corpus(languages=("en", "fr"), **splits):
    reading = {name: partial(iter, [Pair(*pair) for pair in some]) for name, some in splits.items()}
    return Corpus("mine", languages, reading)


TRAIN = [("A dog.", "Un chien."), ("A cat.", "Un chat."), ("Two cats.", "Deux chats.")]


def test_leaks_are_counted_by_side_and_by_pair():
    found = compare_splits(
        corpus(
            train=TRAIN,
            valid=[("a  DOG.", "un chien."), ("A cat.", "Une chatte."), ("No.", "Non.")],
            test=[("Some dog.", "Un chien."), ("no.", "Non !")],
        )
    )
    assert found.leaks == (
        Leak("valid", "train", total=3, sources=2, targets=1, pairs=1),
        Leak("test", "train", total=2, sources=0, targets=1, pairs=0),
        Leak("test", "valid", total=2, sources=1, targets=1, pairs=0),
    )
    assert found.leaking_pairs == 2


def test_two_sides_of_unlike_pairs_are_no_whole_pair():
    found = compare_splits(corpus(train=TRAIN, test=[("A dog.", "Un chat.")]))
    assert found.leaks == (Leak("test", "train", 1, sources=1, targets=1, pairs=0),)


@pytest.mark.parametrize(("by", "left_out"), [("either", 2), ("source", 1)])
def test_pairs_left_out_of_training(by, left_out):
    held_out = [("A dog.", "Un toutou."), ("Cat!", "Un chat.")]
    assert compare_splits(corpus(train=TRAIN, test=held_out), by).leaking_pairs == left_out


def test_coverage_counts_running_words_and_characters():
    test = [("A zebra, a zebra!", "Un zèbre"), ("Two okapis", "Deux chiens")]
    source, target = compare_splits(corpus(train=TRAIN, test=test)).coverage
    assert (source.split, source.side, target.side) == ("test", "source", "target")
    assert (source.words, source.new_words) == (6, 3)
    assert source.word_examples == ("zebra", "okapis")
    assert (target.words, target.new_words, target.word_examples) == (4, 2, ("chiens", "zèbre"))
    assert (target.characters, target.new_characters) == (17, 4)  # z, è, b and r of zèbre
    assert target.character_examples == ("b", "r", "z", "è")


def test_few_examples_are_kept():
    test = [(" ".join(f"word{n}" for n in range(MAX_EXAMPLES + 5)), "x")]
    source, _ = compare_splits(corpus(train=TRAIN, test=test)).coverage
    assert source.new_words == MAX_EXAMPLES + 5
    assert len(source.word_examples) == MAX_EXAMPLES


def test_scripts_without_spaces_have_no_words():
    source, target = compare_splits(
        corpus(("zh", "en"), train=[("你好", "hello")], test=[("你们", "hello")])
    ).coverage
    assert (source.words, source.new_words, source.new_characters) == (0, 0, 1)
    assert (target.words, target.new_words) == (1, 0)


def test_nothing_held_out_shares_nothing():
    assert compare_splits(corpus(train=TRAIN)) == SplitOverlap()


def test_an_empty_split_shares_nothing():
    [leak] = compare_splits(corpus(train=TRAIN, test=[])).leaks
    assert leak == Leak("test", "train", 0, 0, 0, 0)


def test_the_hash_of_a_pair_knows_its_sides_apart():
    found = hash_pairs([Pair("a", "b"), Pair("b", "a"), Pair("a", "a")])
    assert len(set(found.pair.tolist())) == 3
    assert found.source[0] == found.target[1]


def test_sources_that_differ_in_punctuation_are_near_leaks():
    texts = {
        "train": ["It is late.", "The same.", "Other"],
        "test": ["it is late", "the  SAME.", "New", "!"],
    }
    pairs = {split: [(text, "x") for text in some] for split, some in texts.items()}
    assert compare_splits(corpus(**pairs), near=True).near_leaks == (
        NearLeak("test", 3, 1, "it is late"),
    )
    assert compare_splits(corpus(**pairs)).near_leaks == ()
