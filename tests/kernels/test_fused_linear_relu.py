import pytest
import torch

from linears import given, grads
from regard.kernels import dispatch, fused_linear_relu
from regard.kernels.fused_linear_relu import Tiles, linear_relu, plain_linear_relu, use_linear_relu
from regard.layers.feed_forward import FeedForward


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(fused_linear_relu, "tiles", Tiles(rows=2, cols=16, warps=4, programs=3))


def test_the_kernel_is_the_formula(where):
    inputs = given(where)
    found, wanted = linear_relu(*inputs), plain_linear_relu(*inputs)
    assert (found == 0).any()
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(grads(found, inputs), grads(wanted, inputs))


def test_half_precision_has_slopes_in_the_precision_of_each(where):
    inputs = given(where, torch.bfloat16)
    found, wanted = linear_relu(*inputs), plain_linear_relu(*inputs)
    torch.testing.assert_close(found, wanted)
    for one, other in zip(grads(found, inputs), grads(wanted, inputs), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, atol=0.05, rtol=0.05)


def test_a_search_uses_it_where_no_slopes_are_wanted(where, monkeypatch):
    layer, x = FeedForward(8, 16, "relu").to(where).eval(), torch.randn(2, 3, 8, device=where)
    assert not use_linear_relu(x, training=False)
    wanted = layer(x).detach()
    with torch.no_grad():
        assert use_linear_relu(x, training=False)
        assert not use_linear_relu(x.double(), training=False)
        torch.testing.assert_close(layer(x), wanted)
        with torch.autocast(where.type, torch.bfloat16):
            assert not use_linear_relu(x, training=False)
        monkeypatch.setattr(dispatch, "disabled", {"fused_linear_relu"})
        assert not use_linear_relu(x, training=False)


def test_torch_knows_the_operators(where):
    inputs = given(where)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(fused_linear_relu._forward, tuple(inputs), test_utils=checks)
    out = linear_relu(*inputs).detach()
    torch.library.opcheck(
        fused_linear_relu._backward, (out, torch.ones_like(out)), test_utils=checks
    )


def test_another_number_of_rows_is_not_compiled_again(where):
    x, weight, bias = given(where)
    graphs = []

    def counting(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(linear_relu, backend=counting, dynamic=True, fullgraph=True)
    for rows in (5, 7, 11):
        some = x.detach()[:rows]
        torch.testing.assert_close(compiled(some, weight, bias), linear_relu(some, weight, bias))
    assert len(graphs) == 1
