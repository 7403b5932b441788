import random

import pytest

from regard.corpora.corpus import Pair
from regard.corpora.diagnostics.pair_noise import estimate_pair_noise
from regard.corpora.generated.dates import dates
from regard.corpora.generated.generator import GeneratedSettings
from regard.corpora.generated.travel.grammar import travel

SOME = GeneratedSettings(train=3000, valid=1, test=1)


@pytest.fixture(scope="module")
def pairs():
    return list(travel(SOME).splits["train"]())


def test_clean_pairs(pairs):
    for clean in (pairs, list(dates(SOME).splits["train"]())):
        found = estimate_pair_noise(clean)
        assert found.judged > 2900
        assert found.random < 0.01
        assert found.truncated < 0.01


def test_random_pairings(pairs):
    chance = random.Random(1)
    mixed = [
        Pair(pair.source, chance.choice(pairs).target) if chance.random() < 0.1 else pair
        for pair in pairs
    ]
    found = estimate_pair_noise(mixed)
    assert 0.07 < found.random < 0.14
    assert all(mixed[place] != pairs[place] for place in found.random_places)


def test_targets_cut_short(pairs):
    chance = random.Random(1)
    mixed = [
        Pair(pair.source, pair.target[: len(pair.target) // 2]) if chance.random() < 0.1 else pair
        for pair in pairs
    ]
    found = estimate_pair_noise(mixed)
    assert 0.05 < found.truncated < 0.15
    assert all(mixed[place] != pairs[place] for place in found.truncated_places)


def test_what_is_unrelated_throughout_or_small_says_nothing(pairs):
    sources, targets = zip(*pairs, strict=True)
    shuffled = random.Random(1).sample(targets, len(targets))
    for some in (list(map(Pair, sources, shuffled)), pairs[:500]):
        assert estimate_pair_noise(some).judged == 0
