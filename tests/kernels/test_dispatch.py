"""That a model trains with the kernels as it does without."""

import pytest
import torch

from regard.batching.collate import collate
from regard.kernels import dispatch, fused_add_norm, fused_linear
from regard.kernels.dispatch import next_power_of_two, use_kernel
from regard.layers.transformer_parts import Residual
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings
from regard.models.vision.swin import Swin, SwinSettings
from regard.models.vision.vit import Vit, VitSettings
from regard.training.loss import batch_loss
from regard.types import Pixels

SIZE = 40
SETTINGS = {"encoder_layers": 1, "decoder_layers": 1, "width": 32, "heads": 2, "feed_forward": 24}


@pytest.fixture(autouse=True)
def few_programs(device, monkeypatch):
    """The interpreter runs programs in turn: 5 are few, and still more than there are tiles."""
    if device.type == "cpu":
        for module in (fused_add_norm, fused_linear):
            monkeypatch.setattr(module, "PROGRAMS", 5)


def grads(model, batch, device):
    """The loss, and the gradient of each parameter."""
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        loss = batch_loss(model, batch, 0.1).loss
    return loss, torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoid", "rotary"])
def test_gradients_are_the_same_with_kernels_and_without(norm, positions, device, monkeypatch):
    torch.manual_seed(0)
    settings = TransformerSettings(**SETTINGS, dropout=0.0, norm=norm, positions=positions)
    model = Transformer(settings, SIZE, SIZE).to(device)
    batch = collate([[5, 6, 7], [8], [9] * 12], [[4, 5], [6, 7, 8], [9] * 10]).to(device)
    found, ours = grads(model, batch, device)
    monkeypatch.setattr(
        dispatch,
        "disabled",
        {"varlen_attention", "fused_add_norm", "fused_linear_relu", "cross_entropy"},
    )
    wanted, theirs = grads(model, batch, device)
    near = 1e-4 if device.type == "cpu" else 2e-2
    torch.testing.assert_close(found, wanted, rtol=near, atol=near)
    whole = torch.cat([grad.flatten() for grad in theirs]).norm()
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).norm() < near * whole


@pytest.mark.parametrize(
    "model",
    [
        Vit(VitSettings(picture_size=8, layers=2, width=32, heads=2, drop_path=0.5), 3),
        Swin(SwinSettings(picture_size=8, width=16, stages=(2, 1), heads=(2, 2), drop_path=0.5), 3),
    ],
    ids=["vit", "swin"],
)
def test_pictures_have_the_same_gradients_with_kernels_and_without(model, device, monkeypatch):
    pixels = torch.randint(0, 256, (5, 3, 8, 8), dtype=torch.uint8, device=device)
    model = model.to(device).train()

    def gradients():
        torch.manual_seed(0)  # which layers are left out
        model.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            answers = model(Pixels(pixels))
        answers.float().square().sum().backward()
        return answers, [p.grad for p in model.parameters()]

    found, ours = gradients()
    kernels = {"varlen_attention", "fused_add_norm", "fused_linear_gelu", "window_attention"}
    monkeypatch.setattr(dispatch, "disabled", kernels)
    wanted, theirs = gradients()
    near = 1e-4 if device.type == "cpu" else 3e-2
    torch.testing.assert_close(found, wanted, rtol=near, atol=near)
    whole = torch.cat([grad.flatten() for grad in theirs]).norm()
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).norm() < near * whole


@pytest.mark.parametrize("position", ["post", "pre"])
def test_torch_computes_norms_that_are_too_wide_for_the_kernel(position, device):
    size, on_gpu = dispatch.MAX_NORM_WIDTH + 1, device.type == "cuda"
    residual = Residual(size, position, 0.0).to(device)
    linear = torch.nn.Linear(4, size, device=device)
    x, y = (torch.randn(2, width, device=device) for width in (size, 4))
    with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
        y = y.bfloat16() if on_gpu else y
        found, wanted = (
            residual.train(mode).post_then_pre(x, y, linear, residual) for mode in (True, False)
        )
    torch.testing.assert_close(found, wanted)


def test_a_disabled_kernel_is_not_used(device, monkeypatch):
    x = torch.zeros(1, device=device, dtype=torch.float16)
    assert use_kernel("fused_add_norm", x)
    monkeypatch.setattr(dispatch, "disabled", {"fused_add_norm"})
    assert not use_kernel("fused_add_norm", x)
    assert use_kernel("varlen_attention", x)


@pytest.mark.parametrize(("size", "power"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1025, 2048)])
def test_the_next_power_of_two_is_the_smallest_that_holds_a_size(size, power):
    assert next_power_of_two(size) == power
    assert next_power_of_two(size, least=16) == max(16, power)
