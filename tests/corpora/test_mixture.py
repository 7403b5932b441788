import random
from collections import Counter

import pytest

from regard.corpora.corpus import Pair
from regard.corpora.mixture import CorpusWeighting, concatenate_pairs, copy_counts

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
