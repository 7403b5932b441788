import random

import pytest

from regard.corpora.pairs import Pair
from regard.corpora.weights import Weighting, copies

PAIRS = [Pair(f"a {n}", f"b {n}") for n in range(2000)]


@pytest.mark.parametrize(
    ("weight", "low", "high"), [(0.25, 0, 1), (1, 1, 1), (2.5, 2, 3), (3, 3, 3)]
)
def test_a_weight_is_how_often_a_pair_comes_on_average(weight, low, high):
    times = copies(PAIRS, weight)
    assert times.mean() == pytest.approx(weight, abs=0.05)
    assert {*times.tolist()} == {low, high}


def test_the_choice_is_of_the_pair_alone_and_grows_with_the_weight():
    shuffled = random.Random(1).sample(PAIRS, len(PAIRS))
    chosen = dict(zip(PAIRS, copies(PAIRS, 0.5), strict=True))
    assert chosen == dict(zip(shuffled, copies(shuffled, 0.5), strict=True))
    assert (copies(PAIRS, 0.6) >= copies(PAIRS, 0.5)).all()


def test_light_parts_are_thinned_and_heavy_ones_repeated():
    weighting = Weighting()
    light = list(weighting.enter(PAIRS[:1000], 0.5))
    heavy = list(weighting.enter(PAIRS[1000:], 2))
    assert 400 < len(light) < 600
    assert heavy == PAIRS[1000:]
    found = list(weighting.repeat([*light, *heavy]))
    assert found == [*light, *heavy, *heavy]  # no pair beside itself
