import random

import pytest

from regard.corpora.corpus import Pair
from regard.corpora.corpus_weights import CorpusWeighting, copy_counts

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
