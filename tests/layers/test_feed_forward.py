import pytest
import torch
import torch.nn.functional as F

from regard.layers.feed_forward import FeedForward

B, T, D, HIDDEN = 2, 3, 4, 10


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("name", "activate"), [("relu", F.relu), ("gelu", F.gelu)])
def test_is_two_linear_layers_with_an_activation_between(name, activate, bias):
    layer, x = FeedForward(D, HIDDEN, name, bias=bias), torch.randn(B, T, D)
    torch.testing.assert_close(layer(x), layer.outer(activate(layer.inner(x))))
    numbers = 2 * D * HIDDEN + (HIDDEN + D if bias else 0)
    assert sum(p.numel() for p in layer.parameters()) == numbers


def test_the_input_stays_and_gradient_mode_changes_nothing():
    layer, x = FeedForward(D, HIDDEN, "relu"), torch.randn(B, T, D)
    kept = x.clone()
    with torch.no_grad():
        found = layer(x)
    assert torch.equal(x, kept)
    assert torch.equal(found, layer(x))


def test_swiglu_is_gated():
    layer, x = FeedForward(D, HIDDEN, "swiglu", bias=False), torch.randn(B, T, D)
    w, v = layer.inner.weight[:HIDDEN], layer.inner.weight[HIDDEN:]
    torch.testing.assert_close(layer(x), (F.silu(x @ w.T) * (x @ v.T)) @ layer.outer.weight.T)
    assert sum(p.numel() for p in layer.parameters()) == 3 * D * HIDDEN


@pytest.mark.parametrize("name", ["relu", "swiglu"])
def test_each_matrix_is_drawn_as_if_alone(name):
    torch.manual_seed(0)
    layer = FeedForward(64, 192, name)
    bound = (6 / 256) ** 0.5
    for matrix in (*layer.inner.weight.split(192), layer.outer.weight):
        assert 0.98 * bound < matrix.abs().max() <= bound


def test_dropout_is_inside():
    torch.manual_seed(0)
    layer, x = FeedForward(D, HIDDEN, "relu", dropout=0.5), torch.randn(B, T, D)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
