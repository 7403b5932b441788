import pytest
import torch

from kernels.plain import add_norm_with_sum as plain_add_norm_with_sum
from regard.kernels import dispatch, fused_add_norm
from regard.kernels.fused_add_norm import (
    LayerNormParams,
    add_norm,
    add_norm_with_sum,
    layer_norm,
)

N, D = 11, 24


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(fused_add_norm, "TILE_SIZE", 64)
    monkeypatch.setattr(fused_add_norm, "PROGRAMS", 3)


def given(device, *, stream=torch.float32, made=torch.float32):
    generator = torch.Generator().manual_seed(0)
    shapes = [(N, D), (N, D), (D,), (D,), (D,)]
    types = [stream, made, torch.float32, torch.float32, torch.float32]
    return [
        torch.randn(shape, generator=generator).to(device, dtype).requires_grad_()
        for shape, dtype in zip(shapes, types, strict=True)
    ]


def grads(outputs, inputs):
    generator = torch.Generator().manual_seed(1)
    ways = [torch.randn(N, D, generator=generator).to(x) for x in outputs]
    return torch.autograd.grad(outputs, inputs, ways)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize(("biased", "scaled"), [(True, False), (False, False), (True, True)])
@pytest.mark.parametrize("kind", ["post", "pre"])
def test_the_kernel_equals_the_formula(kind, biased, scaled, dropout, device, seed):
    x, y, weight, shift, bias = given(device)
    scales = (torch.arange(N, device=device) % 3) / 2.0
    how = {"bias": bias if biased else None, "dropout": dropout}
    how |= {"scales": scales} if scaled else {}
    wanted = plain_add_norm_with_sum(x, y, LayerNormParams(weight, shift), **how, seed=seed)
    if kind == "pre":
        found = add_norm_with_sum(x, y, LayerNormParams(weight, shift), **how)
    else:
        wanted, found = wanted[1:], (add_norm(x, y, LayerNormParams(weight, shift), **how),)
    torch.testing.assert_close(found, wanted)
    inputs = [x, y, weight, shift] + [bias] * biased
    torch.testing.assert_close(grads(found, inputs), grads(wanted, inputs), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("stream", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["post", "pre"])
def test_half_precision_is_close_to_the_formula(kind, stream, device, seed):
    inputs = given(device, stream=stream, made=torch.bfloat16)
    x, y, weight, shift, bias = inputs
    precise = [z.detach().double().requires_grad_() for z in inputs]
    how = {"dropout": 0.2}
    found = add_norm_with_sum(x, y, LayerNormParams(weight, shift), bias=bias, **how)
    px, py, pw, ps, pb = precise
    wanted = plain_add_norm_with_sum(px, py, LayerNormParams(pw, ps), bias=pb, **how, seed=seed)
    assert found[0].dtype == stream
    assert found[1].dtype == torch.bfloat16
    if kind == "post":
        found = (add_norm(x, y, LayerNormParams(weight, shift), bias=bias, **how),)
        wanted = wanted[1:]
    pairs = zip((*found, *grads(found, inputs)), (*wanted, *grads(wanted, precise)), strict=True)
    for one, other in pairs:
        assert (one.double() - other).norm() < 0.01 * other.norm()


def test_an_unused_output_adds_nothing_to_the_gradients(device, seed):
    x, y, weight, shift, _ = given(device)
    added, _ = add_norm_with_sum(x, y, LayerNormParams(weight, shift))
    to_x, to_y = grads((added,), (x, y))
    torch.testing.assert_close(to_x, to_y)
    assert to_x.norm() > 0
    _, normed = add_norm_with_sum(x, y, LayerNormParams(weight, shift))
    wanted = grads((add_norm(x, y, LayerNormParams(weight, shift)),), (x,))
    torch.testing.assert_close(grads((normed,), (x,)), wanted)


def test_the_norm_alone_equals_the_formula(device):
    x, _, weight, shift, _ = given(device)
    found = layer_norm(x, LayerNormParams(weight, shift, 1e-3), torch.float32)
    wanted = torch.nn.functional.layer_norm(x, (D,), weight, shift, 1e-3)
    torch.testing.assert_close(found, wanted)
    inputs = [x, weight, shift]
    torch.testing.assert_close(grads([found], inputs), grads([wanted], inputs))


@pytest.mark.parametrize("stream", [torch.float32, torch.bfloat16])
def test_the_norm_alone_is_computed_in_the_precision_that_is_asked_for(stream, device):
    x, _, weight, shift, _ = given(device, stream=stream)
    found = layer_norm(x, LayerNormParams(weight, shift), torch.bfloat16)
    assert found.dtype == torch.bfloat16
    precise = [z.detach().double().requires_grad_() for z in (x, weight, shift)]
    wanted = torch.nn.functional.layer_norm(precise[0], (D,), *precise[1:])
    ours, theirs = grads([found], [x, weight, shift]), grads([wanted], precise)
    assert [z.dtype for z in ours] == [stream, torch.float32, torch.float32]
    for one, other in [(found, wanted), *zip(ours, theirs, strict=True)]:
        assert (one.double() - other).norm() < 0.01 * other.norm()


def test_the_norm_of_no_rows_has_zeros_as_gradients(device):
    x, _, weight, shift, _ = given(device)
    found = layer_norm(x[:0], LayerNormParams(weight, shift), torch.float32)
    for grad in torch.autograd.grad(found.sum(), [weight, shift]):
        assert torch.equal(grad, torch.zeros(D, device=device))


def test_rows_too_wide_are_refused(device):
    x = torch.zeros(1, dispatch.MAX_NORM_WIDTH + 1, device=device)
    with pytest.raises(ValueError, match="at most 8192 numbers can be normed, got 8193"):
        add_norm(x, x, LayerNormParams(x[0], x[0]))
