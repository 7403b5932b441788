"""What is printed of several figures."""

import pytest

from bench.statistics import exponent, percentile, ratio, summarise, upper_exponent


def test_the_middle_and_the_outermost():
    found = summarise([3.0, 1.0, 8.0])
    assert found == (3.0, 1.0, 8.0)
    assert found.spread == pytest.approx(7 / 3)


def test_a_ratio_is_taken_within_rounds():
    # In the second round the machine was twice as slow: for both.
    found = ratio([10.0, 5.0, 10.0], [4.0, 2.0, 5.0])
    assert found.median == 2.5
    assert (found.low, found.high) == (2.0, 2.5)


def test_a_ratio_of_unlike_rounds_is_refused():
    with pytest.raises(ValueError, match="2 of ours, 3 of theirs"):
        ratio([1.0, 1.0], [1.0, 1.0, 1.0])


def test_most_lie_below_a_percentile():
    assert percentile(list(range(101)), 0.95) == 95


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_a_power_law_is_recognised(power):
    sizes = [1.0, 2.0, 4.0, 8.0]
    assert exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)


def test_growth_is_read_where_it_is_not_small():
    sizes = [1.0, 2.0, 4.0, 8.0]
    assert upper_exponent(sizes, [5.0, 5.0, 16.0, 64.0]) == pytest.approx(2.0)


def test_a_power_law_of_nothing_is_refused():
    with pytest.raises(ValueError, match="positive costs"):
        exponent([1.0, 2.0], [0.0, 1.0])
