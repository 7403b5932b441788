import pytest
import torch
import torch.nn.functional as F

from regard.kernels import fused_linear
from regard.layers.transformer_parts import FeedForward

N, D, OUT = 11, 8, 24
FORMULAS = {"relu": F.relu, "gelu": F.gelu}

pytestmark = pytest.mark.parametrize("activation", sorted(FORMULAS))


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    for name, value in {"ROWS": 2, "COLS": 16, "PROGRAMS": 3}.items():
        monkeypatch.setattr(fused_linear, name, value)


def given(device, dtype=torch.float32):
    """Rows in `dtype`, a weight and a bias in float32."""
    generator = torch.Generator().manual_seed(0)
    shapes, dtypes = [(N, D), (OUT, D), (OUT,)], [dtype, torch.float32, torch.float32]
    return [
        torch.randn(shape, generator=generator).to(device, kind).requires_grad_()
        for shape, kind in zip(shapes, dtypes, strict=True)
    ]


def grads(output, inputs):
    grad = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output)
    return torch.autograd.grad(output, inputs, grad)


def plain(x, weight, bias, activation):
    return FORMULAS[activation](F.linear(x, weight.to(x.dtype), bias.to(x.dtype)))


def test_the_kernel_equals_the_formula(activation, device):
    inputs = given(device)
    fused = fused_linear.fused_linear(*inputs, activation)
    expected = plain(*inputs, activation)
    assert (fused <= 0).any()
    torch.testing.assert_close(fused, expected)
    torch.testing.assert_close(grads(fused, inputs), grads(expected, inputs))


def test_gradients_have_the_precision_of_their_inputs(activation, device):
    inputs = given(device, torch.bfloat16)
    fused = fused_linear.fused_linear(*inputs, activation)
    expected = plain(*inputs, activation)
    torch.testing.assert_close(fused, expected)
    for ours, theirs in zip(grads(fused, inputs), grads(expected, inputs), strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, atol=0.05, rtol=0.05)


def test_only_training_uses_the_kernel(activation, device):
    layer, x = FeedForward(D, OUT, activation).to(device), torch.randn(2, 3, D, device=device)
    trained = layer.train()._activated(x)
    plain_output = layer.eval()._activated(x)
    assert "FusedLinear" in str(trained.grad_fn.next_functions)
    assert "FusedLinear" not in str(plain_output.grad_fn.next_functions)
    torch.testing.assert_close(trained, plain_output)
