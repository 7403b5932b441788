import pytest
import torch
import torch.nn.functional as F

from regard.layers.convolution import CausalConvolution, Convolution

B, T, D, OUT, K = 2, 11, 3, 4, 5


def as_torch(layer, kernel):
    """The weight as torch's convolution has it: (outputs, inputs, kernel)."""
    return layer.linear.weight.unflatten(1, (kernel, -1)).transpose(1, 2)


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2, 4])
@pytest.mark.parametrize("kind", [Convolution, CausalConvolution])
def test_is_torchs_convolution(kind, kernel, dilation):
    layer, x = kind(D, OUT, kernel, dilation=dilation).double(), torch.randn(B, T, D).double()
    span = (kernel - 1) * dilation
    left_padding = span if kind is CausalConvolution else span // 2
    padded = F.pad(x.mT, (left_padding, span - left_padding))
    wanted = F.conv1d(padded, as_torch(layer, kernel), layer.linear.bias, dilation=dilation)
    torch.testing.assert_close(layer(x), wanted.mT)


def test_a_gate_is_made_beside_each_output():
    layer, x = Convolution(D, OUT, 3, gated=True), torch.randn(B, T, D)
    plain = F.conv1d(x.mT, as_torch(layer, 3), layer.linear.bias, padding=1).mT
    value, gate = plain.chunk(2, -1)
    torch.testing.assert_close(layer(x), value * gate.sigmoid())
    assert layer(x).shape == (B, T, OUT)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (2, 3), (3, 2), (4, 1)])
def test_step_by_step_equals_all_at_once(kernel, dilation, gated):
    layer = CausalConvolution(D, OUT, kernel, dilation=dilation, gated=gated).double()
    x = torch.randn(B, T, K, D).double()
    window, steps = layer.zero_state(B).expand(-1, K, -1, -1), []
    assert window.shape == (B, K, (kernel - 1) * dilation, D)
    for column in x.unbind(1):
        y, later = layer.step(column, window)
        assert later.shape == window.shape
        steps.append(y)
        window = later
    for k in range(K):
        torch.testing.assert_close(torch.stack(steps, 1)[:, :, k], layer(x[:, :, k]))


def test_looks_just_as_far_as_it_says():
    layer, x = CausalConvolution(D, OUT, 3, dilation=2), torch.randn(1, T, D, requires_grad=True)
    layer(x)[0, 7].sum().backward()
    assert x.grad.abs().sum(-1).nonzero()[:, 1].tolist() == [3, 5, 7]
    layer, x = Convolution(D, OUT, 3, dilation=2), torch.randn(1, T, D, requires_grad=True)
    layer(x)[0, 7].sum().backward()
    assert x.grad.abs().sum(-1).nonzero()[:, 1].tolist() == [5, 7, 9]
