import pytest
import torch

from regard.kernels.dispatch import DeferredBias
from regard.layers.residual import Residual

B, T, D = 2, 3, 5


def around(place, x, *, dropout=0.0):
    residual = Residual(D, place, dropout)
    return residual, residual.post(x, 2 * residual.pre(x))


def test_post_norm():
    x = torch.randn(B, T, D)
    residual, y = around("post", x)
    torch.testing.assert_close(y, residual.norm(x + 2 * x))


def test_pre_norm():
    x = torch.randn(B, T, D)
    residual, y = around("pre", x)
    torch.testing.assert_close(y, x + 2 * residual.norm(x))


@pytest.mark.parametrize("place", ["pre", "post"])
def test_dropout_applies_to_the_output_of_the_sub_layer(place):
    torch.manual_seed(0)
    residual = Residual(1000, place, 0.5)
    residual.norm = torch.nn.Identity()
    y = residual.post(torch.ones(1000), torch.ones(1000))
    assert sorted(y.unique().tolist()) == [1.0, 3.0]


@pytest.mark.parametrize("place", ["pre", "post"])
def test_a_deferred_bias_is_added(place):
    residual, (x, y), bias = Residual(D, place, 0.0), torch.randn(2, T, D), torch.randn(D)
    wanted = residual.post(x, y + bias)
    torch.testing.assert_close(residual.post(x, y, bias), wanted)
    other = Residual(D, place, 0.0)
    torch.testing.assert_close(
        residual.post_then_pre(x, DeferredBias(y, bias), other), (wanted, other.pre(wanted))
    )
