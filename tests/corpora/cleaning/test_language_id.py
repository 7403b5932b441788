import codecs
import random

import numpy as np
import pytest

from regard.corpora.cleaning.language_id import LanguageIdentifier, find_trigrams, log_probability
from regard.corpora.corpus import Pair
from regard.corpora.generated.generator import GeneratedSettings
from regard.corpora.generated.letter_sequences import sequence_corpus
from regard.corpora.generated.travel.grammar import travel

SOME = GeneratedSettings(train=4000, valid=1, test=1)


@pytest.fixture(scope="module")
def pairs():
    return list(travel(SOME).splits["train"]())


def spoilt(pairs, share, change):
    """The pairs, some of them changed, and which: (N,)."""
    chance = random.Random(1)
    wrong = np.array([chance.random() < share for _ in pairs])
    return [change(pair) if bad else pair for pair, bad in zip(pairs, wrong, strict=True)], wrong


def other_language(text):
    """Text with the letters of none: a made-up language."""
    return codecs.encode(text, "rot13")


def test_clean_pairs_are_left_alone(pairs):
    check = LanguageIdentifier(pairs)
    assert check
    assert not check.classify(pairs).wrong.any()


def test_exchanged_sides_are_found(pairs):
    mixed, wrong = spoilt(pairs, 0.05, lambda pair: Pair(pair.target, pair.source))
    found = LanguageIdentifier(mixed).classify(mixed)
    assert found.swapped[wrong].mean() > 0.98
    assert not found.wrong[~wrong].any()


def test_a_third_language_is_found(pairs):
    mixed, wrong = spoilt(pairs, 0.03, lambda pair: Pair(pair.source, other_language(pair.target)))
    found = LanguageIdentifier(mixed).classify(mixed)
    assert found.target[wrong].mean() > 0.9
    assert not found.wrong[~wrong].any()


def test_what_was_not_translated_is_found(pairs):
    mixed, wrong = spoilt(pairs, 0.03, lambda pair: Pair(pair.source, f"{pair.source} ..."))
    found = LanguageIdentifier(mixed).classify(mixed)
    assert found.target[wrong].mean() > 0.9
    assert not found.source.any()


def test_sides_of_one_language_and_few_pairs_say_nothing(pairs):
    letters = list(sequence_corpus("copy", SOME).splits["train"]())
    for some in (letters, pairs[:500]):
        check = LanguageIdentifier(some)
        assert not check
        assert not check.classify([Pair("x", "y")]).wrong.any()


def test_trigrams_lie_within_a_text_and_ignore_case_and_signs():
    lines = find_trigrams(["Abc!", "", "abc 12 D", "abc"])
    assert lines.sizes.tolist() == [4, 1, 6, 4]  # with the spaces around words
    first, last = lines.bucket[:4], lines.bucket[-4:]
    np.testing.assert_array_equal(first, last)
    assert lines.counts().sum() == len(lines.bucket) == 15
    assert lines.counts(np.array([False, False, True, False])).sum() == 6
    assert lines.sums(np.ones(15)).tolist() == [4, 1, 6, 4]


def test_no_texts():
    assert len(find_trigrams([]).bucket) == 0


def test_what_was_seen_is_likelier():
    logs = log_probability(np.array([3.0, 0.0]))
    assert logs[0] > logs[1]
