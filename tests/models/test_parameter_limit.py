import pytest
from torch import nn

from regard.errors import SettingsError
from regard.models.parameter_limit import parameter_limit


def test_a_model_within_the_limit_is_built():
    with parameter_limit(12):
        assert sum(p.numel() for p in nn.Linear(3, 3).parameters()) == 12
    nn.Linear(3, 4)  # and none is limited afterwards


@pytest.mark.parametrize("size", [3, 1 << 17, 1 << 40])
def test_a_larger_one_is_refused_before_it_takes_memory(size):
    with pytest.raises(SettingsError, match="its model"), parameter_limit(11):
        nn.Linear(size, size)
