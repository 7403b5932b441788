import random
from itertools import product

import pytest

from regard.corpora.corpus import Pair
from regard.corpora.diagnostics.pair_noise import (
    NoiseReport,
    NumberedPair,
    measure_noise,
)
from regard.corpora.generated.dates import dates
from regard.corpora.generated.generator import GeneratedSettings
from regard.corpora.generated.travel.grammar import travel

SOME = GeneratedSettings(train=3000, valid=1, test=1)


def noise(pairs):
    return measure_noise([NumberedPair(line, pair) for line, pair in enumerate(pairs)])


@pytest.fixture(scope="module")
def pairs():
    return list(travel(SOME).splits["train"]())


def test_clean_pairs(pairs):
    for clean in (pairs, list(dates(SOME).splits["train"]())):
        found = noise(clean)
        assert found.paired > 2900
        assert found.random.share < 0.01
        assert found.truncated.share < 0.01


def test_random_pairings(pairs):
    chance = random.Random(1)
    mixed = [
        Pair(pair.source, chance.choice(pairs).target) if chance.random() < 0.1 else pair
        for pair in pairs
    ]
    found = noise(mixed)
    assert 0.07 < found.random.share < 0.14
    assert all(mixed[place] != pairs[place] for place in found.random.lines)


def test_targets_cut_short(pairs):
    chance = random.Random(1)
    mixed = [
        Pair(pair.source, pair.target[: len(pair.target) // 2]) if chance.random() < 0.1 else pair
        for pair in pairs
    ]
    found = noise(mixed)
    assert 0.05 < found.truncated.share < 0.15
    assert all(mixed[place] != pairs[place] for place in found.truncated.lines)


def test_what_is_unrelated_throughout_or_small_says_nothing(pairs):
    sources, targets = zip(*pairs, strict=True)
    shuffled = random.Random(1).sample(targets, len(targets))
    for some in (list(map(Pair, sources, shuffled)), pairs[:500]):
        assert noise(some).paired == 0


def test_a_list_of_single_words_says_nothing():
    words = ["".join(letters) for letters in product("abcdefghij", repeat=3)]
    assert noise([Pair(word, word[::-1]) for word in 2 * words]).paired == 0


def test_lines_are_those_of_the_split():
    pairs = list(travel(GeneratedSettings(train=1500, valid=1, test=1)).splits["train"]())
    lines = range(1, 3001, 2)
    sample = [
        NumberedPair(line, Pair(pair.target, pair.source) if line % 101 == 0 else pair)
        for line, pair in zip(lines, pairs, strict=True)
    ]
    found = measure_noise(sample)
    assert found.sampled == 1500
    assert found.languages_known
    assert found.swapped.lines == (101, 303, 505)
    assert found.swapped.pairs == 15
    assert found.paired > 1400


def test_a_small_sample():
    assert measure_noise([NumberedPair(1, Pair("a", "b"))]) == NoiseReport(sampled=1)
    assert measure_noise([]) == NoiseReport()
