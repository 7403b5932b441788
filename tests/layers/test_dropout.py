import pytest
import torch

from regard.layers.dropout import Dropout


def test_drops_in_training_alone():
    torch.manual_seed(0)
    dropout, x = Dropout(0.5), torch.ones(100)
    assert (dropout(x) == 0).any()
    assert dropout.eval()(x) is x


@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_a_share_must_leave_something(p):
    with pytest.raises(ValueError, match=f"at least 0 and less than 1, got {p}"):
        Dropout(p)


def test_says_how_much():
    assert repr(Dropout(0.25)) == "Dropout(0.25)"
