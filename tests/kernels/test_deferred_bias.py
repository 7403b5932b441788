import pytest
import torch
import torch.nn.functional as F

from linears import OUT, D, N, given, grads
from regard.kernels import dispatch
from regard.kernels.deferred_bias import Linear, deferred_bias, linear


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_torchs(dtype, where):
    inputs = given(where, dtype)
    found = linear(*inputs)
    wanted = F.linear(*(x.to(dtype) for x in inputs))
    assert found.grad_fn.name() != wanted.grad_fn.name()
    torch.testing.assert_close(found, wanted)
    for one, other in zip(grads(found, inputs), grads(wanted, inputs), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, atol=0.05, rtol=0.05)


def test_it_can_be_told_not_to(where, monkeypatch):
    monkeypatch.setattr(dispatch, "disabled", {"linear"})
    inputs = given(where, torch.float32)
    assert linear(*inputs).grad_fn.name() == F.linear(*inputs).grad_fn.name()


def test_only_training_asks_for_it(where):
    layer, x = Linear(D, OUT).to(where), torch.randn(N, D, device=where)
    names = []
    for mode in (True, False):
        names.append(layer.train(mode)(x).grad_fn.name())
    assert names[0] != names[1]
    torch.testing.assert_close(layer.train()(x), layer.eval()(x))


def test_a_bias_may_be_left_to_the_norm(where, monkeypatch):
    layer, x = Linear(D, OUT).to(where), torch.randn(N, D, device=where)
    left = deferred_bias(layer, x)
    assert left.bias is layer.bias
    torch.testing.assert_close(left.output + left.bias, layer(x))
    monkeypatch.setattr(dispatch, "disabled", {"fused_add_norm"})
    for kept in (deferred_bias(layer, x), deferred_bias(layer.eval(), x)):
        assert kept.bias is None
        torch.testing.assert_close(kept.output, layer(x))
