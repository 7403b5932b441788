import random
from collections import Counter

import pytest

from regard.corpora.corpus import Pair
from regard.corpora.mixture import (
    MAX_MIXTURE_COPIES,
    CorpusWeighting,
    Mixture,
    concatenate_pairs,
    copy_counts,
    repeat_pairs,
)

PAIRS = [Pair(f"a {n}", f"b {n}") for n in range(2000)]


@pytest.mark.parametrize(
    ("weight", "low", "high"), [(0.25, 0, 1), (1, 1, 1), (2.5, 2, 3), (3, 3, 3)]
)
def test_a_weight_is_how_often_a_pair_comes_on_average(weight, low, high):
    times = copy_counts(PAIRS, weight)
    assert times.mean() == pytest.approx(weight, abs=0.05)
    assert {*times.tolist()} == {low, high}


def test_the_choice_is_of_the_pair_alone_and_grows_with_the_weight():
    shuffled = random.Random(1).sample(PAIRS, len(PAIRS))
    chosen = dict(zip(PAIRS, copy_counts(PAIRS, 0.5), strict=True))
    assert chosen == dict(zip(shuffled, copy_counts(shuffled, 0.5), strict=True))
    assert (copy_counts(PAIRS, 0.6) >= copy_counts(PAIRS, 0.5)).all()


def test_light_parts_are_thinned_and_heavy_ones_repeated():
    weighting = CorpusWeighting()
    light = list(weighting.subsample(PAIRS[:1000], 0.5))
    oversampled = list(weighting.subsample(PAIRS[1000:], 2))
    assert 400 < len(light) < 600
    assert oversampled == PAIRS[1000:]
    found = list(weighting.oversample([*light, *oversampled]))
    assert found == [*light, *oversampled, *oversampled]  # no pair beside itself


def test_concatenation_loses_nothing_and_keeps_sides_together():
    joined = list(concatenate_pairs(PAIRS, 4))
    assert " ".join(pair.source for pair in joined) == " ".join(pair.source for pair in PAIRS)
    for pair in joined:
        assert pair.target == pair.source.replace("a", "b")


def test_each_number_of_joined_pairs_is_as_likely():
    sizes = Counter(pair.source.count("a") for pair in concatenate_pairs(PAIRS, 4))
    assert sizes.keys() == {1, 2, 3, 4}
    assert min(sizes.values()) > 0.7 * max(sizes.values())


def test_the_same_pairs_are_joined_in_the_same_way():
    assert list(concatenate_pairs(PAIRS, 3)) == list(concatenate_pairs(PAIRS, 3))


def test_groups_of_one_are_the_pairs_themselves():
    assert list(concatenate_pairs(PAIRS, 1)) == PAIRS
    assert list(concatenate_pairs([], 4)) == []


@pytest.mark.parametrize(
    ("pairs", "mixed", "shares", "copies"),
    [
        (700, [300], [0.3], 1),
        (700, [100], [0.3], 1),  # few others are repeated
        (700, [950], [0.3], 3),  # of many, more are used
        (7, [10**6], [0.3], MAX_MIXTURE_COPIES),
        (500, [3000, 700], [0.3, 0.2], 3),
    ],
)
def test_what_is_mixed_in_has_its_share(pairs, mixed, shares, copies):
    found = Mixture.of(pairs, mixed, shares)
    assert found.copies == copies
    counts = [weight * have for weight, have in zip(found.weights, mixed, strict=True)]
    whole = copies * pairs + sum(counts)
    assert [count / whole for count in counts] == pytest.approx(shares)
    assert all(weight <= 1 for weight in found.weights) or copies == 1


def test_pairs_are_repeated_by_weight():
    times = Counter(repeat_pairs(PAIRS, 1.5))
    assert sum(times.values()) == pytest.approx(3000, abs=150)
    assert {*times.values()} == {1, 2}
