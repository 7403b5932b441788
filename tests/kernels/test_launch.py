import pytest

from regard.kernels.launch import next_power_of_two


@pytest.mark.parametrize(("size", "power"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1025, 2048)])
def test_the_power_of_two_that_holds_a_size(size, power):
    assert next_power_of_two(size) == power
    assert next_power_of_two(size, least=16) == max(16, power)
